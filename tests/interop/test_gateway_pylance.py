"""pylance 14, as it is, through the Lance Namespace server of a lake."""

import json
import os
import shutil
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import lance
import lance_namespace as names
import pyarrow as pa
import pytest
from lance.namespace import RestNamespace

import seiche
from seiche import Lake, RetryableConflict
from seiche.gateway.lance_namespace.desk import Desks
from seiche.gateway.lance_namespace.namespace import DeskNamespace
from seiche.store import open_store
from seiche.table.format import file
from seiche.table.format.transaction_pb2 import Transaction
from tests.gateway_server import Gateways, gateways
from tests.processes import CONTEXT
from tests.servers import S3Server

SCHEMA = pa.schema([("id", pa.int64()), ("n", pa.int64())])
TABLE = ["shop", "t"]


def rows(*ids: int, n: int = 0) -> pa.Table:
    return pa.table({"id": list(ids), "n": [n] * len(ids)}, schema=SCHEMA)


def client(url: str, transaction: str = "") -> RestNamespace:
    headers = {"header.x-seiche-transaction": transaction} if transaction else {}
    return RestNamespace(uri=url, **headers)  # type: ignore[no-untyped-call]


def opened(
    where: str | names.LanceNamespace, transaction: str = "", table: list[str] | None = None
) -> lance.LanceDataset:
    """The table through a server at an address, or through a namespace in this process."""
    namespace = client(where, transaction) if isinstance(where, str) else where
    return lance.dataset(namespace_client=namespace, table_id=table or TABLE)


def ids(lake: Lake, table: str | tuple[str, ...] = "shop.t") -> list[int]:
    return sorted(lake.table(table).to_arrow()["id"].to_pylist())


def commit(servers: Gateways, transaction: str, status: str = "Succeeded") -> Any:
    body = {"actions": [{"setStatusAction": {"status": status}}]}
    return servers.ask("POST", f"/v1/transaction/{transaction}/alter", body, lance=True)


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    made = seiche.create(open_store(str(tmp_path / "lake"), durability="os"))
    made.create_namespace("shop")
    made.create_table("shop.t", SCHEMA).append(rows(*range(10)))
    return made


@pytest.fixture
def servers(lake: Lake) -> Iterator[Gateways]:
    with gateways(lake) as made:
        yield made


def life(lake: Lake, url: str) -> None:
    """Every kind of commit that pylance makes, and what the lake and a plain reader find afterwards."""
    namespace, table = client(url), ["shop", "made"]
    lance.write_dataset(rows(*range(50)), namespace_client=namespace, table_id=table, mode="create")
    lance.write_dataset(rows(*range(50, 100)), namespace_client=namespace, table_id=table, mode="append")
    dataset = opened(url, table=table)
    dataset.delete("id = 4")
    assert dataset.update({"n": "n + 1"}, where="id = 5") == {"num_rows_updated": 1}
    dataset.insert(rows(1000, n=1))
    merge = dataset.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
    merge.execute(rows(6, 2000, n=7))
    dataset.create_scalar_index("id", "BTREE")
    dataset.add_columns({"m": "n * 2"})
    lake.table("shop.made").append(pa.table({"id": [3000], "n": [1], "m": [2]}))
    metrics = dataset.optimize.compact_files()
    assert metrics.fragments_removed > 1
    dataset.drop_columns(["m"])
    dataset.checkout_version(2).restore()  # type: ignore[no-untyped-call]
    dataset = opened(url, table=table)
    dataset.optimize.optimize_indices()
    assert dataset.version == lake.table("shop.made").version
    assert ids(lake, "shop.made") == list(range(100))
    assert opened(url, table=table).checkout_version(5).count_rows() == 100
    dataset.delete("id >= 50")
    options = dict(lake.store.native_options) or None
    plain = lance.dataset(lake.table("shop.made").uri.removeprefix("file://"), storage_options=options)
    plain.validate()  # type: ignore[no-untyped-call]
    assert plain.to_table().equals(lake.table("shop.made").to_arrow())
    assert ids(lake, "shop.made") == list(range(50))
    lance.write_dataset(rows(1), namespace_client=namespace, table_id=table, mode="overwrite")
    assert ids(lake, "shop.made") == [1]
    assert lake.fsck().problems == ()


def test_every_kind_of_commit_goes_through_the_lake(servers: Gateways) -> None:
    life(servers.lake, servers.lance)


@pytest.mark.slow
def test_every_kind_of_commit_goes_through_a_lake_in_a_bucket(seaweedfs: S3Server) -> None:
    lake = seiche.create(seaweedfs.uri(), **seaweedfs.options)
    lake.create_namespace("shop")
    with gateways(lake) as servers:
        life(lake, servers.lance)


def increments(url: str, barrier: Any, told: Any, count: int) -> None:
    dataset = opened(url)
    barrier.wait()
    for _ in range(count):
        assert dataset.update({"n": "n + 1"}, where="id = 3") == {"num_rows_updated": 1}
    told.put(count)


def test_two_processes_that_increment_one_row_fifty_times_each_make_a_hundred(servers: Gateways) -> None:
    barrier, told = CONTEXT.Barrier(2), CONTEXT.Queue()
    processes = [CONTEXT.Process(target=increments, args=(servers.lance, barrier, told, 50)) for _ in range(2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(240)
        assert process.exitcode == 0, "pylance rebases by itself: nobody hears of a conflict"
    assert servers.lake.table("shop.t").to_arrow(filter="id = 3")["n"].to_pylist() == [100]
    assert servers.lake.table("shop.t").version == 2 + 100


def test_pylance_rebases_on_what_others_committed_by_any_way(servers: Gateways) -> None:
    dataset = opened(servers.lance)
    servers.lake.table("shop.t").append(rows(100))
    servers.lake.table("shop.t").delete("id = 0")
    dataset.delete("id = 1")
    assert ids(servers.lake) == [*range(2, 10), 100]
    assert sorted(dataset.to_table()["id"].to_pylist()) == ids(servers.lake), "the handle shows what was committed"
    dataset.insert(rows(200))
    assert ids(servers.lake) == [*range(2, 10), 100, 200]


def test_pylance_gets_through_beside_others_who_commit_while_it_waits(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It goes by what is on the desk when it tries again, and asks nobody for what has come since it was refused."""
    create, describe, first = DeskNamespace._create_all, DeskNamespace.describe_table_version, Lake.first
    done: list[str] = []

    def others() -> None:
        lake.table("shop.t").append(rows(100))

    def creating(self: DeskNamespace, entries: Any) -> Any:
        if not done:
            others()
        done.append("tried")
        return create(self, entries)

    def described(self: DeskNamespace, request: Any) -> Any:
        """The last that pylance asks before it waits."""
        found = describe(self, request)
        others()
        return found

    def let_in(self: Lake) -> Any:
        done.append("let in")
        return first(self)

    monkeypatch.setattr(DeskNamespace, "_create_all", creating)
    monkeypatch.setattr(DeskNamespace, "describe_table_version", described)
    monkeypatch.setattr(Lake, "first", let_in)
    opened(lake.namespace(branches=True)).insert(rows(50))
    assert done[:2] == ["tried", "tried"]
    assert done[-1] == "let in", "who has lost is let in before others"
    assert lake.table("shop.t").count_rows("id = 50") == 1


def test_pylance_sees_every_one_of_several_commits(servers: Gateways) -> None:
    """The one that stands in its way is not the last: if it were missing, an update would be lost."""
    dataset = opened(servers.lance)
    servers.lake.table("shop.t").update({"n": "5"}, where="id = 3")
    servers.lake.table("shop.t").append(rows(100))
    assert dataset.update({"n": "n + 1"}, where="id = 3") == {"num_rows_updated": 1}
    assert servers.lake.table("shop.t").to_arrow(filter="id = 3")["n"].to_pylist() == [6]


def test_releases_before_14_find_what_others_committed(servers: Gateways) -> None:
    """LanceDB 0.40 comes with Lance 13, which looks for transactions in another field, and then for a file of theirs on
    the desk, where there is none.
    """
    servers.lake.table("shop.t").delete("id = 0")
    desk = Path(opened(servers.lance).uri)
    (shown,) = (desk / "_versions").glob("*.manifest")
    data = shown.read_bytes()
    read = file.decode(data, path=shown.name)
    assert read.manifest.header.HasField("old_transaction_section")
    data = data[read.manifest.header.old_transaction_section :]
    assert Transaction.FromString(data[4 : 4 + int.from_bytes(data[:4], "little")]) == read.transaction


def test_an_old_handle_finds_every_version_since(servers: Gateways) -> None:
    """pylance skips a version that it does not find, and would bring back what that one deleted."""
    old = lance.dataset(namespace_client=client(servers.lance), table_id=TABLE, version=1)
    for gone in range(3):
        servers.lake.table("shop.t").delete(f"id = {gone}")
    servers.lake.table("shop.t").update({"n": "5"}, where="id = 9")
    old.insert(rows(77))
    assert ids(servers.lake) == [*range(3, 10), 77]
    with pytest.raises(OSError, match="Too many concurrent writers"):
        old.checkout_version(2).update({"n": "n + 1"}, where="id = 9", conflict_retries=0)
    assert servers.lake.table("shop.t").to_arrow(filter="id = 9")["n"].to_pylist() == [5]


def ids_at(servers: Gateways, version: int) -> list[int]:
    return sorted(opened(servers.lance).checkout_version(version).to_table()["id"].to_pylist())


def test_versions_that_others_made_are_restored(servers: Gateways) -> None:
    """Their files were never on the desk: pylance was told of a missing file, and its user that nothing is known."""
    table = servers.lake.table("shop.t")
    table.append(rows(50))
    table.compact()
    table.create_index("id", "BTREE")
    table.delete("id < 5")
    wanted = {version: ids_at(servers, version) for version in range(1, table.version + 1)}
    table.overwrite(rows(99))
    for version, found in wanted.items():
        opened(servers.lance).checkout_version(version).restore()  # type: ignore[no-untyped-call]
        assert ids(servers.lake) == found
    assert servers.lake.fsck().problems == ()


def test_a_version_that_has_expired_is_not_restored(servers: Gateways) -> None:
    """Its files may be on their way out. A handle that was opened before does not know."""
    lance.write_dataset(rows(50), namespace_client=client(servers.lance), table_id=TABLE, mode="overwrite")
    old = opened(servers.lance)
    servers.lake.table("shop.t").overwrite(rows(99))
    servers.lake.table("shop.t").append(rows(100))
    servers.lake.expire(older_than=0, keep=1)
    with pytest.raises(OSError, match="unknown"):
        old.restore()  # type: ignore[no-untyped-call]
    assert ids(servers.lake) == [99, 100]


@pytest.mark.parametrize("stable", [False, True])
def test_compactions_of_rows_that_are_indexed_and_deleted(servers: Gateways, stable: bool) -> None:
    """Indices that know rows by their ids go on without those that are gone, in pylance otherwise than in the lake."""
    namespace, table = client(servers.lance), ["shop", "indexed"]
    lance.write_dataset(
        rows(*range(30)),
        namespace_client=namespace,
        table_id=table,
        mode="create",
        enable_stable_row_ids=stable,
        max_rows_per_file=10,
    )
    for kind in ("BITMAP", "BTREE"):
        opened(servers.lance, table=table).create_scalar_index("id", kind, name=kind)
    opened(servers.lance, table=table).delete("id = 3")
    compacted = opened(servers.lance, table=table).optimize.compact_files()
    assert (compacted.fragments_removed, compacted.fragments_added) == (3, 1)
    opened(servers.lance, table=table).delete("id = 5")
    found = servers.lake.table("shop.indexed").to_lance()
    assert [found.to_table(filter=f"id = {one}").num_rows for one in (2, 3, 4, 5, 29)] == [1, 0, 1, 0, 1]
    assert sorted(one.name for one in found.describe_indices()) == ["BITMAP", "BTREE"]


def test_compactions_of_indexed_rows_into_several_fragments(servers: Gateways) -> None:
    """pylance stores that an index covers fragments in a row otherwise than the lake does."""
    namespace, table = client(servers.lance), ["shop", "indexed"]
    lance.write_dataset(
        rows(*range(12)), namespace_client=namespace, table_id=table, mode="create", max_rows_per_file=2
    )
    dataset = opened(servers.lance, table=table)
    dataset.create_scalar_index("id", "BTREE")
    dataset.insert(rows(100))
    dataset.optimize.compact_files(target_rows_per_fragment=4)
    assert len(dataset.get_fragments()) == 4
    found = servers.lake.table("shop.indexed").to_lance()
    assert [found.to_table(filter=f"id = {one}").num_rows for one in (0, 11, 100, 12)] == [1, 1, 1, 0]


@pytest.mark.parametrize("way", ["desk", "namespace", "dataset"])
def test_rows_of_which_a_segment_of_an_index_has_no_others_are_changed(lake: Lake, way: str) -> None:
    """pylance drops the segment, and does not say so."""

    def dataset() -> lance.LanceDataset:
        if way == "dataset":
            return lake.table("shop.t").to_lance()
        return opened(lake.namespace(branches=way == "desk"))

    dataset().create_scalar_index("id", "BTREE")
    for one in (100, 200):
        dataset().insert(rows(one))
        dataset().optimize.optimize_indices(num_indices_to_merge=0)
    dataset().delete("id = 100")
    dataset().update({"n": "1"}, where="id = 200")
    found = lake.table("shop.t").to_lance()
    assert [found.to_table(filter=f"id = {one}")["n"].to_pylist() for one in (9, 100, 200)] == [[0], [], [1]]
    dataset().update({"n": "2"})
    assert lake.table("shop.t").to_arrow()["n"].to_pylist() == [2] * 11
    assert lake.fsck().problems == ()


@pytest.mark.parametrize("stable", [False, True], ids=["plain", "stable"])
@pytest.mark.parametrize("way", ["delete", "update"])
def test_two_who_leave_no_row_of_a_fragment_between_them(lake: Lake, way: str, stable: bool) -> None:
    """Of the second, which it has rebased, pylance says that the fragment was changed and that it is gone."""
    lake.create_table("shop.two", SCHEMA, stable_row_ids=stable).append(rows(*range(10)))
    table = lake.table("shop.two")
    table.append(rows(*range(10, 20)))
    first, second = (opened(lake.namespace(branches=True), table=["shop", "two"]) for _ in range(2))
    first.delete("id < 5 or id > 17")
    behind = lake.transaction()
    behind.delete("shop.two", "id = 7")
    if way == "delete":
        second.delete("id >= 5 and id < 10")
        assert ids(lake, "shop.two") == [*range(10, 18)]
    else:
        second.update({"n": "1"}, where="id >= 5 and id < 10")
        assert ids(lake, "shop.two") == [*range(5, 18)]
        assert table.to_arrow(filter="n = 1").num_rows == 5
    assert opened(lake.namespace(branches=True), table=["shop", "two"]).count_rows() == table.count_rows()
    # What was begun before goes by the transaction that the second one left.
    with pytest.raises(RetryableConflict):
        behind.commit()
    assert lake.fsck().problems == ()


@pytest.mark.parametrize("compacted", [False, True])
def test_rows_that_were_merged_before_a_column_was_dropped_are_committed_after_it(lake: Lake, compacted: bool) -> None:
    """pylance says that it has read the newest version, and its files have values of the column."""
    old = opened(lake.namespace(branches=True))
    table = lake.table("shop.t")
    table.append(rows(20))
    table.drop_columns(["n"])
    merge = old.merge_insert("id").when_not_matched_insert_all()
    if compacted:
        table.compact()
    else:
        merge = merge.when_matched_update_all()
    merge.execute(rows(3, 30, n=7))
    assert table.schema.names == ["id"]
    assert ids(lake) == [*range(10), 20, 30]
    assert opened(lake.namespace(branches=True)).to_table().num_rows == 12
    assert lake.fsck().problems == ()


def test_an_index_that_is_built_anew_without_a_word_of_its_details_keeps_them(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So a compaction by Lance 13, which LanceDB 0.40 has, tells of an index over vectors."""
    vectors = pa.table({"v": pa.array([[1.0, 0.0], [0.0, 1.0]] * 4, pa.list_(pa.float32(), 2))})
    table = lake.create_table("shop.v", vectors.schema)
    for _ in range(2):
        table.append(vectors)
    dataset = opened(lake.namespace(branches=True), table=["shop", "v"])
    dataset.create_index("v", "IVF_FLAT", num_partitions=1)
    read, said = DeskNamespace._read, []

    def as_before_14(self: DeskNamespace, row: Any, entry: Any) -> Any:
        native = read(self, row, entry)
        for one in native.message.rewrite.rewritten_indices:
            said.append(one.new_index_details.value)
            one.new_index_details.ClearField("value")
        return native

    monkeypatch.setattr(DeskNamespace, "_read", as_before_14)
    dataset.optimize.compact_files()
    assert len(dataset.get_fragments()) == 1
    assert all(said)
    found = lake.table("shop.v").to_lance()
    assert found.to_table(nearest={"column": "v", "q": [1.0, 0.0], "k": 16}).num_rows == 16


def test_a_lost_answer_is_found_to_be_a_commit(servers: Gateways, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server commits, and then fails to say so: pylance looks, and finds its own transaction."""
    from seiche.gateway.lance_namespace.namespace import DeskNamespace

    dataset = opened(servers.lance)
    made = DeskNamespace._create
    lost = []

    def lose(self: Any, entries: Any) -> Any:
        made(self, entries)
        lost.append(entries)
        raise seiche.Unavailable("the answer is lost")

    monkeypatch.setattr(DeskNamespace, "_create", lose)
    dataset.insert(rows(50))
    assert len(lost) == 1
    assert ids(servers.lake) == [*range(10), 50]


def test_a_clean_up_of_the_lake_does_not_stop_a_client_that_is_slow(servers: Gateways) -> None:
    dataset = opened(servers.lance)
    servers.lake.table("shop.t").append(rows(11))
    servers.lake.expire(older_than=0, keep=2)
    for _ in range(2):
        servers.lake.gc(dry_run=False, grace=0)
    dataset.insert(rows(12))
    assert ids(servers.lake) == [*range(10), 11, 12]


def test_a_transaction_captures_commits_until_it_is_committed(servers: Gateways) -> None:
    inside = opened(servers.lance, "T1")
    inside.insert(rows(20, 21))
    inside.delete("id < 5")
    lance.write_dataset(rows(1), namespace_client=client(servers.lance, "T1"), table_id=["shop", "new"], mode="create")
    assert sorted(opened(servers.lance, "T1").to_table()["id"].to_pylist()) == [*range(5, 10), 20, 21]
    assert ids(servers.lake) == list(range(10))
    assert servers.lake.tables("shop") == [("shop", "t")]
    assert opened(servers.lance).count_rows() == 10
    servers.lake.table("shop.t").append(rows(99))
    before = servers.lake.version
    assert servers.ask("POST", "/v1/transaction/T1/describe", {}, lance=True).json["status"] == "Running"
    assert commit(servers, "T1").json == {"status": "Succeeded"}
    assert servers.lake.version == before + 1
    assert ids(servers.lake) == [*range(5, 10), 20, 21, 99]
    assert ids(servers.lake, "shop.new") == [1]
    assert commit(servers, "T1").json == {"status": "Succeeded"}, "told again, it is done once"
    assert servers.lake.version == before + 1
    assert servers.ask("POST", "/v1/transaction/T1/describe", {}, lance=True).json["status"] == "Succeeded"


def test_a_transaction_that_conflicts_changes_nothing(servers: Gateways) -> None:
    opened(servers.lance, "T2").update({"n": "1"}, where="id = 3")
    lance.write_dataset(rows(1), namespace_client=client(servers.lance, "T2"), table_id=["shop", "new"], mode="create")
    servers.lake.table("shop.t").update({"n": "2"}, where="id = 3")
    answer = commit(servers, "T2")
    assert (answer.status, answer.json["code"]) == (409, 14)
    assert servers.lake.tables("shop") == [("shop", "t")]
    assert servers.lake.table("shop.t").to_arrow(filter="id = 3")["n"].to_pylist() == [2]


def test_a_cancelled_transaction_never_happens(servers: Gateways) -> None:
    opened(servers.lance, "T3").delete("true")
    assert commit(servers, "T3", "Canceled").json == {"status": "Canceled"}
    assert commit(servers, "T3").status == 400
    assert ids(servers.lake) == list(range(10))
    assert servers.ask("POST", "/v1/transaction/nobody/describe", {}, lance=True).json["code"] == 10


def test_a_transaction_survives_the_server(lake: Lake) -> None:
    with gateways(lake) as first:
        opened(first.lance, "T4").delete("id < 5")
    with gateways(lake) as second:
        inside = opened(second.lance, "T4")
        assert inside.count_rows() == 5
        inside.insert(rows(30))
        assert commit(second, "T4").status == 200
    assert ids(lake) == [*range(5, 10), 30]


def staged(dataset: lance.LanceDataset, monkeypatch: pytest.MonkeyPatch, change: Any) -> dict[str, Any]:
    """What pylance would have sent to `version/create`; the manifest is on the desk, and nothing is committed."""
    from seiche.gateway.lance_namespace.namespace import DeskNamespace

    taken: list[Any] = []

    def take(self: Any, entries: Any) -> Any:
        taken.extend(entries)
        raise seiche.Unavailable("not now")

    with monkeypatch.context() as patched:
        patched.setattr(DeskNamespace, "_create", take)
        with pytest.raises(OSError):
            change(dataset)
    found: dict[str, Any] = taken[0].model_dump(exclude_none=True)
    return found


@pytest.mark.parametrize("route", ["/v1/table/batch-commit", "/v1/table/version/batch-create"])
@pytest.mark.parametrize("stale", [False, True])
def test_new_versions_of_several_tables_are_one_commit(
    servers: Gateways, monkeypatch: pytest.MonkeyPatch, route: str, stale: bool
) -> None:
    lake = servers.lake
    lake.create_table("shop.u", SCHEMA).append(rows(1))
    entries = [
        staged(opened(servers.lance), monkeypatch, lambda dataset: dataset.delete("id = 0")),
        staged(opened(servers.lance, table=["shop", "u"]), monkeypatch, lambda dataset: dataset.insert(rows(2))),
    ]
    if stale:
        lake.table("shop.u").append(rows(3))
    before = lake.version
    twice = servers.ask("POST", "/v1/table/version/batch-create", {"entries": [entries[0]] * 2}, lance=True)
    assert (twice.status, twice.json["code"], lake.version) == (400, 13, before)
    commits = {"operations": [{"create_table_version": one} for one in entries]}
    answer = servers.ask("POST", route, commits if "commit" in route else {"entries": entries}, lance=True)
    if stale:
        assert (answer.status, answer.json["code"]) == (409, 14)
        assert (ids(lake), ids(lake, "shop.u"), lake.version) == (list(range(10)), [1, 3], before)
    else:
        assert answer.status == 200
        assert (ids(lake), ids(lake, "shop.u"), lake.version) == (list(range(1, 10)), [1, 2], before + 1)


def test_names(servers: Gateways) -> None:
    namespace = client(servers.lance)
    namespace.create_namespace(names.CreateNamespaceRequest(id=["shop", "inner"], properties={"a": "b"}))
    with pytest.raises(names.NamespaceAlreadyExistsError):
        namespace.create_namespace(names.CreateNamespaceRequest(id=["shop"]))
    assert namespace.list_namespaces(names.ListNamespacesRequest(id=["shop"])).namespaces == ["inner"]
    assert namespace.describe_namespace(names.DescribeNamespaceRequest(id=["shop", "inner"])).properties == {"a": "b"}
    with pytest.raises(names.NamespaceNotEmptyError):
        namespace.drop_namespace(names.DropNamespaceRequest(id=["shop"]))
    with pytest.raises(names.TableNotFoundError):
        namespace.describe_table(names.DescribeTableRequest(id=["shop", "no"]))
    namespace.rename_table(names.RenameTableRequest(id=TABLE, new_table_name="u", new_namespace_id=["shop", "inner"]))
    assert namespace.list_tables(names.ListTablesRequest(id=["shop", "inner"])).tables == ["u"]
    assert opened(servers.lance, table=["shop", "inner", "u"]).count_rows() == 10
    namespace.drop_table(names.DropTableRequest(id=["shop", "inner", "u"]))
    assert namespace.list_tables(names.ListTablesRequest(id=["shop", "inner"])).tables == []
    with pytest.raises(names.TableNotFoundError):
        namespace.register_table(names.RegisterTableRequest(id=["shop", "x"], location="/elsewhere"))
    servers.lake.create_table("shop.v", SCHEMA)
    with pytest.raises(names.TableVersionNotFoundError):
        namespace.describe_table_version({"id": ["shop", "v"], "version": 9})


def test_a_table_is_described_at_a_version_or_tag(servers: Gateways) -> None:
    def described(given: dict[str, Any]) -> Any:
        return servers.ask("POST", f"{path}/describe?load_detailed_metadata=true", given, lance=True)

    def listed_size(version: int) -> int:
        said = servers.ask("POST", f"{path}/version/describe", {"version": version}, lance=True)
        return int(said.json["version"]["manifest_size"])

    path = "/v1/table/shop%24w"
    servers.lake.create_table("shop.w", SCHEMA)
    servers.lake.table("shop.w").add_columns({"more": "1"})
    servers.lake.table("shop.w").append(rows(1).append_column("more", pa.array([1], pa.int64())))
    assert servers.ask("POST", f"{path}/tags/create", {"tag": "first", "version": 1}, lance=True).status == 200
    for given, version, columns in (
        ({}, 3, 1),
        ({"version": 1}, 1, 0),
        ({"tag": "first"}, 1, 0),
        ({"version": 2}, 2, 1),
    ):
        said = described(given).json
        assert said["version"] == version
        assert len(said["schema"]["fields"]) == len(SCHEMA) + columns
    assert (described({"version": 9}).status, described({"version": 9}).json["code"]) == (404, 11)
    assert (described({"tag": "none"}).status, described({"tag": "none"}).json["code"]) == (404, 8)
    tags = servers.ask("POST", f"{path}/tags/list", {}, lance=True).json["tags"]
    assert tags["first"]["manifestSize"] == listed_size(1)
    # Pages of versions, also when the one that the next begins with is not there.
    listed = servers.ask("POST", f"{path}/version/list?limit=2", {}, lance=True).json
    assert ([one["version"] for one in listed["versions"]], listed["page_token"]) == ([1, 2], "3")
    last = servers.ask("POST", f"{path}/version/list?descending=true&page_token=77", {}, lance=True).json
    assert [one["version"] for one in last["versions"]] == [3, 2, 1]
    assert servers.ask("POST", f"{path}/version/list?page_token=x", {}, lance=True).status == 400


def test_a_table_that_lies_elsewhere_is_registered(servers: Gateways, tmp_path: Path) -> None:
    elsewhere = str(tmp_path / "elsewhere.lance")
    lance.write_dataset(rows(1, 2), elsewhere)
    namespace = client(servers.lance)
    namespace.register_table(names.RegisterTableRequest(id=["shop", "far"], location=elsewhere))
    far = opened(servers.lance, table=["shop", "far"])
    far.insert(rows(3))
    assert ids(servers.lake, "shop.far") == [1, 2, 3]
    assert "far" in namespace.list_tables(names.ListTablesRequest(id=["shop"])).tables
    with pytest.raises(names.LanceNamespaceError):
        namespace.register_table(names.RegisterTableRequest(id=["shop", "far"], location=elsewhere))
    own = servers.lake.table("shop.t").uri.removeprefix("file://")
    with pytest.raises(names.InvalidInputError):
        namespace.register_table(names.RegisterTableRequest(id=["shop", "mine"], location=own))
    with pytest.raises(names.UnsupportedOperationError):
        namespace.deregister_table(names.DeregisterTableRequest(id=TABLE))
    namespace.deregister_table(names.DeregisterTableRequest(id=["shop", "far"]))
    assert servers.lake.tables("shop") == [("shop", "t")]
    assert lance.dataset(elsewhere).count_rows() == 3


def branched(lake: Lake, url: str | names.LanceNamespace, table: list[str]) -> None:
    """The life of branches: from the main line and from another branch, all kinds of work, and what others see."""
    main = opened(url, table=table)
    name, base = ".".join(table), sorted(main.to_table()["id"].to_pylist())
    dev = main.create_branch("dev")
    assert dev.version == main.version
    dev.insert(rows(100))
    assert dev.update({"n": "7"}, where="id = 100") == {"num_rows_updated": 1}
    dev.delete(f"id = {base[0]}")
    main.insert(rows(200))
    expected = [*base[1:], 100]
    again = opened(url, table=table).checkout_version(("dev", None))
    assert sorted(again.to_table()["id"].to_pylist()) == expected
    assert ids(lake, (*table[:-1], f"{table[-1]}@dev")) == expected, "it is a table of the lake"
    assert ids(lake, name) == [*base, 200], "the main line is what it was"
    assert set(opened(url, table=table).branches.list()) == {"dev"}
    inner = again.create_branch("feature/one")
    inner.insert(rows(300))
    inner.create_scalar_index("id", "BTREE")
    inner.optimize.compact_files()
    merge = inner.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
    merge.execute(rows(100, 301, n=9))
    assert sorted(inner.to_table()["id"].to_pylist()) == [*expected, 300, 301]
    found = opened(url, table=table).checkout_version(("feature/one", None))
    assert found.to_table(filter="id = 100")["n"].to_pylist() == [9]
    assert again.checkout_version(("dev", main.version - 1)).count_rows() == len(base), "time travel on a branch"
    lake.table((*table[:-1], f"{table[-1]}@dev")).append(rows(101))
    fresh = opened(url, table=table).checkout_version(("dev", None))
    fresh.delete("id = 100")
    assert ids(lake, (*table[:-1], f"{table[-1]}@dev")) == [*base[1:], 101]
    assert lake.fsck().problems == ()


def test_branches(servers: Gateways) -> None:
    lake = servers.lake
    branched(lake, servers.lance, TABLE)
    before = {name[-1]: lake.table(name).to_arrow().num_rows for name in lake.tables("shop")}
    lake.table("shop.t").delete("true")
    lake.expire(older_than=0, keep=1)
    for _ in range(2):
        lake.gc(dry_run=False, grace=0)
    assert lake.table(("shop", "t@dev")).to_arrow().num_rows == before["t@dev"], "branches keep the files they refer to"
    client(servers.lance).rename_table(names.RenameTableRequest(id=TABLE, new_table_name="u"))
    assert [name[-1] for name in lake.tables("shop")] == ["u", "u@dev", "u@feature~one"]
    renamed = opened(servers.lance, table=["shop", "u"]).checkout_version(("dev", None))
    assert renamed.count_rows() == before["t@dev"]
    opened(servers.lance, table=["shop", "u"]).branches.delete("feature/one")
    assert set(opened(servers.lance, table=["shop", "u"]).branches.list()) == {"dev"}
    assert [name[-1] for name in lake.tables("shop")] == ["u", "u@dev"], "what pylance deletes by itself is dropped"
    client(servers.lance).drop_table(names.DropTableRequest(id=["shop", "u"]))
    assert lake.tables("shop") == []


def test_branches_without_a_server(lake: Lake) -> None:
    with pytest.raises(Exception, match=r"namespace\(branches=True\)"):
        opened(lake.namespace()).create_branch("dev")
    namespace = lake.namespace(branches=True)
    branched(lake, namespace, TABLE)
    main = opened(namespace)
    main.insert(rows(400))
    opened(namespace).delete("id = 400")
    main.insert(rows(500))  # begun before the delete: pylance rebases
    assert 400 not in ids(lake)
    assert 500 in ids(lake)
    main.tags.create("kept", main.version)
    opened(namespace).branches.delete("feature/one")
    assert set(opened(namespace).branches.list()) == {"dev"}
    assert [name[-1] for name in lake.tables("shop")] == ["t", "t@dev"]
    assert set(opened(lake.namespace(branches=True)).tags.list()) == {"kept"}


@pytest.mark.slow
def test_branches_in_a_bucket(seaweedfs: S3Server) -> None:
    lake = seiche.create(seaweedfs.uri(), **seaweedfs.options)
    lake.create_namespace("shop")
    lake.create_table("shop.t", SCHEMA).append(rows(*range(5)))
    with gateways(lake) as servers:
        branched(lake, servers.lance, TABLE)


def test_branches_by_the_routes_of_the_protocol(servers: Gateways) -> None:
    def asked(what: str, **body: Any) -> Any:
        return servers.ask("POST", f"/v1/table/shop%24t/branches/{what}", body, lance=True)

    assert asked("list").json == {"branches": {}}
    assert asked("create", name="dev", from_version=1).status == 200
    assert (asked("create", name="dev").status, asked("create", name="dev").json["code"]) == (409, 23)
    assert asked("create", name="a..b").json["code"] == 13
    assert asked("create", name="x", from_branch="nobody").json["code"] == 22
    assert asked("create", name="x", from_version=77).status == 404
    assert asked("create", name="inner", from_branch="dev").status == 200
    listed = asked("list").json["branches"]
    assert {name: (one.get("parentBranch"), one["parentVersion"]) for name, one in listed.items()} == {
        "dev": (None, 1),
        "inner": ("dev", 1),
    }
    dev = opened(servers.lance).checkout_version(("dev", None))
    assert dev.count_rows() == 0
    dev.insert(rows(5))
    assert opened(servers.lance).checkout_version(("dev", None)).count_rows() == 1
    assert asked("delete", name="dev").status == 200
    assert asked("delete", name="dev").json["code"] == 22
    assert set(asked("list").json["branches"]) == {"inner"}
    with pytest.raises((OSError, ValueError)):
        opened(servers.lance).checkout_version(("dev", None))
    described = servers.ask("POST", "/v1/table/shop%24t/describe", {"branch": "inner"}, lance=True).json
    assert described["version"] == 1
    assert ids(servers.lake) == list(range(10))


def test_a_branch_goes_on_when_its_table_is_dropped_by_others(servers: Gateways) -> None:
    """It is a table of the lake as all others."""
    lake = servers.lake
    branch = opened(servers.lance).create_branch("dev")
    branch.insert(rows(100))
    branch.create_branch("inner")
    lake.drop_table("shop.t")
    for name in ("t@dev", "t@inner"):
        dataset = opened(servers.lance, table=["shop", name])
        dataset.insert(rows(101))
        dataset.delete("id < 9")
        dataset.optimize.compact_files()
        assert ids(lake, ("shop", name)) == [9, 100, 101]
        assert sorted(dataset.to_table()["id"].to_pylist()) == [9, 100, 101]
    assert lake.fsck().problems == ()


@pytest.mark.parametrize("way", ["branch", "table", "dropped", "protocol"])
def test_a_branch_that_has_no_table_of_its_name_is_a_table_as_all_others(servers: Gateways, way: str) -> None:
    """It was shown on the desk of the table where it began: pylance could not make branches of it, and listed, and
    could delete, those of that table.
    """
    lake = servers.lake
    main = opened(servers.lance)
    main.create_scalar_index("id", "BTREE")
    branch = main.create_branch("dev")
    branch.insert(rows(100))
    main.create_branch("x").insert(rows(200))
    main.tags.create("old", main.version)
    before = opened(servers.lance, table=["shop", "t@dev"])
    name = "t@dev"
    if way == "branch":
        lake.rename_table(("shop", "t@dev"), "shop.plain")
        name = "plain"
    elif way == "protocol":
        client(servers.lance).rename_table(names.RenameTableRequest(id=["shop", "t@dev"], new_table_name="plain"))
        name = "plain"
    elif way == "table":
        lake.rename_table("shop.t", "shop.u")
    else:
        lake.drop_table("shop.t")
    table = ["shop", name]
    plain = opened(servers.lance, table=table)
    assert plain.version == before.version
    assert (plain.branches.list(), plain.tags.list()) == ({}, {})
    inner = plain.create_branch("x")
    inner.insert(rows(300))
    inner.create_branch("y").delete("id < 9")
    plain.delete("id = 0")
    plain.tags.create("new", plain.version)
    plain.insert(rows(101))
    assert ids(lake, tuple(table)) == [*range(1, 10), 100, 101]
    assert ids(lake, ("shop", f"{name}@x")) == [*range(10), 100, 300]
    assert ids(lake, ("shop", f"{name}@y")) == [9, 100, 300]
    again = opened(servers.lance, table=table)
    assert set(again.branches.list()) == {"x", "y"}
    assert {one: kept["parent_branch"] for one, kept in again.branches.list().items()} == {"x": None, "y": "x"}
    assert again.checkout_version(("y", None)).to_table(filter="id = 100").num_rows == 1
    assert set(again.tags.list()) == {"new"}
    if way in ("branch", "protocol"):
        assert set(opened(servers.lance).branches.list()) == {"x"}
        assert set(opened(servers.lance).tags.list()) == {"old"}
        assert opened(servers.lance).checkout_version(("x", None)).count_rows() == 11
        lake.rename_table(("shop", name), ("shop", "t@dev"))
    elif way == "table":
        lake.rename_table("shop.u", "shop.t")
    if way != "dropped":
        listed = servers.ask("POST", "/v1/table/shop%24t/branches/list", {}, lance=True).json
        assert set(listed["branches"]) == {"dev", "x"}, "and may become one again"
        opened(servers.lance, table=["shop", "t@dev"]).insert(rows(102))
        assert ids(lake, ("shop", "t@dev")) == [*range(1, 10), 100, 101, 102]
    assert lake.fsck().problems == ()


def test_two_who_begin_one_branch(servers: Gateways) -> None:
    opened(servers.lance).create_branch("dev").insert(rows(1))
    with pytest.raises((OSError, ValueError)):
        opened(servers.lance).create_branch("dev")
    assert opened(servers.lance).checkout_version(("dev", None)).count_rows() == 11


def test_a_branch_that_is_made_again_has_nothing_of_the_first(servers: Gateways) -> None:
    """The desk still shows versions of the first one, under the same numbers."""
    first = opened(servers.lance).create_branch("dev")
    for number in range(3):
        first.insert(rows(1000 + number))
    servers.lake.drop_table(("shop", "t@dev"))
    servers.lake.table("shop.t").append(rows(50))
    again = opened(servers.lance).create_branch("dev")
    again.insert(rows(51))
    found = opened(servers.lance).checkout_version(("dev", None))
    assert sorted(found.to_table()["id"].to_pylist()) == [*range(10), 50, 51]
    assert found.to_table().sort_by("id").equals(servers.lake.table(("shop", "t@dev")).to_arrow().sort_by("id"))


def check_first(branch: lance.LanceDataset, lake: Lake) -> None:
    assert sorted(branch.to_table()["id"].to_pylist()) == [*range(10), 100]
    branch.insert(rows(101))
    assert sorted(branch.to_table()["id"].to_pylist()) == ids(lake, ("shop", "t@dev")) == [*range(10), 100, 101]
    assert lake.fsck().problems == ()


@pytest.mark.parametrize("restarted", [False, True])
@pytest.mark.parametrize("last", ["append", "overwrite"])
def test_a_branch_that_comes_back_by_a_rollback_has_nothing_of_one_that_had_its_name(
    lake: Lake, restarted: bool, last: str
) -> None:
    """Their versions have the same numbers, and lie in the same place for pylance."""

    def branch(url: str) -> lance.LanceDataset:
        return opened(url).checkout_version(("dev", None))

    with gateways(lake) as servers:
        opened(servers.lance).create_branch("dev")
        branch(servers.lance).insert(rows(100))
        first = lake.version
        opened(servers.lance).branches.delete("dev")
        opened(servers.lance).create_branch("dev")
        branch(servers.lance).insert(rows(200))
        branch(servers.lance).insert(rows(201), mode=last)
        if not restarted:
            lake.rollback(to=first)
            check_first(branch(servers.lance), lake)
    if restarted:
        lake.rollback(to=first)
        with gateways(lake) as servers:
            check_first(branch(servers.lance), lake)


def test_tags_keep_what_they_stand_for(servers: Gateways) -> None:
    lake = servers.lake
    opened(servers.lance).tags.create("start", 2)
    by_route = servers.ask("POST", "/v1/table/shop%24t/tags/create", {"tag": "first", "version": 1}, lance=True)
    assert by_route.status == 200
    taken = servers.ask("POST", "/v1/table/shop%24t/tags/create", {"tag": "first", "version": 1}, lance=True)
    assert (taken.status, taken.json["code"]) == (409, 9)
    table = opened(servers.lance)
    assert {name: one["version"] for name, one in table.tags.list().items()} == {"first": 1, "start": 2}
    listed = servers.ask("POST", "/v1/table/shop%24t/tags/list", {}, lance=True).json["tags"]
    assert {name: one["version"] for name, one in listed.items()} == {"first": 1, "start": 2}
    lake.table("shop.t").delete("id < 9")
    lake.table("shop.t").compact()
    lake.expire(older_than=0, keep=1)
    for _ in range(2):
        lake.gc(dry_run=False, grace=0)
    tagged = lance.dataset(namespace_client=client(servers.lance), table_id=TABLE, version="start")
    assert tagged.count_rows() == 10, "the tag that pylance made by itself holds it"
    first = lance.dataset(namespace_client=client(servers.lance), table_id=TABLE, version="first")
    assert (first.version, first.count_rows()) == (1, 0), "and one of a version that was old already"
    newest = lake.table("shop.t").version
    moved = servers.ask("POST", "/v1/table/shop%24t/tags/update", {"tag": "start", "version": newest}, lance=True)
    assert moved.status == 200
    found = servers.ask("POST", "/v1/table/shop%24t/tags/version", {"tag": "start"}, lance=True).json
    assert found["version"] == newest
    opened(servers.lance).tags.delete("first")
    assert set(opened(servers.lance).tags.list()) == {"start"}
    gone = servers.ask("POST", "/v1/table/shop%24t/tags/version", {"tag": "first"}, lance=True)
    assert (gone.status, gone.json["code"]) == (404, 8)
    assert servers.ask("POST", "/v1/table/shop%24t/tags/delete", {"tag": "start"}, lance=True).status == 200
    assert lake.tags() == {}


def test_a_tag_that_cannot_be_moved_does_not_stop_others_from_keeping_what_they_stand_for(servers: Gateways) -> None:
    lake, dataset = servers.lake, opened(servers.lance)
    for number in (100, 101):
        dataset.insert(rows(number))
    dataset.tags.create("a", 3)
    opened(servers.lance)
    lake.expire(older_than=timedelta(0), keep=1)
    dataset.tags.update("a", 1)  # its file is there still, but no version of the lake keeps it
    dataset.tags.create("b", 4)
    torn = Path(str(dataset.uri)) / "_refs" / "tags" / "a-b.json"
    torn.write_bytes(b"torn")
    opened(servers.lance)
    torn.unlink()
    tags = {name: one["version"] for name, one in opened(servers.lance).tags.list().items()}
    assert tags == {"a": 3, "b": 4}, "what the lake cannot do is not shown"
    lake.table("shop.t").append(rows(102))
    lake.expire(older_than=timedelta(0), keep=1)
    assert sorted(name.partition("#")[2] for name in lake.tags()) == ["a", "b"]


def test_what_was_committed_past_the_server_is_brought_in_or_set_aside(servers: Gateways, tmp_path: Path) -> None:
    lake = servers.lake
    desk = str(opened(servers.lance).uri)
    lance.dataset(desk).insert(rows(500))
    assert ids(lake) == list(range(10)), "the lake does not know yet"
    assert opened(servers.lance).count_rows() == 11
    assert ids(lake) == [*range(10), 500]
    lance.dataset(desk).insert(rows(600))
    lake.table("shop.t").append(rows(700))
    assert sorted(opened(servers.lance).to_table()["id"].to_pylist()) == [*range(10), 500, 700]
    (kept,) = Path(desk, "_foreign").iterdir()
    (named,) = lake.fsck().problems
    assert (named.kind, named.severity) == ("desk.set_aside", "note")
    assert str(kept).endswith(named.path), "it is not lost, and found by those who look"


def blobs(dataset: lance.LanceDataset) -> list[bytes | None]:
    found = dataset.take_blobs("b", indices=list(range(dataset.count_rows())))
    return [None if one is None else one.readall() for one in found]


def test_metadata_of_schemas_comes_with_the_rows(servers: Gateways) -> None:
    """pylance leaves it out of its transactions. Tables that come from pandas have some: none of them could be made."""
    table = ["shop", "frames"]
    for transaction, note in (("", "made"), ("", "again"), ("N1", "inside")):
        given = rows(1, 2).replace_schema_metadata({"pandas": note})
        mode = "create" if note == "made" else "overwrite"
        lance.write_dataset(given, namespace_client=client(servers.lance, transaction), table_id=table, mode=mode)
        assert opened(servers.lance, transaction, table=table).schema.metadata == {b"pandas": note.encode()}
    assert commit(servers, "N1").status == 200
    opened(servers.lance, table=table).add_columns(pa.schema([("z", pa.int64())], metadata={"more": "m"}))
    assert servers.lake.table("shop.frames").schema.metadata == {b"pandas": b"inside", b"more": b"m"}
    assert servers.lake.fsck().problems == ()


def test_large_values_of_blob_columns_come_into_the_table(servers: Gateways) -> None:
    """pylance writes them into files of their own, beside those that the manifest names."""
    lake, namespace, table = servers.lake, client(servers.lance), ["shop", "scans"]
    schema = pa.schema([("id", pa.int64()), lance.blob_field("b")])
    values = [bytes([number]) * size for number, size in enumerate((10, 100_000, 5_000_000))]
    data = pa.table({"id": [0, 1, 2], "b": lance.blob_array(values)}, schema=schema)
    dataset = lance.write_dataset(data, namespace_client=namespace, table_id=table, mode="create")
    dataset.insert(data)
    desk = Path(str(dataset.uri))
    large = set(desk.glob("data/*/*.blob"))
    assert len(large) == 4
    clock = datetime.now(UTC)
    for path in desk.rglob("*"):
        if path.is_file() and path.parent.name != "_versions":
            week = clock.timestamp() - 8 * 86400
            os.utime(path, (week, week))
    Desks(lake.store).tidy(clock)
    assert set(desk.glob("data/*/*.blob")) == large, "versions that stay on the desk are read from there"
    branch = opened(servers.lance, table=table).create_branch("dev")
    branch.insert(data)
    shutil.rmtree(desk)
    assert blobs(lake.table("shop.scans").to_lance()) == values * 2
    assert blobs(lake.table(("shop", "scans@dev")).to_lance()) == values * 3
    opened(servers.lance, table=table).optimize.compact_files()
    shutil.rmtree(desk)
    assert blobs(lake.table("shop.scans").to_lance()) == values * 2
    assert blobs(opened(servers.lance, table=table)) == values * 2


def test_a_large_map_of_moved_rows_comes_into_the_table(servers: Gateways) -> None:
    """pylance writes it into a file of its own, which is not among those that the manifest names."""
    lake = servers.lake
    table = lake.create_table("shop.moved", SCHEMA, stable_row_ids=False)
    for first in (0, 900_000):
        numbers = pa.array(range(first, first + 900_000))
        table.append(pa.table({"id": numbers, "n": numbers}, schema=SCHEMA))
    table.create_index("id")
    table.delete("id % 2 = 1")
    dataset = opened(servers.lance, table=["shop", "moved"])
    dataset.optimize.compact_files(defer_index_remap=True)
    desk = Path(str(dataset.uri))
    assert list(desk.glob("_indices/*/details.binpb"))
    shutil.rmtree(desk)
    assert lake.table("shop.moved").to_arrow(filter="id = 4")["n"].to_pylist() == [4]
    assert lake.fsck().problems == ()
    (details,) = Path(table.uri.removeprefix("file://")).glob("_indices/*/details.binpb")
    details.unlink()
    assert [one.kind for one in lake.fsck().problems] == ["index.missing"]


def test_desks_are_tidied_and_made_again(servers: Gateways) -> None:
    lake = servers.lake
    dataset = opened(servers.lance)
    old = dataset.checkout_version(1)
    dataset.insert(rows(1000))
    desk = Path(str(dataset.uri))
    assert list((desk / "data").iterdir())
    assert Desks(lake.store).tidy(datetime.now(UTC)) == 0, "it may still be needed"
    assert Desks(lake.store).tidy(datetime.now(UTC) + timedelta(days=8)) > 0
    assert not list((desk / "data").iterdir())
    assert opened(servers.lance).count_rows() == 11
    opened(servers.lance).insert(rows(1001))
    with pytest.raises(OSError, match="unknown"):
        old.insert(rows(1002))
    assert ids(lake) == [*range(10), 1000, 1001], "who missed versions cannot commit"
    assert json.loads(json.dumps(lake.gc(dry_run=True).as_dict()))["unknown"] == []


def test_files_of_what_is_opened_after_a_long_time_are_not_taken_from_a_desk(servers: Gateways) -> None:
    """What pylance wrote it reads from the desk, where it lies for a week."""
    opened(servers.lance).insert(rows(1000))
    desk = Path(str(opened(servers.lance).uri))
    long_ago = (datetime.now(UTC) - timedelta(days=8)).timestamp()
    for path in desk.rglob("*"):
        os.utime(path, (long_ago, long_ago))
    dataset = opened(servers.lance)
    assert Desks(servers.lake.store).tidy(datetime.now(UTC)) > 0, "older versions go"
    assert sorted(dataset.to_table()["id"].to_pylist()) == [*range(10), 1000]
    dataset.update({"n": "1"}, where="id = 1000")
    assert ids(servers.lake) == [*range(10), 1000]


@pytest.mark.parametrize("again", [False, True], ids=["the same process", "another one"])
def test_a_desk_that_is_further_behind_than_the_lake_remembers_is_made_again(lake: Lake, *, again: bool) -> None:
    namespace = lake.namespace(branches=True)
    stale = opened(namespace)
    for number in range(10, 14):
        lake.table("shop.t").append(rows(number))
    lake.expire(older_than=0, keep=1)
    lake.gc(dry_run=False, grace=0, window=0)
    namespace = lake.namespace(branches=True) if again else namespace
    assert opened(namespace).count_rows() == 14
    with pytest.raises(OSError, match="unknown"):
        stale.delete("id = 1")
    opened(namespace).delete("id = 2")
    assert ids(lake) == [0, 1, *range(3, 14)], "who missed versions cannot commit"


def test_work_that_began_before_a_client_cleared_the_desk_is_refused(servers: Gateways) -> None:
    """pylance passes over versions that are missing, and then says of rebased work that it began at the newest one."""
    stale, keeping = opened(servers.lance), opened(servers.lance)
    other = opened(servers.lance)
    other.update({"n": "n + 1"}, where="id = 1")
    other.update({"n": "n + 1"}, where="id = 1")
    other.insert(rows(10))
    other.tags.create("kept", other.version - 1)
    tidied = lance.dataset(namespace_client=client(servers.lance), table_id=TABLE)
    tidied.cleanup_old_versions(older_than=timedelta(0), delete_unverified=True, error_if_tagged_old_versions=False)
    for change in (lambda: stale.update({"n": "n + 10"}, where="id = 1"), lambda: keeping.delete("id = 1")):
        with pytest.raises(OSError, match="unknown"):
            change()
    found = sorted(tuple(row.values()) for row in servers.lake.table("shop.t").to_arrow().to_pylist())
    assert found == [(number, 2 if number == 1 else 0) for number in range(11)]
    tidied.update({"n": "n + 10"}, where="id = 1")
    opened(servers.lance).delete("id = 2")
    assert servers.lake.table("shop.t").to_arrow(filter="id IN (1, 2)")["n"].to_pylist() == [12]
