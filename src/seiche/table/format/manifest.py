"""One version of a table as an immutable value."""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import TypeAlias

from google.protobuf.message import DecodeError

from seiche.errors import Corrupt
from seiche.table.format import manifest_pb2 as pb
from seiche.table.format.flags import STABLE_ROW_IDS
from seiche.table.format.fragments import Fragments

__all__ = ["STABLE_ROW_IDS", "Manifest"]

FieldIds: TypeAlias = tuple[frozenset[int], frozenset[int]]


class Manifest:
    """Schema, fragments, indices, counters and settings of one version.

    Immutable: the header message and everything in it belong to the manifest and must not be changed. To make the next
    one, take `copy_header()`, change the copy, and build a new `Manifest` from it. The index section is part of the
    value, because it is part of the file and changes with it.
    """

    __slots__ = ("_field_ids", "_indices", "_source", "fragments", "header", "index_section")

    def __init__(
        self,
        header: pb.Manifest,
        fragments: Fragments,
        indices: Iterable[pb.IndexMetadata] | bytes = b"",
        *,
        source: str = "",
        field_ids: FieldIds | None = None,
    ) -> None:
        """Take ownership of `header`, whose own `fragments` must be empty; indices as messages or as stored.

        `source` is the file that it was read from, for errors that show up later. `field_ids` are those of another
        version with the same schema, which need not be found out again.
        """
        # Everything but fragments and indices. For reading only.
        self.header = header
        self._source = source
        self._field_ids = field_ids
        self.fragments = fragments
        # The indices as stored; empty if there are none.
        self.index_section: bytes
        self._indices: tuple[pb.IndexMetadata, ...] | None
        if isinstance(indices, bytes):
            self.index_section = indices
            self._indices = None if indices else ()
        else:
            self._indices = tuple(indices)
            self.index_section = pb.IndexSection(indices=self._indices).SerializeToString()

    def copy_header(self) -> pb.Manifest:
        """A header of one's own to change."""
        copy = pb.Manifest()
        copy.CopyFrom(self.header)
        return copy

    @property
    def indices(self) -> tuple[pb.IndexMetadata, ...]:
        """The index segments, in stored order."""
        if self._indices is None:
            try:
                self._indices = tuple(pb.IndexSection.FromString(self.index_section).indices)
            except DecodeError as error:
                raise self._broken(f"the index section cannot be decoded: {error}") from error
        return self._indices

    @property
    def field_ids(self) -> FieldIds:
        """The ids of all fields, and of those that must have values."""
        if self._field_ids is None:
            fields = self.header.fields
            mandatory = frozenset(field.id for field in fields if not field.nullable)
            self._field_ids = frozenset(field.id for field in fields), mandatory
        return self._field_ids

    @property
    def version(self) -> int:
        return self.header.version

    @property
    def timestamp(self) -> datetime:
        """When the writer says it made this version."""
        try:
            return self.header.timestamp.ToDatetime(tzinfo=UTC)
        except (ValueError, OverflowError) as error:
            raise self._broken(f"the timestamp is not a time: {error}") from error

    @property
    def max_fragment_id(self) -> int:
        """The largest fragment id ever given out, -1 if none."""
        if self.header.HasField("max_fragment_id"):
            return max(self.header.max_fragment_id, self.fragments.last_id)
        # Writers may leave the counter out, and pylance then takes the largest id in use. Those who did also left
        # fragments in any order, and only decoding them puts the largest last.
        self.fragments.decoded()
        return self.fragments.last_id

    @property
    def has_stable_row_ids(self) -> bool:
        return bool(self.header.reader_feature_flags & STABLE_ROW_IDS)

    def _broken(self, problem: str) -> Corrupt:
        where = f"{self._source}, version {self.version}" if self._source else f"version {self.version}"
        return Corrupt(
            f"{where}: {problem}",
            remedy="The manifest is damaged. Restore the file from a copy, or open an older version.",
            path=self._source,
            offset=self.header.index_section,
        )

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Manifest)
            and self.header == other.header
            and self.fragments == other.fragments
            and self.indices == other.indices
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Manifest(version {self.version}, {len(self.fragments)} fragments, {len(self.indices)} indices)"
