"""Data sources of Spark that do nothing: what Spark itself takes for one in Python, whatever is behind it."""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

__all__ = ["Nothing"]

# As many rows as the lake's source hands over at a time.
_ROWS = 1 << 17


class Nothing(DataSource):
    """Rows that are written are dropped; rows that are read, of one column `x`, lie in memory. Options `rows` and
    `partitions` say how many are read.
    """

    @classmethod
    def name(cls) -> str:
        return "nothing"

    def schema(self) -> str:
        return "x double"

    def reader(self, schema: StructType) -> DataSourceReader:
        return _Memory(int(self.options["rows"]), int(self.options["partitions"]))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        return _Dropped()


class _Memory(DataSourceReader):
    def __init__(self, rows: int, partitions: int) -> None:
        self._rows = rows
        self._partitions = partitions

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(number) for number in range(self._partitions)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        batch = pa.RecordBatch.from_arrays([pa.array([0.5]).take(pa.repeat(pa.scalar(0), _ROWS))], names=["x"])
        left = self._rows // self._partitions
        while left:
            yield batch.slice(0, min(left, _ROWS))
            left -= min(left, _ROWS)


class _Dropped(DataSourceArrowWriter):
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        for _ in iterator:
            pass
        return WriterCommitMessage()
