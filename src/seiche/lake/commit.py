"""The lake's commit: one or more transactions become one root, or each learns why not."""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from seiche.core.retry import Patience
from seiche.core.runtime import Runtime
from seiche.errors import ConflictError, RetryableConflict, SeicheError
from seiche.lake.edits import Planned
from seiche.lake.intent import Intent, Member
from seiche.lake.made import Made
from seiche.lake.objects import definitions, rows
from seiche.lake.objects.keys import transaction_key
from seiche.lake.objects.rows import TransactionRow
from seiche.lake.publish import Publisher
from seiche.lake.state import State
from seiche.lake.states import States
from seiche.lake.tree import transactions
from seiche.lake.tree.latest import read_root, write_hint
from seiche.lake.tree.root import millis
from seiche.lake.tree.swap import Lost, publish, stage
from seiche.lake.tree.transactions import TransactionRecord
from seiche.lake.tree.tree import Change
from seiche.store.kept_turns import KeptTurns

__all__ = ["Answer", "Committer"]

log = logging.getLogger("seiche.lake")

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
class _Group:
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


@dataclass(frozen=True, slots=True)
class Committer:
    """Commits to one lake. All that decides is the root: who puts it has committed, nobody else has."""

    states: States
    publisher: Publisher
    runtime: Runtime
    patience: Patience
    turns: KeptTurns = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "turns", KeptTurns(self.states.store, self.runtime))

    def commit(self, intent: Intent) -> Answer:
        """Decide one transaction; raises the error if it was not committed."""
        (answer,) = self.commit_group([intent])
        if answer.error is not None:
            raise answer.error
        return answer

    def commit_group(
        self, intents: Sequence[Intent], decided: Callable[[list[Answer]], None] | None = None
    ) -> list[Answer]:
        """Decide several transactions with one root, as if they had come one after the other in this order.

        Nobody is told that he lost before the root that he lost against is durable; if that root loses itself, the
        whole group is planned again. `decided` gets the answers as soon as they are for good, before that is published
        for plain readers, who are one version behind until then.
        """
        # What the statements wrote is flushed once for all attempts: while one waits for a turn, or else together with
        # what is staged, so that the disk is waited for once.
        unflushed = [path for intent in intents for path in intent.unflushed]
        flush = partial(self._flush, unflushed)
        if _is_careful(intents):
            flush()
        staged: set[str] = set()
        for attempt in self.patience.tries(self.runtime):
            with self.turns.one(flush) as waited:
                guessed = attempt == 1 and not waited
                base = self._base(intents) if guessed else self.states.latest()
                group = _Group(base, base)
                for intent in intents:
                    self._admit(intent, group)
                if guessed and any(answer.error is not None for answer in group.answers.values()):
                    continue  # the version that it was tried on may have expired and been cleared away meanwhile
                if not group.records or self._put(group, staged, unflushed):
                    answers = [group.answers[intent.id] for intent in intents]
                    if decided is not None:
                        decided(answers)
                    self._follow_up(group)
                    return answers
        version = self.states.known.version
        outrun = RetryableConflict(
            f"in {self.patience.attempts} attempts other writers were faster each time; the lake is now at version"
            f" {version}.",
            version=version,
            reason="outrun",
        )
        return [Answer(error=outrun)] * len(intents)

    def _base(self, intents: Sequence[Intent]) -> State:
        """The version to begin with. Where nobody else seems to be, a look for a newer one is saved: the root decides.

        That it was quiet when the transaction began is a guess about the time since, and costs one attempt if wrong.
        """
        known = self.states.known
        if self.states.quiet and not _is_careful(intents) and all(intent.base == known.version for intent in intents):
            return known
        return self.states.latest()

    def _flush(self, paths: list[str]) -> None:
        """See to it that files of statements last, and need not be seen to again."""
        if paths:
            self.states.store.flush(paths)
            paths.clear()

    def abort(self, transaction_id: str) -> None:
        """See to it that a transaction that is not decided yet is decided against, by a root that says so."""
        for _ in self.patience.tries(self.runtime):
            with self.turns.one():
                base = self.states.latest()
                if base.outcome(transaction_id) is not None:
                    return
                row = TransactionRow(
                    version=base.version + 1, outcome="aborted", decided_at_millis=millis(self.runtime.clock.now())
                )
                group = _Group(base, base)
                group.messages.append((transaction_key(transaction_id), rows.encode(row), transaction_id))
                group.records.append(TransactionRecord(transaction_id, base.version, outcome="aborted"))
                if self._put(group, set(), []):
                    self._follow_up(group)
                    return
        raise RetryableConflict(
            f"transaction {transaction_id} could not be settled: other writers were faster each time.",
            transaction_id=transaction_id,
        )

    def _admit(self, intent: Intent, group: _Group) -> None:
        """Plan one transaction on top of those before it, or settle on its answer."""
        state = group.state
        try:
            answer = _decided(intent, state)
            if answer is None:
                planned = list(intent.plan(state, self.runtime))
                answer = self._join(intent, planned, group)
        except SeicheError as error:
            if isinstance(error, ConflictError):
                self._name_winner(error, intent, group.base)
            answer = Answer(error=error)
        group.answers[intent.id] = answer

    def _name_winner(self, error: ConflictError, intent: Intent, base: State) -> None:
        """Say in the error which transaction was in the way: the latest one since that wrote what this one wants to."""
        keys = intent.keys
        for version in range(base.version, max(intent.base, base.version - _BLAMED), -1):
            # Of a version that has expired meanwhile it is not known any more what it wrote.
            for record in read_root(self.states.store, version).transactions:
                if keys.intersection(record.keys or ()):
                    error.message += f" That was transaction {record.id} in version {version} of the lake."
                    error.details |= {"winner": record.id, "winner_version": version}
                    return

    def _join(self, intent: Intent, planned: list[Planned], group: _Group) -> Answer:
        state = group.state
        version = state.version + 1
        messages: list[Message] = []
        for key, value in _merged(planned).items():
            small, files = (None, {}) if value is None else self._stowed(value, state)
            messages.append((key, small, intent.id))
            group.files |= files
        if intent.stream is not None:
            messages.append((intent.stream.key, intent.stream.row(state, version, intent.id), intent.id))
        keys = tuple(sorted(key for key, _, _ in messages))
        decided = rows.encode(TransactionRow(version=version, decided_at_millis=millis(self.runtime.clock.now())))
        for member in intent.members or (Member(intent.id, intent.base, keys, intent.properties),):
            messages.append((transaction_key(member.id), decided, member.id))
            group.records.append(
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
                group.files |= one.made.files
        group.planned += planned
        if intent.rollback_to is not None:
            group.rollback_to = intent.rollback_to
        group.min_base = max(group.min_base, intent.min_base)
        change = state.tree.apply(messages, self.runtime)
        # Several are applied once more, together: otherwise each would leave nodes that only the next one needs.
        group.change = None if group.messages else change
        group.messages += messages
        group.state = state.after(change.tree, group.files)
        made = (one.made.row for one in planned if one.made is not None)
        return Answer(version, tables={row.id: row.table_version for row in made})

    def _stowed(self, value: bytes, state: State) -> tuple[bytes, dict[str, bytes]]:
        kind = rows.kind_of(value).__name__.removesuffix("Row").lower()
        return definitions.stow(value, kind, (), self.runtime, most_bytes=state.definition.row_max_size_bytes)

    def _put(self, group: _Group, staged: set[str], unflushed: list[str]) -> bool:
        """Write the files, then the root: `False` if somebody else has the version.

        `staged` are files that an earlier attempt has written, `unflushed` those of statements that may not last yet.
        """
        base = group.base
        for one in group.planned:
            self._publish_before(base, one)
        change = group.change or base.tree.apply(group.messages, self.runtime)
        records, side_file, side_files = transactions.stow(group.records, self.runtime)
        files = {**group.files, **change.files, **side_files}
        new = {path: files[path] for path in files.keys() - staged}
        stage(base.store, new, flush=unflushed, runtime=self.runtime)
        staged |= files.keys()
        unflushed.clear()
        root = base.root.successor(
            change.tree.root,
            root_id=str(self.runtime.uuid()),
            transactions=records,
            transactions_file=side_file,
            now=self.runtime.clock.now(),
            storage_time=self.states.storage_time(base),
            rollback_to=group.rollback_to,
            min_base=max(base.root.min_base, group.min_base),
        )
        outcome = publish(
            base.store,
            root,
            base.root,
            order=base.definition.order,
            nodes=base.tree.nodes,
            absent=[transaction_key(record.id) for record in records],
            runtime=self.runtime,
        )
        if isinstance(outcome, Lost):
            return False
        self.states.advance(root)
        for one in group.planned:
            if one.made is not None:
                one.made.remember(base.manifests)
        return True

    def _follow_up(self, group: _Group) -> None:
        """What only serves plain readers, and speeds others up. The commit is done without it."""
        if group.records:
            self._publish_after(group.planned)
            write_hint(group.base.store, group.base.version + 1)

    def _publish_before(self, base: State, planned: Planned) -> None:
        """A version must be published before the next one is decided: plain readers never see a gap."""
        for key in planned.rows:
            value = base.get(key)
            if value is not None and rows.kind_of(value) is rows.TableRow:
                self.publisher.check(rows.decode(value, rows.TableRow), base.manifests)
        for row in planned.standing:
            self.publisher.publish(row)

    def _publish_after(self, planned: Sequence[Planned]) -> None:
        """The commit is done; whoever comes next finishes what this leaves undone."""
        made = {one.made.row.id: one.made for one in planned if one.made is not None and one.made.staged}
        self.states.store.in_parallel(self._publish_one, made.values())

    def _publish_one(self, made: Made) -> None:
        try:
            self.publisher.publish(made.row, made.published())
        except SeicheError as error:
            log.warning("published late: %s", error.message)


def _is_careful(intents: Sequence[Intent]) -> bool:
    """Whether planning some of it does what cannot be undone."""
    return any(edit.is_planned_last for intent in intents for edit in intent.edits.values())


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
    found = None if intent.members else state.outcome(intent.id)
    if found is not None and found.outcome == "committed":
        return Answer(found.version, replayed=True)
    if found is not None:
        aborted = RetryableConflict(
            f"transaction {intent.id} was aborted in version {found.version}.",
            remedy="Nothing was written. Begin a new transaction.",
            transaction_id=intent.id,
            version=found.version,
        )
        return Answer(error=aborted)
    stream = None if intent.stream is None else intent.stream.already_in(state)
    return None if stream is None else Answer(stream.version, replayed=True)
