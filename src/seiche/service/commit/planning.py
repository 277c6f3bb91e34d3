"""From what a transaction wants to what the lake is asked to decide."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from seiche.errors import Corrupt, NotFound, RetryableConflict, SeicheError
from seiche.lake import saved
from seiche.lake.commit.decided import decided
from seiche.lake.commit.intent import Intent
from seiche.lake.commit.reads import Aspect
from seiche.lake.lake import Lake
from seiche.lake.saved_pb2 import SavedTransaction
from seiche.lake.state import State
from seiche.lake.transaction import Transaction
from seiche.service import definitions, operations
from seiche.service.changes import Wanted
from seiche.service.operations import Operation
from seiche.service.refusals import refused, version_mismatch
from seiche.service.targets import Found, find

__all__ = ["Plan", "from_work", "intent_of"]


@dataclass(frozen=True, slots=True)
class Plan:
    """One transaction, ready to be joined with others or decided by itself.

    `flushed`: whoever wrote the files says that they are safely on disk. `kept`: what it wants is written down in
    intents.
    """

    id: str
    base: int
    wanted: Sequence[Wanted] = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    # Instead of what is wanted: a saved transaction.
    work: bytes = b""
    flushed: bool = False
    kept: bool = False
    # Whether it only adds rows to tables and states nothing about what is there.
    appends: bool = field(init=False)
    # The tables that it leaves behind changed, as far as it names them.
    touches: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        appends = bool(self.wanted) and all(
            one.kind == "operation" and one.expected_version is None and self.operation(one).appends
            for one in self.wanted
        )
        object.__setattr__(self, "appends", appends)
        object.__setattr__(self, "touches", tuple([one.table for one in self.wanted if one.kind != "delete"]))

    @staticmethod
    def operation(wanted: Wanted) -> Operation:
        """The operation that is wanted of a table."""
        return wanted.operation or operations.decode(wanted.data, wanted.table)


def table_in(state: State, table_id: str) -> Found:
    """The table of this id; a conflict if it is gone."""
    found = find(state, table_id)
    if found is None:
        raise RetryableConflict(
            f"table {table_id} was dropped meanwhile (the lake is at version {state.version}).", table=table_id
        )
    return found


def intent_of(plan: Plan, lake: Lake) -> Intent:
    """What the lake is asked to decide, on top of its latest version.

    Raises `RetryableConflict` if the preconditions do not hold there, `InvalidInput` if it can never be right.
    """
    if plan.work:
        return from_work(plan, lake)
    transaction = lake.transaction(properties=plan.properties)
    transaction.id = plan.id
    found = [(one, _expected(one, transaction)) for one in plan.wanted]
    # What leaves a name does so before anything takes one.
    renamed = []
    for one, table in found:
        if table is not None and one.kind == "delete":
            transaction.drop_table(table.name)
        elif table is not None and one.kind == "definition":
            target = definitions.name_in(definitions.read(one.data), table)
            if target != table.name:
                renamed.append((table.name, target))
    if renamed:
        transaction.rename_tables(renamed)
    for one, table in found:
        _apply(one, plan, transaction, table)
    intent = transaction.intent()
    if intent is None:
        # Nothing changes by it, and still it is decided: its id is found in the tree.
        intent = Intent(plan.id, transaction.base, properties=plan.properties)
    return replace(intent, base=min(plan.base, intent.base))


def _expected(one: Wanted, transaction: Transaction) -> Found | None:
    """The table that is wanted, as it is expected to be; none if it is to be made, or is deleted already."""
    state = transaction.state
    if one.kind == "definition" and not one.expected_version:
        return None
    if one.kind == "delete" and state.key_of(one.table) is None:
        return None
    found = table_in(state, one.table)
    if one.expected_version is not None:
        if found.row.pointer_version != one.expected_version:
            raise version_mismatch(one.target, one.expected_version, found.row.pointer_version)
        transaction.reads.key(state, found.key, Aspect.WHOLE, structural=True)
    return found


def _apply(one: Wanted, plan: Plan, transaction: Transaction, found: Found | None) -> None:
    """Make what is wanted of one table a part of the transaction."""
    if one.kind == "definition":
        definitions.apply(definitions.read(one.data), transaction, found)
    elif found is not None and one.kind == "operation":
        operation = plan.operation(one)
        transaction.edits[found.row.id] = operations.edit(operation, transaction.state, found.key, found.row)
        if not plan.flushed:
            transaction.unflushed += operation.files(transaction.state, found.row)
    elif found is not None and one.kind != "delete":
        from seiche.service import iceberg  # needs PyIceberg

        iceberg.apply(one.data, transaction, found)


def from_work(plan: Plan, lake: Lake) -> Intent:
    """The same from a saved transaction, which says what it read and what it was built on."""
    try:
        message = SavedTransaction.FromString(plan.work)
        state = lake.states.at(message.base_version)
        transaction = lake.transaction(
            "serializable" if message.isolation else "snapshot", properties=dict(message.properties)
        )
        transaction.id = plan.id
        transaction.state = state
        transaction.stream = saved.claim(message)
        saved.fill(transaction, message, state)
    except NotFound as error:
        if decided(plan.id, plan.base, lake.states.latest()) is not None:
            return Intent(plan.id, plan.base)  # by another process, before that expired: it is told the same
        raise RetryableConflict(f"what the transaction was built on is not there any more: {error.message}") from error
    except Corrupt as error:
        raise refused(f"the work cannot be read: {error.message}", "payload.invalid") from error
    except SeicheError:
        raise
    except Exception as error:
        # Whatever a client sends as work: it is refused, and those who are decided with it do not notice.
        raise refused(f"the work cannot be read: {type(error).__name__}", "payload.invalid") from error
    intent = transaction.intent()
    return intent if intent is not None else Intent(plan.id, transaction.base, properties=plan.properties)
