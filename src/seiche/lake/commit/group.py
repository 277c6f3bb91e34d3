"""Transactions on their way into one root: each is planned on the tree as the ones before would leave it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from seiche.core.runtime import Runtime
from seiche.errors import ConflictError, RetryableConflict, SeicheError
from seiche.lake.commit.decided import decided
from seiche.lake.commit.edits import Planned
from seiche.lake.commit.intent import Intent, Member
from seiche.lake.objects import definitions, rows
from seiche.lake.objects.keys import transaction_key
from seiche.lake.objects.rows import TransactionRow
from seiche.lake.state import State
from seiche.lake.tree.latest import read_root
from seiche.lake.tree.root import millis
from seiche.lake.tree.transactions import TransactionRecord
from seiche.lake.tree.tree import Change

__all__ = ["Answer", "Group", "aborted", "name_winner"]

# How many versions are looked through, at most, for the one that was in the way.
_BLAMED = 100

Message = tuple[bytes, bytes | None, str]


@dataclass(frozen=True, slots=True)
class Answer:
    """What became of one transaction: the version that it made, or the error that says why it made none.

    `replayed` says that it had been committed before, by an earlier run of the same thing. `tables` are the versions
    of tables that it made, by their ids, as far as whoever decided it says so.
    """

    version: int | None = None
    error: SeicheError | None = None
    replayed: bool = False
    tables: Mapping[str, int] = field(default_factory=dict)


@dataclass(slots=True)
class Group:
    """Transactions on their way into the root after `base`; `state` is what it would be with those planned so far."""

    base: State
    state: State
    answers: dict[str, Answer] = field(default_factory=dict)
    messages: list[Message] = field(default_factory=list)
    files: dict[str, bytes] = field(default_factory=dict)
    planned: list[Planned] = field(default_factory=list)
    records: list[TransactionRecord] = field(default_factory=list)
    # The tree with all messages, if it is known already.
    change: Change | None = None
    rollback_to: int | None = None
    min_base: int = 0

    def admit(self, intent: Intent, runtime: Runtime) -> None:
        """Plan one transaction on top of those before it, or settle on its answer."""
        try:
            answer = _decided(intent, self.state)
            if answer is None:
                answer = self._join(intent, list(intent.plan(self.state, runtime)), runtime)
        except SeicheError as error:
            if isinstance(error, ConflictError):
                name_winner(error, intent, self.base)
            answer = Answer(error=error)
        self.answers[intent.id] = answer

    def _join(self, intent: Intent, planned: list[Planned], runtime: Runtime) -> Answer:
        state = self.state
        version = state.version + 1
        messages: list[Message] = []
        for key, value in _merged(planned).items():
            small, files = (None, {}) if value is None else _stowed(value, state, runtime)
            messages.append((key, small, intent.id))
            self.files |= files
        if intent.stream is not None:
            messages.append((intent.stream.key, intent.stream.row(state, version, intent.id), intent.id))
        keys = tuple(sorted(key for key, _, _ in messages))
        outcome = rows.encode(TransactionRow(version=version, decided_at_millis=millis(runtime.clock.now())))
        for member in intent.members or (Member(intent.id, intent.base, keys, intent.properties),):
            messages.append((transaction_key(member.id), outcome, member.id))
            self.records.append(
                TransactionRecord(
                    id=member.id,
                    base_version=member.base,
                    isolation=intent.isolation,
                    keys=member.keys,
                    properties=member.properties,
                )
            )
        for one in planned:
            if one.made is not None:
                self.files |= one.made.files
        self.planned += planned
        if intent.rollback_to is not None:
            self.rollback_to = intent.rollback_to
        self.min_base = max(self.min_base, intent.min_base)
        change = state.tree.apply(messages, runtime)
        # Several are applied once more, together: otherwise each would leave nodes that only the next one needs.
        self.change = None if self.messages else change
        self.messages += messages
        self.state = state.after(change.tree, self.files)
        made = (one.made.row for one in planned if one.made is not None)
        return Answer(version, tables={row.id: row.table_version for row in made})


def aborted(transaction_id: str, version: int) -> Answer:
    """The answer about a transaction that was decided against in this version."""
    return Answer(
        error=RetryableConflict(
            f"transaction {transaction_id} was aborted in version {version}.",
            remedy="Nothing was written. Begin a new transaction.",
            transaction_id=transaction_id,
            version=version,
        )
    )


def name_winner(error: ConflictError, intent: Intent, base: State) -> None:
    """Say in the error which transaction was in the way: the latest one since that wrote what this one wants to."""
    keys = intent.keys
    for version in range(base.version, max(intent.base, base.version - _BLAMED), -1):
        # Of a version that has expired meanwhile it is not known any more what it wrote.
        for record in read_root(base.store, version).transactions:
            if keys.intersection(record.keys or ()):
                error.message += f" That was transaction {record.id} in version {version} of the lake."
                error.details |= {"winner": record.id, "winner_version": version}
                return


def _stowed(value: bytes, state: State, runtime: Runtime) -> tuple[bytes, dict[str, bytes]]:
    if len(value) <= state.definition.row_max_size_bytes:
        return value, {}
    kind = rows.kind_of(value).__name__.removesuffix("Row").lower()
    return definitions.stow(value, kind, (), runtime, most_bytes=state.definition.row_max_size_bytes)


def _merged(planned: Sequence[Planned]) -> dict[bytes, bytes | None]:
    """All rows of one transaction. A name that one table leaves and another takes is taken."""
    merged: dict[bytes, bytes | None] = {}
    for key, value in (item for one in planned for item in one.rows.items()):
        if value is not None or key not in merged:
            merged[key] = value
    return merged


def _decided(intent: Intent, state: State) -> Answer | None:
    """The answer, if the transaction has been decided before: by an earlier attempt, another process, or an
    operator.
    """
    for member in intent.members:
        if state.outcome(member.id) is not None:
            # An error, so that they are taken apart: the others are not decided by that.
            raise RetryableConflict(f"transaction {member.id} was decided before.", transaction_id=member.id)
    found = None if intent.members else decided(intent.id, intent.base, state)
    if found is not None and found.outcome == "committed":
        return Answer(found.version, replayed=True)
    if found is not None:
        return aborted(intent.id, found.version)
    stream = None if intent.stream is None else intent.stream.already_in(state)
    return None if stream is None else Answer(stream.version, replayed=True)
