"""`df.writeStream.format("seiche")`: a stream into one table, each batch once."""

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from seiche.errors import InvalidInput
from seiche.lake.lake import Lake
from seiche.lake.streams import StreamClaim
from seiche.spark.options import Options
from seiche.spark.stream import PLANNED, check_stream, is_repetition, planned_at, query_of_checkpoint
from seiche.spark.table_writer import FragmentsWritten, TableWriter

__all__ = ["StreamWriter"]


class StreamWriter(DataSourceStreamArrowWriter):
    """Appends the rows of each batch, or with the output mode `complete` replaces all by them.

    The number of the batch is committed with the rows, so that a batch that is run again changes nothing.
    """

    def __init__(self, options: Options, schema: StructType, *, overwrite: bool) -> None:
        location = options.values.get("checkpointlocation")
        if not location:
            raise InvalidInput(
                "the stream has no checkpoint, and its batches could not be told apart",
                remedy='Give .option("checkpointLocation", ...).',
            )
        self._location = location
        self._options = options
        self._stream = options.values.get("stream")
        if self._stream is not None:
            check_stream(self._stream)
        self._writer = TableWriter(options, schema, overwrite=overwrite)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return self._writer.write(iterator)

    def commit(self, messages: "list[WriterCommitMessage | None]", batchId: int) -> None:  # noqa: N803
        """One transaction with the rows and the number of the batch."""
        query = query_of_checkpoint(self._location, self._options.storage)
        planned = planned_at(self._location, batchId, self._options.storage)
        claim = StreamClaim(self._stream or f"spark:{query}", batchId, query)
        with self._options.open(writing=True) as lake:
            if is_repetition(lake, claim, planned):
                return
            _check_gap(lake, claim)
        self._writer.commit_as(
            [one for one in messages if isinstance(one, FragmentsWritten)],
            stream=claim.stream,
            epoch=batchId,
            owner=query,
            properties={PLANNED: planned} if planned else None,
        )

    def abort(self, messages: "list[WriterCommitMessage | None]", batchId: int) -> None:  # noqa: N803
        """Nothing: Spark calls it also when the commit has happened."""


def _check_gap(lake: Lake, claim: StreamClaim) -> None:
    """Raise if batches of this query are not there that Spark takes for done: each is committed here, an empty one too,
    and Spark does not give any of them again.
    """
    last = claim.find(lake.state())
    if last is None or last.owner != claim.owner or claim.epoch <= last.epoch + 1:
        return
    raise InvalidInput(
        f"stream {claim.stream!r}: this is batch {claim.epoch}, and the last one that the lake has is batch"
        f" {last.epoch}: the lake was put back to an earlier state, and what came between is not in it",
        remedy="Nothing was written. Put the checkpoint back to the same time; or start with an empty one, under"
        " another stream name if it has one, behind what the lake has.",
        stream=claim.stream,
        epoch=last.epoch,
        version=last.version,
    )
