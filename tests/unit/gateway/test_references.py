"""Branches and tags whose files clients remove by themselves: what counts as deleted, and what does not."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import lance_namespace as ln
import pyarrow as pa
import pytest

import seiche
from seiche import Lake
from seiche.gateway.lance_namespace import desk
from seiche.gateway.lance_namespace import tags as tags_module
from seiche.gateway.lance_namespace.desk import main_desk
from seiche.gateway.lance_namespace.families import FamilyVerbs
from seiche.gateway.lance_namespace.references import References
from seiche.gateway.lance_namespace.tags import put_tag, tags
from seiche.lake.objects.names import Name
from seiche.lake.objects.rows import TableRow
from seiche.lake.state import State
from seiche.lake.transaction import Transaction
from seiche.store import open_store
from seiche.store.base import Store
from seiche.store.prefix import below
from seiche.table.format.refs import branch_path, tag_path
from seiche.testing import Call, WrappingStore
from tests.gateway_server import direct

SCHEMA = pa.schema([("id", pa.int64())])
T = TypeVar("T")
TABLE = ("shop", "t")
BRANCH = ("shop", "t@dev")


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    made = seiche.create(open_store(str(tmp_path / "lake"), durability="os"))
    made.create_namespace("shop")
    made.create_table(TABLE, SCHEMA).append(pa.table({"id": [1]}, schema=SCHEMA))
    return made


def desk_of(lake: Lake) -> Store:
    return below(lake.store, main_desk(lake.store, lake.table(TABLE).row))


def make_branch(lake: Lake) -> None:
    namespace = lake.namespace(branches=True)
    namespace.create_table_branch(ln.CreateTableBranchRequest(id=list(TABLE), name="dev"))


def make_tag(lake: Lake) -> None:
    namespace = lake.namespace(branches=True)
    namespace.create_table_tag(ln.CreateTableTagRequest(id=list(TABLE), tag="kept", version=1))


def open_table(lake: Lake) -> None:
    lake.namespace(branches=True).describe_table(ln.DescribeTableRequest(id=list(TABLE)))


def test_a_branch_that_a_client_and_the_lake_removed_and_a_rollback_brought_back_stays(lake: Lake) -> None:
    make_branch(lake)
    before = lake.version
    desk_of(lake).delete(branch_path("dev"))
    lake.drop_table(BRANCH)
    open_table(lake)
    lake.rollback(to=before)
    open_table(lake)
    assert BRANCH in lake.tables("shop")


def test_a_branch_whose_file_a_client_removes_is_dropped(lake: Lake) -> None:
    make_branch(lake)
    desk_of(lake).delete(branch_path("dev"))
    open_table(lake)
    assert BRANCH not in lake.tables("shop")


class Overtaken(WrappingStore):
    """A desk on which something happens between the look at what was shown and the look at the files."""

    def __init__(self, desk: Store, meanwhile: Callable[[], None]) -> None:
        super().__init__(desk)
        self._meanwhile = meanwhile

    def _call(self, call: Call, act: Callable[[], T]) -> T:
        if call.path == "_refs":
            self._meanwhile()
        return act()


def test_a_tag_that_is_made_anew_while_somebody_looks_is_not_taken_for_a_deleted_one(lake: Lake) -> None:
    make_tag(lake)
    row = lake.table(TABLE).row

    def anew() -> None:
        lake.namespace(branches=True).delete_table_tag(ln.DeleteTableTagRequest(id=list(TABLE), tag="kept"))
        put_tag(lake, row, row, "kept", 2, None, replaces=False)  # and its file is yet to be written

    References(lake, Overtaken(desk_of(lake), anew), TABLE, row).settle()
    assert tags(lake.state(), row)["kept"].version == 2


def test_a_tag_whose_file_a_client_removes_is_deleted(lake: Lake) -> None:
    make_tag(lake)
    desk_of(lake).delete(tag_path("kept"))
    open_table(lake)
    assert tags(lake.state(), lake.table(TABLE).row) == {}


def drop_table(lake: Lake) -> None:
    lake.namespace(branches=True).drop_table(ln.DropTableRequest(id=list(TABLE)))


def drop_namespace(lake: Lake) -> None:
    lake.namespace(branches=True).drop_namespace(ln.DropNamespaceRequest(id=["shop"], behavior="Cascade"))


@pytest.mark.parametrize("drop", [drop_table, drop_namespace])
def test_the_tags_of_a_table_go_with_it_in_one_step(lake: Lake, drop: Callable[[Lake], None]) -> None:
    """Nobody could take them away later, and they would keep its files for ever."""
    make_tag(lake)
    make_branch(lake)
    before = lake.version
    drop(lake)
    assert lake.version == before + 1
    assert lake.tags() == {}
    assert lake.tables() == []


def test_branches_and_tags_are_listed_by_pages(lake: Lake) -> None:
    namespace, table = lake.namespace(branches=True), list(TABLE)
    for name in ("a", "b", "c"):
        namespace.create_table_branch(ln.CreateTableBranchRequest(id=table, name=name))
        namespace.create_table_tag(ln.CreateTableTagRequest(id=table, tag=name, version=1))
    first = namespace.list_table_branches(ln.ListTableBranchesRequest(id=table, limit=2))
    rest = namespace.list_table_branches(ln.ListTableBranchesRequest(id=table, page_token=first.page_token))
    assert ([*first.branches], [*rest.branches], rest.page_token) == (["a", "b"], ["c"], None)
    tagged = namespace.list_table_tags(ln.ListTableTagsRequest(id=table, limit=2))
    others = namespace.list_table_tags(ln.ListTableTagsRequest(id=table, page_token=tagged.page_token))
    assert ([*tagged.tags], [*others.tags], others.page_token) == (["a", "b"], ["c"], None)


def test_branches_and_tags_follow_their_table_in_a_transaction_by_header(lake: Lake) -> None:
    make_branch(lake)
    make_tag(lake)
    servers, headers = direct(lake), {"X-Seiche-Transaction": "s"}

    def asked(path: str, **body: str) -> int:
        return servers.ask("POST", path, body, lance=True, headers=headers).status

    assert asked("/v1/table/shop%24t/rename", new_table_name="u") == 200
    assert asked("/v1/table/shop%24u/rename", new_table_name="v") == 200
    assert asked("/v1/namespace/other/create") == 200
    decided = {"actions": [{"setStatusAction": {"status": "Succeeded"}}]}
    assert servers.ask("POST", "/v1/transaction/s/alter", decided, lance=True).status == 200
    assert lake.tables() == [("shop", "v"), ("shop", "v@dev")]
    headers = {"X-Seiche-Transaction": "another"}
    assert asked("/v1/table/shop%24v/drop") == 200
    assert len(lake.tags()) == 1, "nobody else sees it yet"
    assert servers.ask("POST", "/v1/transaction/another/alter", decided, lance=True).status == 200
    assert (lake.tables(), lake.tags()) == ([], {})


def test_of_desks_without_end_only_the_last_ones_are_remembered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(desk, "_MOST_KNOWN", 2)
    desks = desk.Desks(open_store(str(tmp_path), durability="os"))
    rows = [TableRow(id=name, location=f"tables/{name}") for name in "abc"]
    first, second = desks.of(rows[0]), desks.of(rows[1])
    assert desks.of(rows[0]) is first
    desks.of(rows[2])
    assert desks.of(rows[0]) is first, "asked for since"
    assert desks.of(rows[1]) is not second


def test_what_a_table_gets_while_it_is_dropped_goes_with_it(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """The branch stayed as a table without one, and the tag kept its version for ever: nobody could reach it."""
    other, plain, made = lake.namespace(branches=True), FamilyVerbs._drop, list[Any]()

    def late(self: FamilyVerbs, transaction: Transaction, name: Name) -> None:
        if not made:
            made.append(other.create_table_tag(ln.CreateTableTagRequest(id=list(TABLE), tag="late", version=1)))
            made.append(other.create_table_branch(ln.CreateTableBranchRequest(id=list(TABLE), name="late")))
        plain(self, transaction, name)

    monkeypatch.setattr(FamilyVerbs, "_drop", late)
    row = lake.state().relation(TABLE)
    assert isinstance(row, TableRow)
    drop_table(lake)
    assert len(made) == 2
    assert (lake.tables(), tags(lake.state(), row)) == ([], {})


def test_a_table_that_is_dropped_meanwhile_gets_no_tag(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = tags_module._version_with

    def late(state: State, line: TableRow, version: int) -> int:
        found = plain(state, line, version)
        drop_table(lake)
        return found

    row = lake.state().relation(TABLE)
    assert isinstance(row, TableRow)
    monkeypatch.setattr(tags_module, "_version_with", late)
    with pytest.raises(ln.TableNotFoundError):
        lake.namespace(branches=True).create_table_tag(ln.CreateTableTagRequest(id=list(TABLE), tag="late", version=1))
    assert tags(lake.state(), row) == {}
