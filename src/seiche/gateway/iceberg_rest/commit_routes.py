"""The two routes that commit: to one table, and to several at once."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from seiche.errors import CommitUnknown, SeicheError
from seiche.gateway.http.calls import Answer, Call, Joint, Route
from seiche.gateway.iceberg_rest.catalog import Catalog, key_of
from seiche.gateway.iceberg_rest.commits import Committed, Request
from seiche.gateway.iceberg_rest.keys import HASH, check_same_request, said_under
from seiche.gateway.iceberg_rest.loading import Loading, etag
from seiche.gateway.iceberg_rest.names import table_in
from seiche.gateway.iceberg_rest.repetitions import was_said
from seiche.gateway.iceberg_rest.requests import TableChange, one_change, request_hash, several_changes
from seiche.gateway.iceberg_rest.routing import route
from seiche.gateway.sessions import HEADER, Session
from seiche.lake.iceberg.table import at_state
from seiche.lake.objects.keys import name_of
from seiche.lake.objects.names import Name, text

__all__ = ["commit_routes"]

# In the answer to a commit: the id by which the lake and the transaction service tell what became of it.
DECIDED_BY: Final = "X-Seiche-Transaction-Id"

_SMALL: Final = 16 * 1024


def commit_routes(catalog: Catalog, loading: Loading) -> list[Route]:
    """One change, or many that happen together."""
    do = _Committing(catalog, loading)
    return [
        route(
            "POST /v1/{prefix}/namespaces/{namespace}/tables/{table}",
            do.commit,
            "updateTable",
            "Commit to it.",
            takes="Commit",
            gives="Committed",
            together=Joint(_is_small, do.commit_each),
        ),
        route(
            "POST /v1/{prefix}/transactions/commit",
            do.commit_all,
            "commitTransaction",
            "Commit to several tables at once.",
            takes="Changes",
        ),
    ]


class _Committing:
    def __init__(self, catalog: Catalog, loading: Loading) -> None:
        self._catalog = catalog
        self._loading = loading

    def commit(self, call: Call) -> Answer:
        name = table_in(call.path)
        change = one_change(call.document(), name)
        self._catalog.check_prefix(call)
        if HEADER in call.headers:
            with self._catalog.sessions.using(call.headers[HEADER], changes=True) as session:
                self._say(session, change, _key(call))
                return self._loading.kept(session.transaction.iceberg(name))
        return self._committed(name, self._catalog.commits.commit([change], _key(call)))

    def _say(self, session: Session, change: TableChange, key: str | None) -> None:
        """Make the change part of a session, unless it is."""
        wanted = request_hash([change])
        if key is not None and said_under(session, key, wanted):
            return
        if not was_said(change, session.transaction):
            self._catalog.commits.plan(session.transaction, [change])
        if key is not None:
            session.note(key, wanted)

    def commit_each(self, calls: Sequence[Call]) -> list[Answer | Exception | None]:
        """Calls of `commit` that came at the same time: as many as can are decided by one root."""
        found: list[Answer | Exception | None] = [None] * len(calls)
        asked: dict[int, Request] = {}
        for number, call in enumerate(calls):
            try:
                self._catalog.check_prefix(call)
                asked[number] = Request([one_change(call.document(), table_in(call.path))], _key(call))
            except Exception as error:  # noqa: BLE001 - the answer to this one, and no concern of the others
                found[number] = error
        committed = self._catalog.commits.commit_each(list(asked.values()))
        for (number, request), one in zip(asked.items(), committed, strict=True):
            try:
                found[number] = self._committed(request.changes[0].name, one) if isinstance(one, Committed) else one
            except Exception as error:  # noqa: BLE001 - likewise
                found[number] = error
        return found

    def _committed(self, name: Name, committed: Committed) -> Answer:
        try:
            table = at_state(committed.state, name)
            answer = self._loading.left(table)
        except SeicheError as error:  # nothing else may be said of what is committed: the client would delete its files
            raise CommitUnknown(
                f"{text(name)} was changed, and cannot be shown: {error.message}", transaction_id=committed.transaction
            ) from error
        self._catalog.aftercare.note_table(table)
        return replace(answer, headers={DECIDED_BY: committed.transaction, "ETag": etag(table.metadata_location)})

    def commit_all(self, call: Call) -> Answer:
        """Inside a transaction that the call names, this commits it, with these changes and all before."""
        self._catalog.check_prefix(call)
        if HEADER in call.headers:
            self._commit_session(call.headers[HEADER], call.document())
            return Answer(204)
        changes = several_changes(call.document())
        state, transaction = self._catalog.commits.commit(changes, _key(call))
        self._catalog.aftercare.note(state, [one.name for one in changes])
        return Answer(204, headers={DECIDED_BY: transaction})

    def _commit_session(self, name: str, body: Mapping[str, Any]) -> None:
        changes = several_changes(body) if body.get("table-changes") else []
        wanted = request_hash(changes)
        sessions = self._catalog.sessions
        committed = sessions.committed(name)
        if committed is not None:  # asked again, after an answer that was lost
            if changes:
                check_same_request(self._catalog.lake, committed.transaction, committed.version or 0, wanted)
            return
        with sessions.using(name, changes=True) as session:
            try:
                self._catalog.commits.plan(session.transaction, changes)
            except Exception:
                sessions.forget(name)  # some of the changes may be in it
                raise
            session.transaction.properties[HASH] = wanted
            touched = [name_of(edit.key) for edit in session.transaction.edits.values() if edit.key is not None]
        sessions.commit(name)
        self._catalog.aftercare.note(self._catalog.lake.state(), touched)


def _key(call: Call) -> str | None:
    given = key_of(call)
    return None if given is None else f"key:{call.caller.account}:{given}"


def _is_small(call: Call) -> bool:
    """Whether a commit is quickly planned: files that come with a snapshot are looked at one by one."""
    return len(call.body) < _SMALL and b"add-snapshot" not in call.body and HEADER not in call.headers
