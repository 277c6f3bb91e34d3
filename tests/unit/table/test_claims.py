"""The claim of a version whose answer is unclear: what may be concluded from it, and what lasts."""

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import pyarrow as pa
import pytest

from seiche.core.runtime import Runtime
from seiche.errors import CommitUnknown, ConflictError, PermissionDenied, SeicheError, Unavailable
from seiche.store.base import Data, ObjectInfo
from seiche.table.format import file
from seiche.table.format.manifest import Manifest
from seiche.table.operations import Opaque, UpdateConfig, UpdateMap
from seiche.table.table import Table
from seiche.table.transaction import Transaction
from seiche.table.versions.migration import migrate_to_v2
from seiche.table.versions.naming import Naming
from seiche.testing import Call, DictStore, VolatileStore, WrappingStore

T = TypeVar("T")

SCHEMA = pa.schema([("id", pa.int64())])
SETTING = UpdateConfig(config_updates=UpdateMap({"key": "value"}))


class Unclear(VolatileStore):
    """Gives manifests, tags and branches their names, and does not say whether these last."""

    unclear = False

    def put_if_absent(self, path: str, data: Data, *, durable: bool = True) -> None:
        unclear = self.unclear and path.startswith(("_versions/", "_refs/"))
        super().put_if_absent(path, data, durable=durable and not unclear)
        if unclear:
            raise CommitUnknown("the names of the directory could not be flushed")


class Late(DictStore):
    """Is away when a manifest comes the first time, and gives no answer the second."""

    answers: Sequence[SeicheError] = ()

    def put_if_absent(self, path: str, data: Data, *, durable: bool = True) -> None:
        failure = None
        if self.answers and path.startswith("_versions/"):
            failure, *self.answers = self.answers
        if not isinstance(failure, Unavailable):
            super().put_if_absent(path, data, durable=durable)
        if failure is not None:
            raise failure


class Closed(WrappingStore):
    """Reads no manifest any more once one was written without an answer."""

    def _call(self, call: Call, act: Callable[[], T]) -> T:
        assert isinstance(self._inner, Unclear)
        if self._inner.at_risk and call.verb in ("get", "get_range") and call.path in self._inner.at_risk:
            raise PermissionDenied("no more")
        return act()


def test_a_version_that_stands_after_an_unclear_answer_lasts_before_anybody_is_told() -> None:
    runtime = Runtime.seeded(1)
    store = Unclear(runtime=runtime)
    table = Table.create(store, SCHEMA, runtime=runtime)
    store.unclear = True
    assert table.commit(SETTING).version == 2
    assert not {path for path in store.at_risk if path.startswith("_versions/")}


def test_so_does_a_tag_or_a_branch() -> None:
    runtime = Runtime.seeded(1)
    store = Unclear(runtime=runtime)
    table = Table.create(store, SCHEMA, runtime=runtime)
    store.unclear = True
    table.tag("kept")
    table.branch("dev")
    assert not {path for path in store.at_risk if path.startswith("_refs/")}


def test_a_refusal_after_an_unclear_answer_decides_nothing() -> None:
    runtime = Runtime.seeded(1)
    inner = Unclear(runtime=runtime)
    table = Table.create(Closed(inner), SCHEMA, runtime=runtime)
    inner.unclear = True
    with pytest.raises(CommitUnknown) as caught:
        table.commit(SETTING)
    assert caught.value.version == 2
    assert Table.open(inner, runtime=runtime).version == 2


def test_a_name_that_is_taken_after_an_unclear_answer_may_be_taken_by_ourselves() -> None:
    """Also if the answer before that was clear. The only attempt has succeeded then, and nobody was faster."""
    runtime = Runtime.seeded(1)
    store = Late(runtime=runtime)
    table = Table.create(store, SCHEMA, runtime=runtime)
    store.answers = [Unavailable("away"), CommitUnknown("no answer")]
    assert table.commit(SETTING, attempts=1).version == 2


class Overtaken(DictStore):
    """Somebody migrates the table just before a manifest comes under an old name; then an answer is lost."""

    loses = ""

    def put_if_absent(self, path: str, data: Data, *, durable: bool = True) -> None:
        lost, now = self.loses, self.loses and path == Naming.V1.path(2)
        if now:
            self.loses = ""
            migrate_to_v2(self)
        super().put_if_absent(path, data, durable=durable)
        if now and lost == "put":
            raise CommitUnknown("no answer")
        self.deaf = bool(now) and lost == "list"

    deaf = False

    def list(self, prefix: str = "", *, start_after: str = "", recursive: bool = True) -> Iterator[ObjectInfo]:
        if self.deaf:
            self.deaf = False
            raise Unavailable("away")
        return super().list(prefix, start_after=start_after, recursive=recursive)


@pytest.mark.parametrize("loses", ["put", "list"])
def test_a_manifest_under_an_old_name_is_no_version_of_a_table_that_was_migrated(loses: str) -> None:
    """Whoever looks only there whether it is his takes it for one; the next writer counts on with new names."""
    runtime = Runtime.seeded(1)
    store = Overtaken(runtime=runtime)
    table = Table.create(store, SCHEMA, runtime=runtime, naming="V1")
    store.loses = loses
    with pytest.raises(CommitUnknown):
        table.commit(SETTING)
    migrate_to_v2(store)
    assert Table.open(store, runtime=runtime).version == 2


def test_what_a_newer_release_did_is_in_the_way_of_everything() -> None:
    """Nobody here knows what it touched."""
    runtime = Runtime.seeded(1)
    store = DictStore(runtime=runtime)
    table = Table.create(store, SCHEMA, runtime=runtime)
    made = Manifest(table.manifest.copy_header(), table.manifest.fragments, b"")
    made.header.version = 2
    theirs = Transaction(1, str(runtime.uuid()), Opaque(199, b""))
    store.put(Naming.V2.path(2), b"".join(file.encode(made, theirs.encode())))
    with pytest.raises(ConflictError, match="version 2"):
        table.commit(SETTING, read_version=1)
    assert Table.open(store, runtime=runtime).version == 2
