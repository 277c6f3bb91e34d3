"""The lake's commit: one or more transactions become one root, or each learns why not."""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field
from functools import partial

from seiche.core.retry import Patience
from seiche.core.runtime import Runtime
from seiche.errors import CommitUnknown, NotFound, RetryableConflict, SeicheError
from seiche.lake.commit.edits import Planned
from seiche.lake.commit.group import Answer, Group
from seiche.lake.commit.intent import Intent
from seiche.lake.commit.tally import Tally
from seiche.lake.objects import rows
from seiche.lake.objects.keys import transaction_key
from seiche.lake.objects.rows import TableRow, TransactionRow
from seiche.lake.publish import Publisher
from seiche.lake.read_ahead import read_ahead
from seiche.lake.state import State
from seiche.lake.states import States
from seiche.lake.tree import transactions
from seiche.lake.tree.latest import write_hint
from seiche.lake.tree.root import millis
from seiche.lake.tree.swap import Lost, asking, publish, stage
from seiche.lake.tree.transactions import TransactionRecord
from seiche.store.base import Data
from seiche.store.kept_turns import KeptTurns

__all__ = ["Answer", "Committer"]

log = logging.getLogger("seiche.lake")


@dataclass(frozen=True, slots=True)
class Committer:
    """Commits to one lake. All that decides is the root: who puts it has committed, nobody else has."""

    states: States
    publisher: Publisher
    runtime: Runtime
    patience: Patience
    turns: KeptTurns = field(init=False, repr=False, compare=False)
    tally: Tally = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "turns", KeptTurns(self.states.store, self.runtime))
        object.__setattr__(self, "tally", Tally())

    def commit(self, intent: Intent) -> Answer:
        """Decide one transaction; raises the error if it was not committed."""
        # Whoever changes these tables again, after others did, need not read them one by one.
        self.states.known.manifests.together = frozenset(_tables([intent]))
        try:
            (answer,) = self.commit_group([intent])
            if answer.error is not None:
                raise answer.error
        except CommitUnknown as error:  # perhaps of a table that others decide about
            error.details.setdefault("transaction_id", intent.id)
            raise
        except KeyboardInterrupt as interrupt:
            # It may have come after the root: who does it again without a look may have it twice.
            doubt = f"Transaction {intent.id} was being committed, and may have happened."
            interrupt.add_note(f"{doubt} {asking([intent.id])}")
            raise
        return answer

    def attempt(self, number: int, took: float) -> AbstractContextManager[object]:
        """Around an attempt at a transaction that others may be quicker than; see `KeptTurns.attempt`."""
        return self.turns.attempt(number, took)

    def commit_group(
        self, intents: Sequence[Intent], decided: Callable[[list[Answer]], None] | None = None
    ) -> list[Answer]:
        """Decide several transactions with one root, as if they had come one after the other in this order.

        No transaction is said to have lost before the root that it lost against is durable; if that root loses itself,
        the whole group is planned again. `decided` gets the answers as soon as they are final, before the versions are
        published for plain readers, who are one version behind until then.
        """
        # What the statements wrote is flushed once for all attempts: while one waits for a turn, or else together with
        # what is staged and the bytes of the root, so that the disk is waited for once.
        unflushed = [path for intent in intents for path in intent.unflushed]
        unwritten = {path: data for intent in intents for path, data in intent.unwritten.items()}
        flush = partial(self._flush, unflushed)
        if _is_careful(intents):
            self.write(unwritten)
            unwritten = {}
            self.states.store.flush(unflushed)
        staged: set[str] = set()
        for attempt in self.patience.tries(self.runtime):
            with self.turns.one(flush) as waited:
                guessed = attempt == 1 and not waited
                group = self._planned(intents, self._base(intents) if guessed else self.states.latest())
                if guessed and any(answer.error is not None for answer in group.answers.values()):
                    continue  # the version that it was tried on may have expired and been cleared away meanwhile
                try:
                    done = not group.records or self._put(group, unwritten, staged, unflushed)
                except NotFound:
                    # If a clean-up took a file of it, it meets the fence of that in the newest version.
                    if all(intent.base >= self.states.latest().root.min_base for intent in intents):
                        raise
                    continue
                if done:
                    answers = [group.answers[intent.id] for intent in intents]
                    if decided is not None:
                        decided(answers)
                    self._follow_up(group)
                    return answers
        return [Answer(error=self._outrun())] * len(intents)

    def _planned(self, intents: Sequence[Intent], base: State) -> Group:
        """All of them on top of `base`, each on what those before it make of that."""
        group = Group(base, base)
        if any(intent.base != base.version for intent in intents):
            read_ahead(base, _tables(intents))
        for intent in intents:
            group.admit(intent, self.runtime)
        return group

    def _outrun(self) -> RetryableConflict:
        version = self.states.known.version
        return RetryableConflict(
            f"in {self.patience.attempts} attempts other writers were faster each time; the lake is now at version"
            f" {version}.",
            version=version,
            reason="outrun",
        )

    def _base(self, intents: Sequence[Intent]) -> State:
        """The version to begin with. Where nobody else seems to be, a look for a newer one is saved: the root decides.

        That it was quiet when the transaction began is a guess about the time since, and costs one attempt if wrong.
        """
        known = self.states.known
        is_quiet = self.states.quiet and self.states.is_sure and not _is_careful(intents)
        if is_quiet and all(intent.base == known.version for intent in intents):
            return known
        return self.states.latest()

    def write(self, files: Mapping[str, Data]) -> None:
        """Write files that a transaction names; they last when this returns."""
        if files:
            stage(self.states.store, files, runtime=self.runtime)

    def _flush(self, paths: list[str]) -> None:
        """See to it that files of statements last, and need not be seen to again. A missing one shows at the root."""
        if paths:
            with suppress(NotFound):
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
                group = Group(base, base)
                group.messages.append((transaction_key(transaction_id), rows.encode(row), transaction_id))
                group.records.append(TransactionRecord(transaction_id, base.version, outcome="aborted"))
                if self._put(group, {}, set(), []):
                    self._follow_up(group)
                    return
        raise RetryableConflict(
            f"transaction {transaction_id} could not be settled: other writers were faster each time.",
            transaction_id=transaction_id,
        )

    def _put(self, group: Group, unwritten: Mapping[str, Data], staged: set[str], unflushed: list[str]) -> bool:
        """Write the files, then the root, whose name appears when all of them last: `False` if somebody else has the
        version.

        `unwritten` are files of statements, `unflushed` those that may not last yet; `staged` is what an earlier try
        has written.
        """
        base = group.base
        change = group.change or base.tree.apply(group.messages, self.runtime)
        records, side_file, side_files = transactions.stow(group.records, self.runtime)
        files = {**unwritten, **group.files, **change.files, **side_files}
        new = {path: files[path] for path in files.keys() - staged}
        # None of these needs another, and the root needs all of them.
        base.store.together(
            partial(stage, base.store, new, lasting=False, runtime=self.runtime),
            partial(self.states.storage_time, base),
            *(check for one in group.planned for check in self._publish_before(base, one)),
        )
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
            flush=[*unflushed, *new],
            runtime=self.runtime,
        )
        staged.update(files)
        unflushed.clear()
        if isinstance(outcome, Lost):
            return False
        self.states.advance(root)
        self.tally.note(group.records)
        for one in group.planned:
            if one.made is not None:
                one.made.remember(base.manifests)
        return True

    def _follow_up(self, group: Group) -> None:
        """What only serves plain readers, and speeds others up. The commit is done without it."""
        if group.records:
            store, version = group.base.store, group.base.version + 1
            store.together(partial(self._publish_after, group.planned), partial(write_hint, store, version))

    def _publish_before(self, base: State, planned: Planned) -> Iterator[Callable[[], None]]:
        """A version must be published before the next one is decided: plain readers never see a gap."""
        for key in planned.rows:
            value = base.get(key)
            if value is not None and rows.kind_of(value) is rows.TableRow:
                yield partial(self.publisher.check, rows.decode(value, rows.TableRow), base.manifests)
        for row in planned.standing:
            yield partial(self.publisher.publish, row)

    def _publish_after(self, planned: Sequence[Planned]) -> None:
        """The commit is done; whoever comes next finishes what this leaves undone."""
        made = {one.made.row.id: one.made for one in planned if one.made is not None and one.made.staged}
        # What is to be written is made before: side by side goes only what waits for the disk.
        ready = [(one.row, one.published()) for one in made.values()]
        self.states.store.in_parallel(self._publish_one, ready)

    def _publish_one(self, ready: tuple[TableRow, Sequence[bytes]]) -> None:
        try:
            self.publisher.publish(*ready)
        except SeicheError as error:
            log.warning("published late: %s", error.message)


def _tables(intents: Sequence[Intent]) -> Iterator[bytes]:
    """The keys of the tables that they change."""
    edits = (edit for intent in intents for edit in intent.edits.values())
    return (edit.found_key for edit in edits if edit.found_key is not None)


def _is_careful(intents: Sequence[Intent]) -> bool:
    """Whether planning some of it does what cannot be undone."""
    return any(edit.is_planned_last for intent in intents for edit in intent.edits.values())
