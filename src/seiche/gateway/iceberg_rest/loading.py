"""Tables as the protocol shows them: their metadata, word for word, and what opens their files."""

import hashlib
import json
from collections import OrderedDict
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, Literal

from seiche.errors import CommitUnknown, InvalidInput, NotFound, SeicheError
from seiche.gateway.http.calls import Answer, Call
from seiche.gateway.iceberg_rest.catalog import Catalog, Changed, Repeated, missing_table
from seiche.gateway.sessions import HEADER
from seiche.lake.iceberg.metadata import json_of, text_of
from seiche.lake.iceberg.places import path_of
from seiche.lake.iceberg.table import at_state
from seiche.lake.objects.names import Name, text
from seiche.lake.objects.rows import TableRow
from seiche.store.base import Store

if TYPE_CHECKING:
    from seiche.lake.iceberg.table import IcebergTable
    from seiche.lake.transaction import Transaction

__all__ = ["Loading", "Snapshots", "etag", "make_directories", "metadata_json"]

Snapshots = Literal["all", "refs"]
_DELEGATION: Final = "x-iceberg-access-delegation"
_HELD: Final = 256


def metadata_json(metadata: Any, snapshots: Snapshots = "all") -> bytes:
    """The metadata as JSON; with `refs`, only the snapshots that branches and tags stand for."""
    shown = metadata
    if snapshots == "refs":
        wanted = {ref.snapshot_id for ref in metadata.refs.values()}
        shown = metadata.model_copy(update={"snapshots": [s for s in metadata.snapshots if s.snapshot_id in wanted]})
    return json_of(shown)


class Loading:
    """Answers that show tables. The JSON of metadata is remembered: a file of metadata never changes."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._texts: OrderedDict[tuple[str, str], bytes] = OrderedDict()
        self._lock = Lock()

    @staticmethod
    def found(transaction: "Transaction", name: Name) -> "IcebergTable":
        """An Iceberg table as a transaction sees it; a table of another format is refused, saying where to go."""
        try:
            row = transaction.named(name).row
        except NotFound as error:
            # Also if its namespace is missing: Java's client takes `db.t.files` for a table first, and goes on to look
            # for what it knows of `db.t` only if it hears that there is no such *table*.
            raise missing_table(name) from error
        check_iceberg(row, name)
        return transaction.iceberg(name)

    def answer(self, call: Call, table: "IcebergTable", *, snapshots: Snapshots = "all", status: int = 200) -> Answer:
        """The table with its metadata, configuration and credentials; 304 if the caller has just that."""
        if HEADER in call.headers:  # a transaction has no file of metadata for what it has made of the table
            return Answer(status, self._body(call, table, metadata_json(table.metadata, snapshots)))
        tag = etag(table.metadata_location, snapshots)
        if _has(call, tag):
            return Answer(304, headers={"ETag": tag})
        return Answer(status, self._body(call, table, self._text(table, snapshots)), {"ETag": tag})

    def made(self, call: Call, name: Name, done: "Changed[None] | Repeated") -> Answer:
        """A table that was just made; or made before, for whoever asks again, having lost the answer: as it is, or as
        it was made. Never another one that has its name by now.
        """
        state = done.showing(name) if isinstance(done, Repeated) else done.state
        if state is None:
            with self._catalog.reading(call) as transaction:
                return self.answer(call, self.found(transaction, name))
        try:
            table = at_state(state, name)
            make_directories(self._catalog.lake.store, table.metadata.location)
            return self.answer(call, table)
        except (SeicheError, OSError) as error:  # it was made: nobody may believe that it is not
            raise CommitUnknown(f"{text(name)} was made, and cannot be shown: {error}") from error

    def left(self, table: "IcebergTable") -> Answer:
        """What a commit is answered with, also the last one: where the metadata of a table is, and what it says."""
        where = json.dumps(table.metadata_location).encode()
        return Answer(body=b'{"metadata-location":%s,"metadata":%s}' % (where, self._text(table, "all")))

    @staticmethod
    def kept(table: "IcebergTable") -> Answer:
        """What a commit inside a transaction is answered with: there is no file of it yet."""
        where = json.dumps(table.metadata_location or f"{table.metadata.location}/metadata/uncommitted").encode()
        return Answer(body=b'{"metadata-location":%s,"metadata":%s}' % (where, metadata_json(table.metadata)))

    def staged(self, call: Call, metadata: Any) -> Answer:
        """A table that is not there yet."""
        parts = [b'"metadata":' + metadata_json(metadata), *self._access(call, metadata.location)]
        return Answer(body=b"{%s}" % b",".join(parts))

    def credentials(self, call: Call, table: "IcebergTable") -> list[dict[str, Any]]:
        """What opens the table's files, in the form of its own route."""
        location = table.metadata.location
        settings = self._catalog.credentials.settings(location)
        secrets = self._catalog.credentials.vend(location, call.caller)
        return [{"prefix": location, "config": {**settings, **secrets}}] if secrets else []

    def _body(self, call: Call, table: "IcebergTable", metadata: bytes) -> bytes:
        parts = [b'"metadata-location":' + json.dumps(table.metadata_location).encode()]
        parts += [b'"metadata":' + metadata, *self._access(call, table.metadata.location)]
        return b"{%s}" % b",".join(parts)

    def _access(self, call: Call, location: str) -> list[bytes]:
        """Credentials stand in `config` too: PyIceberg finds those of a staged table nowhere else."""
        credentials = self._catalog.credentials
        config = dict(credentials.settings(location))
        secrets: dict[str, str] = {}
        if "vended-credentials" in call.headers.get(_DELEGATION, ""):
            secrets = dict(credentials.vend(location, call.caller))
        parts = [b'"config":' + json.dumps({**config, **secrets}).encode()]
        if secrets:
            listed = [{"prefix": location, "config": {**config, **secrets}}]
            parts.append(b'"storage-credentials":' + json.dumps(listed).encode())
        return parts

    def _text(self, table: "IcebergTable", snapshots: Snapshots) -> bytes:
        key = (table.metadata_location, snapshots)
        with self._lock:
            known = self._texts.get(key)
        if known is None:
            plain = snapshots == "all"
            known = text_of(table.state, table.row) if plain else metadata_json(table.metadata, snapshots)
            with self._lock:
                self._texts[key] = known
                while len(self._texts) > _HELD:
                    self._texts.popitem(last=False)
        return known


def make_directories(store: Store, location: str) -> None:
    """DuckDB writes into directories that it expects to be there, on a disk."""
    path = path_of(store, location)
    native = store.native_uri("" if path is None else path)
    if path is not None and native.startswith("/"):
        for folder in ("data", "metadata"):
            Path(native, folder).mkdir(parents=True, exist_ok=True)


def check_iceberg(row: TableRow, name: Name) -> None:
    """Refuse a table that this protocol cannot show, and say which can."""
    if not row.is_own("iceberg"):
        raise InvalidInput(
            f"{text(name)} is a table of format {row.format}: the Iceberg protocol cannot read it",
            remedy="Use the Lance Namespace protocol (`seiche serve --lance-port`), or Seiche itself.",
            table=text(name),
        )


def etag(metadata_location: str, snapshots: Snapshots = "all") -> str:
    return f'"{hashlib.sha256(f"{snapshots} {metadata_location}".encode()).hexdigest()[:32]}"'


def _has(call: Call, tag: str) -> bool:
    """Whether a caller that only reads says that it has this already; in HTTP, `*` says so of whatever there is."""
    given = {one.strip().removeprefix("W/") for one in call.headers.get("if-none-match", "").split(",")}
    return call.route.startswith("GET ") and not given.isdisjoint((tag, "*"))
