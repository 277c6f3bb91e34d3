"""What index is wanted, and whether the table can have it."""

from collections.abc import Mapping, Sequence
from typing import Any

from seiche.core.given import text
from seiche.errors import AlreadyExists, InvalidInput
from seiche.table.data.index.build import SCALAR, VECTOR, IndexTask
from seiche.table.data.portion import Portion
from seiche.table.format.index_details import SINGLETONS
from seiche.table.format.logical_types import is_dictionary
from seiche.table.format.manifest import Manifest
from seiche.table.format.manifest_pb2 import DataFragment, IndexMetadata
from seiche.table.preparing.fields import named
from seiche.table.snapshot import Snapshot

__all__ = ["IndexPlan"]

_ALIASES = {"FTS": "INVERTED"}


class IndexPlan:
    """What index is wanted: on which column, of which kind, under which name."""

    def __init__(
        self, column: str, index_type: str, name: str | None, options: Mapping[str, Any], *, replace: bool
    ) -> None:
        given: object = index_type
        kind = given.upper() if isinstance(given, str) else ""
        self.index_type = _ALIASES.get(kind, kind)
        if self.index_type not in (*SCALAR, *VECTOR):
            known = ", ".join((*SCALAR, *VECTOR))
            raise InvalidInput(f"there is no index of type {index_type!r}", remedy=f"Use one of {known}.")
        self.column = column
        self.name = f"{column}_idx" if name is None else text(name, "the name of an index")
        if not self.name or self.name in SINGLETONS:
            raise InvalidInput(
                f"an index cannot be named {self.name!r}",
                remedy=f"Without `name=` it is `{column}_idx`; {' and '.join(sorted(SINGLETONS))} are taken.",
                index=self.name,
            )
        self.options = dict(options)
        self.replace = replace

    def check(self, manifest: Manifest) -> tuple[IndexMetadata, ...]:
        """The segments that it takes the place of; `InvalidInput` or `AlreadyExists` if it cannot be made."""
        self._check_values(manifest)
        before = tuple(one for one in manifest.indices if one.name == self.name)
        if before and not self.replace:
            raise AlreadyExists(
                f"there is an index {self.name!r} already",
                remedy="Use `replace=True` to build it anew, or another name.",
                index=self.name,
            )
        return before

    def _check_values(self, manifest: Manifest) -> None:
        """`InvalidInput` for values from which native code builds what answers wrongly, or cannot be kept up."""
        column = named(manifest.header.fields, self.column)
        if column.logical_type == "null":
            raise InvalidInput(
                f"there is no index on column {self.column!r} of type null", remedy="Use another column."
            )
        inside = (column, *(one for one in manifest.header.fields if one.parent_id == column.id))
        if any(is_dictionary(one.logical_type) for one in inside):
            raise InvalidInput(
                f"there is no index on column {self.column!r}: its values are coded with a dictionary",
                remedy="Cast the column with `alter_columns`, or index another one.",
                column=self.column,
            )

    def task(self, snapshot: Snapshot, fragments: Sequence[DataFragment]) -> IndexTask:
        """The work of building the segment for these fragments."""
        portion = Portion.of(snapshot, fragments)
        return IndexTask(portion, self.column, self.index_type, self.name, self.options)
