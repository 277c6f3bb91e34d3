"""Branches of Lance tables: each is a table of the lake of its own, named `table@branch`, whose first version refers to
the files of the table that it began at.

So a branch has what every table of the lake has: commits together with others, time travel, rollback, clean-up, export.
Its rows say which table it is a branch of; the name is for people.
"""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

import lance_namespace as lance

from seiche.core.runtime import Runtime
from seiche.errors import InvalidInput, NotFound
from seiche.lake.care.restorable import check_restorable
from seiche.lake.commit.reads import Aspect
from seiche.lake.creating import location
from seiche.lake.engines.native_commit import NativeEdit
from seiche.lake.engines.native_manifest import NativeManifest
from seiche.lake.objects.keys import KeyRange, name_of, table_key
from seiche.lake.objects.names import Name, text
from seiche.lake.objects.rows import TableRow
from seiche.lake.state import State, as_relation
from seiche.lake.tree.root import millis
from seiche.lake.versions import LakeVersions
from seiche.store.prefix import below
from seiche.table.build import build
from seiche.table.format import file
from seiche.table.format.manifest import Manifest
from seiche.table.format.refs import MAIN, Branch, check_branch_name
from seiche.table.operations import Clone
from seiche.table.transaction import Transaction as TableTransaction

if TYPE_CHECKING:
    from seiche.lake.lake import Lake
    from seiche.lake.transaction import Transaction

__all__ = [
    "Start",
    "as_named",
    "branch_in",
    "branch_of",
    "branches",
    "branches_seen",
    "family",
    "first_version",
    "found_branch",
    "table_of",
    "wanted_branch",
]

_OF: Final = "seiche.branch.of"
_ROOT: Final = "seiche.branch.location"
_NAME: Final = "seiche.branch.name"
_FROM: Final = "seiche.branch.from"
_VERSION: Final = "seiche.branch.version"


def wanted_branch(request: Any) -> str | None:
    """The branch that a request is about; `None` for the main one."""
    given = request.get("branch") if isinstance(request, dict) else getattr(request, "branch", None)
    return None if given in (None, "", MAIN) else str(given)


def branch_in(name: Name, branch: str) -> Name:
    """What a branch of a table is called in the lake. Branches may have slashes in their names, tables may not."""
    return (*name[:-1], f"{name[-1]}@{check_branch_name(branch).replace('/', '~')}")


def branch_of(row: TableRow) -> str | None:
    """The name of the branch that a table is, `None` if it is none."""
    return row.properties.get(_NAME) if _OF in row.properties else None


def as_named(state: State, row: TableRow) -> TableRow:
    """The row of a table; of a former branch as that of any table.

    A branch is one as long as it has the name of one, beside the table that it is a branch of: the lake, and other
    protocols, may rename either of them and drop the table. On the desk of a table that does not know it pylance could
    not begin a branch of it, and would take the branches of that table for its own.
    """
    branch, key = branch_of(row), state.key_of(row.id)
    if branch is None or key is None:
        return row
    *outer, own = name_of(key)
    table = (*outer, own.rpartition("@")[0])
    root = state.relation(table)
    if root is not None and root.id == row.properties[_OF] and name_of(key) == branch_in(table, branch):
        return row
    return replace(row, properties=_without_branch(row))


def family(row: TableRow) -> tuple[str, str]:
    """Id and location of the table that all branches began at in the end: the table itself, if it is no branch."""
    if branch_of(row) is None:
        return row.id, row.location
    return row.properties[_OF], row.properties[_ROOT]


def table_of(row: TableRow) -> Branch:
    """What Lance keeps in the file of a branch."""
    version = int(row.properties[_VERSION])
    return Branch(
        parent_branch=row.properties.get(_FROM) or None,
        parent_version=version,
        identifier=((version, row.id.replace("-", "")),),
        created_at=row.created_at_millis // 1000,
    )


def first_version(row: TableRow) -> int:
    """The number of the version that a branch begins with: that of the version where it began."""
    return int(row.properties[_VERSION])


def branches(state: State, name: Name, row: TableRow) -> dict[str, tuple[Name, TableRow]]:
    """The branches of a table, by name."""
    return {found: (full, one) for full, one in _named_so(state, name) if (found := _branch(one, row)) is not None}


def branches_seen(transaction: "Transaction", name: Name) -> dict[str, Name]:
    """What the branches of a table are called in the lake, by name, as a transaction sees them that may have renamed
    them itself; `NotFound` if there is no such table.
    """
    row, span = transaction.named(name).row, _names_of_branches(name)
    # Who does something with all of them means also one that another makes meanwhile.
    transaction.reads.range(transaction.state, span, structural=True)
    found: dict[str, Name] = {}
    for key in sorted(
        {key for key, _ in transaction.state.scan(span)} | {key for key in transaction.names if key in span}
    ):
        with suppress(NotFound):  # a view, or gone
            branch = _branch(transaction.named(name_of(key)).row, row)
            if branch is not None:
                found[branch] = name_of(key)
    return found


def found_branch(state: State, name: Name, row: TableRow, branch: str) -> tuple[Name, TableRow]:
    """The table that a branch is; the protocol's own error if there is none."""
    full = branch_in(name, branch)
    one = state.relation(full)
    if not isinstance(one, TableRow) or _branch(one, row) != branch:
        raise lance.TableBranchNotFoundError(f"{text(name)} has no branch {branch}")
    return full, one


@dataclass(frozen=True, slots=True)
class Start:
    """A branch to be made: of the table `root`, beginning at a version of `parent`, which is `root` or a branch of it.

    `uuid` is that of the transaction that its first version shall have.
    """

    name: Name
    root: TableRow
    parent: TableRow
    branch: str
    version: int
    uuid: str

    def commit(self, lake: "Lake") -> TableRow:
        """Make the branch, once for each `uuid`; returns the table that it is."""
        return lake.run(self._run)

    def _run(self, transaction: "Transaction") -> TableRow:
        full, state = branch_in(self.name, self.branch), transaction.state
        there = state.relation(full)
        if isinstance(there, TableRow) and there.id == self._id:
            return there
        if there is not None:
            raise lance.TableBranchAlreadyExistsError(f"{text(self.name)} has a branch {self.branch}, or {text(full)}")
        key = state.key_of(self.parent.id)
        if key is None:
            raise NotFound(f"there is no table {text(self.name)}", table=text(self.name))
        transaction.check_free(full)
        transaction.reads.key(state, key, Aspect.IDENTITY, structural=True)
        parent = as_relation(state.get(key) or b"")
        if not isinstance(parent, TableRow) or not 0 < self.version <= parent.table_version:
            raise NotFound(f"{text(self.name)} has no version {self.version}", version=self.version)
        check_restorable(state, parent, self.version, table=text(self.name))
        row, native = self._first(state, parent, transaction.runtime)
        transaction.names[table_key(full)] = row.id
        transaction.put_edit(NativeEdit(row=row, key=table_key(full), native=native))
        return replace(row, table_version=self.version)

    @property
    def _id(self) -> str:
        return str(Runtime.derived_uuid(UUID(self.root.id), f"branch {self.branch} {self.uuid}"))

    def _first(self, state: State, parent: TableRow, runtime: Runtime) -> tuple[TableRow, NativeManifest]:
        source = LakeVersions(state.store, parent, state.manifests).read(self.version).manifest
        home = below(state.store, parent.location).native_uri()
        begun = TableTransaction(self.version, self.uuid, Clone(ref_version=self.version, ref_path=home))
        made = build(source, begun, runtime=runtime, managed=True)
        # It is a table here: whoever opens its directory must not look for the one that it is a branch of.
        header = made.copy_header()
        header.ClearField("branch")
        data = b"".join(file.encode(Manifest(header, made.fragments, made.index_section), begun.encode()))
        read = file.decode(data, path=self.branch)
        if read.transaction is None:
            raise InvalidInput("the transaction of a branch is missing")
        row = TableRow(
            id=self._id,
            location=location(branch_in(self.name, self.branch), self._id),
            table_version=self.version - 1,
            logical_version=parent.logical_version,
            created_at_millis=millis(runtime.clock.now()),
            properties={
                **_without_branch(parent),
                _OF: self.root.id,
                _ROOT: self.root.location,
                _NAME: self.branch,
                _FROM: branch_of(as_named(state, parent)) or "",
                _VERSION: str(self.version),
            },
        )
        return row, NativeManifest(data, read.manifest, read.transaction)


def _without_branch(row: TableRow) -> dict[str, str]:
    return {name: value for name, value in row.properties.items() if not name.startswith("seiche.branch.")}


def _branch(one: TableRow, row: TableRow) -> str | None:
    return branch_of(one) if one.properties.get(_OF) == row.id else None


def _named_so(state: State, name: Name) -> Iterator[tuple[Name, TableRow]]:
    """The tables whose names begin as those of branches do."""
    for key, value in state.scan(_names_of_branches(name)):
        found = as_relation(value)
        if isinstance(found, TableRow):
            yield name_of(key), found


def _names_of_branches(name: Name) -> KeyRange:
    """The keys of all names that branches of a table can have: `@` comes right before `A`."""
    return KeyRange(table_key((*name[:-1], f"{name[-1]}@")), table_key((*name[:-1], f"{name[-1]}A")))
