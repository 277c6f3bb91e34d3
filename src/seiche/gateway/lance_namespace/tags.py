"""Tags of Lance tables: names for versions of one table, which do not expire as long as they have one.

Each is a tag of the lake, on a version of it that has that version of the table: so all that keeps tagged versions of
the lake keeps those of tables too, and a rollback leaves them as they are.
"""

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import lance_namespace as lance

from seiche.core.runtime import Runtime
from seiche.errors import NotFound
from seiche.lake.care.given_up import GivenUp
from seiche.lake.commit.edits import Planned
from seiche.lake.commit.intent import Intent
from seiche.lake.objects import rows
from seiche.lake.objects.keys import KeyRange, tag_key
from seiche.lake.objects.rows import TableRow, TagRow
from seiche.lake.pins import check_kept
from seiche.lake.state import State
from seiche.lake.tree.root import millis
from seiche.lake.versions import manifests
from seiche.table.format.refs import check_tag_name

if TYPE_CHECKING:
    from seiche.lake.lake import Lake

__all__ = ["TableTag", "key_of", "keys_of", "put_tag", "remove_tag", "tags"]

_TABLE: Final = "table"
_VERSION: Final = "version"
_BRANCH: Final = "branch"


@dataclass(frozen=True, slots=True)
class TableTag:
    """A version of a table, or of a branch of it, and when it was named."""

    version: int
    branch: str | None = None
    created_at_millis: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Naming(Intent):
    """Gives a name to a version of the lake, on behalf of a table; `replaces` says whether it may have one already."""

    key: bytes
    tag: str
    row: TagRow | None
    replaces: bool = False

    def plan(self, state: State, runtime: Runtime) -> Iterator[Planned]:
        there = state.get(self.key) is not None
        if there and not self.replaces:
            raise lance.TableTagAlreadyExistsError(f"there is a tag {self.tag} already")
        if not there and (self.replaces or self.row is None):
            raise lance.TableTagNotFoundError(f"there is no tag {self.tag}")
        if self.row is not None:
            if state.table_by_id(self.row.properties[_TABLE]) is None:
                raise lance.TableNotFoundError(f"the table that is to have the tag {self.tag} was dropped")
            check_kept(state, self.row.version)
        yield Planned({self.key: None if self.row is None else rows.encode(self.row)})


def key_of(table: TableRow, tag: str) -> bytes:
    """The key of the tree under which a tag of a table stands."""
    return tag_key(f"{table.id}#{tag}")


def keys_of(table: TableRow) -> KeyRange:
    """Where all tags of a table stand."""
    return KeyRange(tag_key(f"{table.id}#"), tag_key(f"{table.id}$"))


def tags(state: State, table: TableRow) -> dict[str, TableTag]:
    """The tags of a table, by name."""
    span, found = keys_of(table), {}
    for key, value in state.scan(span):
        row = rows.decode(value, TagRow)
        properties = row.properties
        found[key[len(span.start) :].decode()] = TableTag(
            int(properties[_VERSION]), properties.get(_BRANCH) or None, row.created_at_millis
        )
    return found


def put_tag(
    lake: "Lake", table: TableRow, line: TableRow, tag: str, version: int, branch: str | None, *, replaces: bool
) -> None:
    """Give a version of `line`, which is the table or a branch of it, a name. It is kept from then on."""
    check_tag_name(tag)
    state = lake.state()
    row = TagRow(
        version=_version_with(state, line, version),
        created_at_millis=millis(lake.states.runtime.clock.now()),
        properties={_TABLE: table.id, _VERSION: str(version), _BRANCH: branch or ""},
    )
    lake.decide(_naming(lake, state, table, tag, row, replaces=replaces))


def remove_tag(lake: "Lake", table: TableRow, tag: str) -> None:
    """Take a name away. What it stood for goes when nothing else needs it."""
    lake.decide(_naming(lake, lake.state(), table, tag, None, replaces=True))


def _naming(lake: "Lake", state: State, table: TableRow, tag: str, row: TagRow | None, *, replaces: bool) -> _Naming:
    key = key_of(table, tag)
    return _Naming(id=str(lake.states.runtime.uuid()), base=state.version, key=key, tag=tag, row=row, replaces=replaces)


def _version_with(state: State, line: TableRow, version: int) -> int:
    """A version of the lake that keeps this version of a table; `NotFound` if none does any more.

    That is the one that made it. If that one has expired, an earlier one keeps it too: all versions of a table are kept
    from the oldest on that a kept version of the lake has.
    """
    kept = list(GivenUp.of(state).versions.missing(state.version + 1))
    at = bisect_left(kept, version, key=lambda one: _table_version(state, one, line.id))
    found = state.table_at(kept[at], line.id) if at < len(kept) else None
    if found is not None and manifests(found) and version >= manifests(found)[0][0]:
        return kept[at]
    if found is None or at == 0 or not _table_version(state, kept[at - 1], line.id):
        raise NotFound(f"the lake does not keep version {version} of the table", version=version)
    return kept[at - 1]


def _table_version(state: State, version: int, table_id: str) -> int:
    found = state.table_at(version, table_id)
    return 0 if found is None else found.table_version
