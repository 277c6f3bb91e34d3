"""Rows on their way into new fragments: what they are made of, where they came from, and their row ids."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from seiche.table.data.blobs import as_blobs, is_binary, is_blob
from seiche.table.data.conform import coded
from seiche.table.data.scanning import ADDRESS, ROW_ID
from seiche.table.data.write import Written
from seiche.table.format.manifest_pb2 import DataFragment
from seiche.table.format.row_ids import RowIds

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Moved", "Places", "stored_form"]


@dataclass(frozen=True, slots=True)
class Places:
    """Some rows of a table: where they are, and in a table with stable row ids who."""

    addresses: "NDArray[np.uint64]"
    row_ids: "NDArray[np.uint64] | None" = None

    @classmethod
    def of(cls, batch: pa.RecordBatch) -> "Places":
        """The rows of a batch that has the system columns."""
        row_ids = batch.column(ROW_ID).to_numpy() if ROW_ID in batch.schema.names else None
        return cls(batch.column(ADDRESS).to_numpy(), row_ids)

    @classmethod
    def joined(cls, parts: Sequence["Places"], *, stable_row_ids: bool) -> "Places":
        """All of them, in this order."""
        none = np.empty(0, np.uint64)
        addresses = np.concatenate([none, *(part.addresses for part in parts)])
        if not stable_row_ids:
            return cls(addresses)
        return cls(addresses, np.concatenate([none, *(part.row_ids for part in parts if part.row_ids is not None)]))

    def at(self, which: "NDArray[np.int64] | NDArray[np.bool_]") -> "Places":
        """Those at these positions, or where the mask is true."""
        return Places(self.addresses[which], None if self.row_ids is None else self.row_ids[which])

    def __len__(self) -> int:
        return len(self.addresses)


@dataclass(slots=True)
class Moved:
    """Collects where rows came from, in the order in which they are written."""

    stable_row_ids: bool
    _parts: list[Places] = field(default_factory=list)

    @property
    def system_columns(self) -> dict[str, str]:
        """What a scan must give besides the values."""
        return {ADDRESS: ADDRESS, ROW_ID: ROW_ID} if self.stable_row_ids else {ADDRESS: ADDRESS}

    def note(self, places: Places) -> None:
        """Note the rows that are written next."""
        self._parts.append(places)

    @property
    def places(self) -> Places:
        """All rows noted so far."""
        return Places.joined(self._parts, stable_row_ids=self.stable_row_ids)

    def with_row_ids(self, written: Written) -> tuple[DataFragment, ...]:
        """The fragments that were written, with the ids of the rows that moved into them.

        These come first; rows behind them are new, and get theirs when the manifest is built.
        """
        row_ids = self.places.row_ids
        return written.fragments if row_ids is None else tuple(_with_row_ids(written.fragments, row_ids))


def _with_row_ids(fragments: Sequence[DataFragment], row_ids: "NDArray[np.uint64]") -> list[DataFragment]:
    made = []
    start = 0
    for fragment in fragments:
        copy = DataFragment()
        copy.CopyFrom(fragment)
        own = row_ids[start : start + fragment.physical_rows]
        if len(own):
            copy.inline_row_ids = RowIds(own).encode()
        start += fragment.physical_rows
        made.append(copy)
    return made


def stored_form(values: pa.Array, field: pa.Field) -> pa.Array:
    """Values as they were read, in the form in which the column is written.

    Blobs differ: they are read as bytes, and the newer kind is written as bytes or the address of a file. So do
    dictionaries, of which only the values are read from a version that is not published.
    """
    if values.type == field.type:
        return values
    if not isinstance(field.type, pa.BaseExtensionType):
        return coded(values, field.type)
    if is_blob(field.type) and is_binary(values.type):
        return as_blobs(values, field.type)
    return pa.ExtensionArray.from_storage(field.type, values)
