"""A lake whose data is written here, and whose commits are decided by a server."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, replace
from typing import Any, Final
from uuid import UUID

from seiche.core.durations import Duration
from seiche.core.retry import Patience
from seiche.core.runtime import Runtime
from seiche.errors import (
    CommitUnknown,
    ConflictError,
    IncompatibleConflict,
    InvalidInput,
    NotFound,
    RetryableConflict,
    SeicheError,
    Unavailable,
)
from seiche.lake import saved
from seiche.lake.commit.committer import Answer, Committer
from seiche.lake.commit.edits import TableEdit
from seiche.lake.commit.group import aborted, name_winner
from seiche.lake.commit.intent import Intent
from seiche.lake.lake import Lake, open_lake
from seiche.lake.state import State
from seiche.lake.states import States
from seiche.service import failures
from seiche.service import transactions_pb2 as pb
from seiche.service.client.certificates import Certificates
from seiche.service.client.channel import Address, Channel
from seiche.service.client.tokens import Token
from seiche.service.client.trust import obstacle
from seiche.service.properties import FAILURE_CODE, FAILURE_MESSAGE, FLUSHED, KEYED, RESERVED, are_few
from seiche.table.operations import Append
from seiche.table.transaction import Transaction as TableTransaction

__all__ = ["RemoteCommitter", "RemoteLake", "remote_lake"]

_AGAIN: Final = Patience(attempts=8, timeout=60.0, first_delay=0.05, longest_delay=2.0)
# How long a transaction may wait is decided by the server, by its own clock: what this machine takes for now may be
# days ago there, and nothing would ever be in time.
_NEVER: Final = (1 << 63) - 1
# The version of ids that follow from keys.
_DERIVED: Final = 5


@dataclass(frozen=True, slots=True)
class RemoteCommitter(Committer):
    """Asks a server to decide. The id of a transaction is its own, so asking twice is asking once."""

    channel: Channel

    def attempt(self, number: int, took: float) -> AbstractContextManager[object]:
        """Of no use here: it is the server that takes turns."""
        return nullcontext()

    def commit_group(
        self, intents: Sequence[Intent], decided: Callable[[list[Answer]], None] | None = None
    ) -> list[Answer]:
        """Each by itself: it is the server that puts those of many clients together."""
        answers = [self._commit(intent) for intent in intents]
        if decided is not None:
            decided(answers)
        return answers

    def _commit(self, intent: Intent) -> Answer:
        request = self._request(intent)
        if request is None:
            # Only whoever writes to storage can do this: a rollback, a clean-up, a version that an engine has built.
            (answer,) = Committer.commit_group(self, [intent])
            return answer
        # Nobody but us knows that the files that we wrote are not on disk yet, or not even there.
        self.write(intent.unwritten)
        self.states.store.flush(intent.unflushed)
        seen = self.states.known.version
        why = remedy = ""
        for attempt in _AGAIN.tries(self.runtime):
            try:
                response = self.channel.execute(request)
            except CommitUnknown as error:
                return self._looked_up(intent, error)
            except SeicheError as error:
                if attempt > 1:
                    # What the server left open the first time may have happened.
                    return self._looked_up(intent, CommitUnknown(f"undecided at first, and then: {error.message}"))
                return Answer(error=self._gone(intent) if error.details.get("reason") == "table.not-found" else error)
            if response.transaction.state != pb.TS_APPLY_FAILED_RETRYABLE:
                return self._with_tables(intent, _answer(intent, response, seen))
            why, remedy = response.transaction.properties[FAILURE_MESSAGE], failures.remedy(response.failure)
        return self._looked_up(intent, CommitUnknown(f"the server could not decide the transaction: {why}"), remedy)

    def _gone(self, intent: Intent) -> SeicheError:
        """The conflict behind a table that the server does not find: when the transaction began it was there."""
        state = self.states.latest()
        for edit in intent.edits.values():
            try:
                if edit.found is not None:
                    edit.current(state, edit.found)
            except ConflictError as conflict:
                name_winner(conflict, intent, state)
                return conflict
        return RetryableConflict("a table was not there when the server looked for it", transaction_id=intent.id)

    def _looked_up(self, intent: Intent, unknown: CommitUnknown, remedy: str = "") -> Answer:
        """What became of it, as far as the tree tells. That it is not there says nothing, nor that nobody answers.

        `remedy` is what has to be done before it can be decided.
        """
        with suppress(Unavailable):
            found = self.states.latest().outcome(intent.id)
            if found is not None and found.outcome == "committed":
                return self._with_tables(intent, Answer(found.version))
            if found is not None:
                return aborted(intent.id, found.version)
        asking = f"Ask with lake.status({intent.id!r}) before doing it again; lake.settle decides it."
        raise CommitUnknown(
            unknown.message, remedy=f"{remedy} {asking}".lstrip(), transaction_id=intent.id
        ) from unknown

    def _with_tables(self, intent: Intent, answer: Answer) -> Answer:
        """The answer with the versions of tables that were made. If the server did not say, the tree does."""
        missing = {table for table, edit in intent.edits.items() if edit.work is not None} - answer.tables.keys()
        if answer.version is None or not missing:
            return answer
        try:
            found = {table: self.states.latest().table_at(answer.version, table) for table in missing}
        except SeicheError:
            return answer  # it is committed all the same, and has expired meanwhile
        made = {table: row.table_version for table, row in found.items() if row is not None}
        return replace(answer, tables={**made, **answer.tables})

    def _request(self, intent: Intent) -> pb.ExecuteTransactionRequest | None:
        if type(intent) is not Intent or intent.rollback_to is not None or intent.min_base or intent.members:
            return None
        if not all(_can_be_told(edit) for edit in intent.edits.values()):
            return None
        request = pb.ExecuteTransactionRequest(tx_id=intent.id, base_version=intent.base)
        if UUID(intent.id).version == _DERIVED:
            request.properties[KEYED] = "true"
        appended = _appends(intent)
        if appended is None:
            request.work = saved.encode(intent, _NEVER).SerializeToString()
            return request
        request.properties.update({**intent.properties, FLUSHED: "true"})
        for table, payload in appended.items():
            request.changes.add(payload=payload).table_id.id = table
        return request


def _can_be_told(edit: TableEdit) -> bool:
    """Whether it is a change of the lake's own tables. One of somebody else's table is on top of what was seen there,
    which the server did not see, and is made there before the root stands: whoever has the work in hand does it.
    """
    if type(edit) is TableEdit:
        return True
    from seiche.lake.iceberg.edit import IcebergEdit

    return type(edit) is IcebergEdit


def _can_be_sent(properties: Mapping[str, str]) -> bool:
    """Whether they can be those of a request; as a part of saved work they may be as many as without a server, and
    none means anything to it.
    """
    return are_few(properties) and not any(name in (FLUSHED, KEYED) or name.startswith(RESERVED) for name in properties)


def _appends(intent: Intent) -> dict[str, bytes] | None:
    """The transaction as appends of Lance, by table, which the server can join with those of others; if it is that."""
    reads = intent.reads
    if (
        intent.isolation != "snapshot"
        or intent.rows
        or intent.stream
        or reads.structural_keys
        or reads.structural_ranges
        or not _can_be_sent(intent.properties)
    ):
        return None
    found = {}
    for table, edit in intent.edits.items():
        work = edit.work
        if work is None or edit.found is None or edit.renamed or edit.properties or work.followers or work.compacted:
            return None
        operations = [change.operation for change in work.content]
        if not operations or not all(isinstance(one, Append) for one in operations):
            return None
        fragments = tuple(one for each in operations if isinstance(each, Append) for one in each.fragments)
        found[table] = TableTransaction(work.base.version, "", Append(fragments)).encode()
    return found or None


def _answer(intent: Intent, response: pb.ExecuteTransactionResponse, seen: int) -> Answer:
    transaction = response.transaction
    if transaction.state == pb.TS_APPLIED:
        tables = {one.table_id: one.table_version for one in response.tables}
        # Whatever is committed now is behind all versions that were seen before.
        return Answer(response.version, replayed=response.version <= seen, tables=tables)
    if transaction.state == pb.TS_ABORTED:
        return aborted(intent.id, response.version)
    message = transaction.properties[FAILURE_MESSAGE]
    code = transaction.properties[FAILURE_CODE]
    # One that the server has forgotten has none, and the message has to do.
    failure = response.failure
    details = {"transaction_id": intent.id, "code": code, **failures.details(failure)}
    kind: type[SeicheError] = failures.raised(failure) or RetryableConflict
    if code == "TABLE_INTENT_INVALID_PAYLOAD" and kind is not NotFound:
        kind = InvalidInput
    elif code == "INCOMPATIBLE_CONFLICT":
        kind = IncompatibleConflict
    return Answer(error=kind(message, remedy=failure.remedy, **details))


class RemoteLake(Lake):
    """A lake as `seiche.open` gives it, except that a server decides what is committed."""

    def __init__(
        self, states: States, channel: Channel, *, pinned: State | None = None, lease: Duration | None = None
    ) -> None:
        """Use `seiche.connect`."""
        super().__init__(states, pinned=pinned, lease=lease)
        direct = self._committer
        self._committer = RemoteCommitter(direct.states, direct.publisher, direct.runtime, direct.patience, channel)
        self.channel = channel

    def __reduce__(self) -> tuple[Any, ...]:
        _, found = super().__reduce__()
        return _behind, (self.channel, *found)

    def close(self) -> None:
        """Let go of the connection."""
        self.channel.close()
        super().close()


def remote_lake(
    address: str,
    *,
    token: Token,
    certificates: Certificates,
    uri: str | None,
    runtime: Runtime,
    options: Mapping[str, Any],
) -> RemoteLake:
    """What `seiche.connect` gives."""
    at = Address.parse(address, token=token, certificates=certificates)
    channel = Channel(at, runtime=runtime)
    try:
        found = channel.call("DescribeLake", pb.DescribeLakeRequest(), pb.DescribeLakeResponse)
    except CommitUnknown as error:
        nobody = Unavailable(error.message, remedy="Check that the server runs, and its address.")
        raise obstacle(at) or nobody from error
    with open_lake(uri or found.uri, runtime=runtime, **options) as opened:
        _, wanted = opened.__reduce__()
    if opened.states.known.definition.id != found.lake_id:
        raise NotFound(
            f"{uri or found.uri} is another lake than that of the server",
            remedy="Give `uri=` as the address under which this client finds the server's lake.",
        )
    channel.mean(found.lake_id)
    return _behind(channel, *wanted)


def _behind(channel: Channel, states: States, version: int | None, lease: Duration | None) -> RemoteLake:
    """The lake, or one version of it, behind a server."""
    return RemoteLake(states, channel, pinned=None if version is None else states.at(version), lease=lease)
