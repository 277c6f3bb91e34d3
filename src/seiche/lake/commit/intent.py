"""What a transaction asks to be committed: everything it wants, and everything that must still hold."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from uuid import UUID

from seiche.core.runtime import Runtime
from seiche.errors import RetryableConflict
from seiche.lake.commit.edits import AGAIN, Planned, TableEdit
from seiche.lake.commit.reads import ReadSet, what_it_is
from seiche.lake.objects.keys import TABLE
from seiche.lake.state import State, as_relation
from seiche.lake.streams import StreamClaim
from seiche.lake.tree.transactions import Isolation
from seiche.store.base import Data

__all__ = ["Intent", "Member", "RowEdit", "check_fence"]


@dataclass(frozen=True, slots=True)
class RowEdit:
    """A row that is neither a table nor anything that changes by itself: what was found there, and what is wanted."""

    found: bytes | None
    wanted: bytes | None


@dataclass(frozen=True, slots=True)
class Member:
    """A transaction whose changes were joined with those of others, and that is still recorded by itself."""

    id: str
    base: int
    keys: tuple[bytes, ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Intent:
    """One transaction, ready to be decided.

    `base` is the oldest version of the lake that anything in it was built on, and `seen` the one that its statements
    saw, if that is another.
    """

    id: str
    base: int
    isolation: Isolation = "snapshot"
    reads: ReadSet = field(default_factory=ReadSet)
    edits: Mapping[str, TableEdit] = field(default_factory=dict)
    rows: Mapping[bytes, RowEdit] = field(default_factory=dict)
    stream: StreamClaim | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    # Files that it names and that must be flushed to disk before the root that does.
    unflushed: tuple[str, ...] = ()
    # Files that it names and that are yet to be written. Their names are fresh.
    unwritten: Mapping[str, Data] = field(default_factory=dict)
    # The version whose objects the lake has again when this is committed, if it rolls the whole lake back.
    rollback_to: int | None = None
    # The fence that it raises, if it is part of an expiry or clean-up: who began below this version cannot commit any
    # more once this is committed.
    min_base: int = 0
    # The transactions that this is made of, if they are several: decided together or not at all, each recorded under
    # its own id. `base` is then the oldest of theirs, and `id` stands for all of them.
    members: tuple[Member, ...] = ()
    seen: int | None = None

    @property
    def keys(self) -> frozenset[bytes]:
        """The keys of the tree that it wrote or read."""
        found = {key for edit in self.edits.values() for key in (edit.key, edit.found_key) if key is not None}
        read = {key for keys in (self.reads.keys, self.reads.structural_keys) for key, _ in keys}
        return frozenset(found | read | self.rows.keys())

    def plan(self, state: State, runtime: Runtime) -> Iterator[Planned]:
        """What to write on top of `state`. Raises the conflict if what others did there leaves no room for it."""
        self._check_fence(state)
        self._check_reads(state)
        for key, edit in self.rows.items():
            if state.get(key) != edit.found:
                raise self._conflict(state, what_it_is(key), "was changed by another transaction")
            yield Planned({key: edit.wanted})
        freed = {table.found_key: table_id for table_id, table in self.edits.items() if table.renamed}
        for key, edit in self.rows.items():
            if key.startswith(TABLE) and edit.found is not None and edit.wanted is None:
                freed[key] = as_relation(edit.found).id
        own = UUID(self.id)
        for table_id, table in sorted(self.edits.items(), key=lambda one: one[1].is_planned_last):
            yield table.plan(state, str(runtime.derived_uuid(own, table_id)), runtime, freed)

    def _check_fence(self, state: State) -> None:
        check_fence(self.id, self.base, state)

    def _check_reads(self, state: State) -> None:
        if state.version == self.base and state.tree.root is state.root.node:
            return
        for changed in self.reads.changed_in(state, serializable=self.isolation == "serializable"):
            raise self._conflict(state, changed.what, "was read by this transaction and changed by another")

    def _conflict(self, state: State, name: str, what: str) -> RetryableConflict:
        return RetryableConflict(
            f"{name} {what} (began at version {self.base}, the lake is at {state.version}).",
            remedy=AGAIN,
            transaction_id=self.id,
            name=name,
            read_version=self.base,
            version=state.version,
        )


def check_fence(transaction_id: str, base: int, state: State) -> None:
    """What a transaction was built on may be on its way out: its files must not come back into a root."""
    if base < state.root.min_base:
        raise RetryableConflict(
            f"transaction {transaction_id} began at version {base}; versions below {state.root.min_base} have since"
            " been given up by an expiry or clean-up.",
            transaction_id=transaction_id,
            read_version=base,
            version=state.version,
        )
