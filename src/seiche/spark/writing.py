"""Append and overwrite by Spark: each partition of a data frame is written by the worker that computes it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING

import pyarrow as pa

from seiche.core.runtime import SYSTEM
from seiche.spark.address import Address
from seiche.spark.jobs import Batches, executor
from seiche.spark.narrow import collected_rows
from seiche.spark.types import arrow_schema, conform_shown, settled
from seiche.table.change import Change
from seiche.table.data.append import still_fits
from seiche.table.data.write import Limits, Written, write_rows
from seiche.table.format.manifest_pb2 import DataFragment, Field
from seiche.table.format.manifest_pb2 import Manifest as Header
from seiche.table.format.schema import metadata_from_arrow, writable_fields
from seiche.table.operations import Append, Overwrite
from seiche.table.snapshot import Snapshot

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = [
    "FrameAppending",
    "FrameOverwriting",
    "Target",
    "frame_schema",
    "overwriting",
    "target_of",
    "write_batches",
    "write_frame",
    "written_fragments",
]


@dataclass(frozen=True, slots=True)
class Target:
    """Where rows go, and as what: a place, the fields of the table under their ids, and its columns. Can be pickled."""

    address: Address
    header: bytes
    schema: pa.Schema
    limits: Limits

    @property
    def header_fields(self) -> tuple[bytes, ...]:
        """What the rows are written as: the fields, and the version of the format."""
        header = Header.FromString(self.header)
        return (header.data_format.SerializeToString(), *(one.SerializeToString() for one in header.fields))

    def write(self, batches: Iterator[pa.RecordBatch]) -> Written:
        """Write rows whose columns are all or some of the table's, in its order; durable when this returns."""
        first = next(batches, None)
        if first is None:
            return Written()
        rows = map(settled, chain((first,), batches))
        return write_rows(self.address.open(), Header.FromString(self.header), first.schema, rows, self.limits, SYSTEM)


def target_of(snapshot: Snapshot, limits: Limits, schema: pa.Schema | None = None) -> Target:
    """The table at this version as a place to write to; with another `schema`, as if it had that."""
    header = Header(version=snapshot.version, data_format=snapshot.manifest.header.data_format)
    if schema is None:
        header.fields.extend(snapshot.manifest.header.fields)
    else:
        header.fields.extend(_fields(schema, snapshot))
    columns = snapshot.schema if schema is None else schema
    return Target(Address.of(snapshot.store), header.SerializeToString(), columns, limits)


@dataclass(frozen=True, slots=True)
class FrameWritten(Written):
    """What was written of a frame, and by how many executors."""

    executors: int = 0


@dataclass(frozen=True, slots=True)
class _PartWritten:
    fragments: tuple[bytes, ...]
    large: tuple[int, ...]
    executor: str


def write_frame(frame: "DataFrame", target: Target) -> FrameWritten:
    """Write all rows of a frame. `InvalidInput` before anything runs if a column does not fit."""
    conform_shown(frame_schema(frame), target.schema)
    parts = collected_rows(frame, partial(_write_part, target))
    return FrameWritten(
        written_fragments(one for part in parts for one in part.fragments).fragments,
        tuple(size for part in parts for size in part.large),
        executors=len({part.executor for part in parts}),
    )


def written_fragments(encoded: Iterator[bytes]) -> Written:
    """What workers have written, from what they report."""
    return Written(tuple(map(DataFragment.FromString, encoded)))


def frame_schema(frame: "DataFrame") -> pa.Schema:
    """The columns of a frame in Arrow's types; `InvalidInput` for types that have none."""
    return arrow_schema(frame.schema)


class FrameAppending:
    """Prepares an Append of the rows of a data frame. They are written once: after a conflict the same files are
    offered again.
    """

    def __init__(self, frame: "DataFrame", limits: Limits) -> None:
        self._frame = frame
        self._limits = limits
        self._written: tuple[Header, FrameWritten] | None = None

    def forget(self) -> None:
        """Write the rows anew."""
        self._written = None

    def __call__(self, snapshot: Snapshot) -> Change | None:
        if self._written is None or not still_fits(self._written[1], self._written[0], snapshot):
            written = write_frame(self._frame, target_of(snapshot, self._limits))
            self._written = snapshot.manifest.header, written
        _, written = self._written
        if not written.fragments:
            return None
        notes = {"executors": written.executors}
        return Change(
            Append(written.fragments), rows=written.rows, files=written.files, bytes=written.bytes, notes=notes
        )


class FrameOverwriting:
    """Prepares an Overwrite by the rows of a data frame: under the table's own schema, or the one that is given."""

    def __init__(
        self, frame: "DataFrame", schema: pa.Schema | None, config: Mapping[str, str] | None, limits: Limits
    ) -> None:
        self._frame = frame
        self._schema = schema
        self._config = dict(config or {})
        self._limits = limits
        self._written: tuple[Target, Written] | None = None

    def forget(self) -> None:
        """Write the rows anew."""
        self._written = None

    def __call__(self, snapshot: Snapshot) -> Change:
        target = target_of(snapshot, self._limits, snapshot.schema if self._schema is None else self._schema)
        if self._written is None or self._written[0] != target:
            self._written = target, write_frame(self._frame, target)
        return overwriting(self._written[1], target.schema, snapshot, self._config)


def overwriting(written: Written, schema: pa.Schema, snapshot: Snapshot, config: Mapping[str, str]) -> Change:
    """The change that puts these rows in the place of all that a table has."""
    operation = Overwrite(
        written.fragments,
        tuple(_fields(schema, snapshot)),
        metadata_from_arrow(schema),
        config_upsert_values=dict(config),
    )
    return Change(operation, rows=written.rows, files=written.files, bytes=written.bytes)


def _fields(schema: pa.Schema, snapshot: Snapshot) -> list[Field]:
    version = snapshot.manifest.header.data_format.version
    return list(writable_fields(schema, data_version=version) if version else writable_fields(schema))


def _write_part(target: Target, batches: Batches) -> Iterator[_PartWritten]:
    written = write_batches(target, batches)
    if written.fragments:
        yield _PartWritten(tuple(one.SerializeToString() for one in written.fragments), written.large, executor())


def write_batches(target: Target, batches: Batches) -> Written:
    """Write batches as Spark gives them: columns in any order, in the types of Spark. In a worker."""
    full = (batch for batch in batches if batch.num_rows)
    first = next(full, None)
    if first is None:
        return Written()
    made = conform_shown(first.schema, target.schema)
    return target.write(made.batches(chain((first,), full)))
