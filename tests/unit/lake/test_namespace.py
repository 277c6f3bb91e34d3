"""The Lance Namespace of a lake and of a transaction: namespaces and tables by name."""

from typing import Any

import lance_namespace as ln
import pyarrow as pa
import pytest

import seiche
from seiche import Lake
from seiche.lake.engines.catalog import CatalogNamespace
from seiche.testing import CountingStore, DictStore
from tests.unit.lake.conftest import SCHEMA, ids, rows


def stream(data: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, data.schema) as writer:
        writer.write_table(data)
    return bytes(sink.getvalue())


def namespaces(found: CatalogNamespace, *name: str, **options: Any) -> list[str]:
    return list(found.list_namespaces(ln.ListNamespacesRequest(id=list(name), **options)).namespaces)


def tables(found: CatalogNamespace, *name: str, **options: Any) -> list[str]:
    return list(found.list_tables(ln.ListTablesRequest(id=list(name), **options)).tables)


def test_namespaces_are_made_described_and_dropped(lake: Lake) -> None:
    found = lake.namespace()
    made = found.create_namespace(ln.CreateNamespaceRequest(id=["shop", "inner"], properties={"a": "b"}))
    assert made.properties == {"a": "b"}
    assert namespaces(found) == ["shop"]
    assert namespaces(found, "shop") == ["inner"] == [name[-1] for name in lake.namespaces("shop")]
    described = found.describe_namespace(ln.DescribeNamespaceRequest(id=["shop", "inner"]))
    assert described.properties == {"a": "b"}
    assert found.describe_namespace(ln.DescribeNamespaceRequest(id=[])).properties == {}
    with pytest.raises(ln.NamespaceAlreadyExistsError):
        found.create_namespace(ln.CreateNamespaceRequest(id=["shop", "inner"]))
    kept = found.create_namespace(ln.CreateNamespaceRequest(id=["shop", "inner"], mode="ExistOk"))
    assert kept.properties == {"a": "b"}
    with pytest.raises(ln.UnsupportedOperationError):
        found.create_namespace(ln.CreateNamespaceRequest(id=["shop", "inner"], mode="Overwrite"))
    found.namespace_exists(ln.NamespaceExistsRequest(id=["shop", "inner"]))
    found.drop_namespace(ln.DropNamespaceRequest(id=["shop", "inner"]))
    with pytest.raises(ln.NamespaceNotFoundError):
        found.namespace_exists(ln.NamespaceExistsRequest(id=["shop", "inner"]))
    with pytest.raises(ln.NamespaceNotFoundError):
        found.drop_namespace(ln.DropNamespaceRequest(id=["shop", "inner"]))
    found.drop_namespace(ln.DropNamespaceRequest(id=["shop", "inner"], mode="skip"))
    with pytest.raises(ln.NamespaceNotFoundError):
        namespaces(found, "none")
    with pytest.raises(ln.NamespaceNotFoundError):
        found.create_namespace(ln.CreateNamespaceRequest(id=["none", "inner"]))


def test_a_namespace_that_is_not_empty_is_dropped_only_with_everything_in_it(lake: Lake) -> None:
    found = lake.namespace()
    lake.create_namespace("shop.inner")
    lake.create_table("shop.inner.t", SCHEMA)
    lake.run(lambda tx: tx.create_view("shop.inner.v", "select 1"))
    before = lake.version
    with pytest.raises(ln.NamespaceNotEmptyError):
        found.drop_namespace(ln.DropNamespaceRequest(id=["shop"]))
    assert lake.version == before
    found.drop_namespace(ln.DropNamespaceRequest(id=["shop"], behavior="Cascade"))
    assert lake.version == before + 1
    assert namespaces(found) == []


def test_tables_are_listed_in_pages_without_views_and_tables_of_other_formats(lake: Lake) -> None:
    found = lake.namespace()
    lake.run(lambda tx: tx.create_view("shop.v", "select 1"))
    lake.create_table("shop.c", SCHEMA)
    assert tables(found, "shop") == ["a", "b", "c"]
    assert tables(found) == []
    first = found.list_tables(ln.ListTablesRequest(id=["shop"], limit=2))
    assert (first.tables, first.page_token) == (["a", "b"], "b")
    second = found.list_tables(ln.ListTablesRequest(id=["shop"], limit=2, page_token=first.page_token))
    assert (second.tables, second.page_token) == (["c"], None)
    with pytest.raises(ln.NamespaceNotFoundError):
        tables(found, "none")


def test_tables_are_made_of_rows_renamed_and_dropped(lake: Lake) -> None:
    found = lake.namespace()
    made = found.create_table(ln.CreateTableRequest(id=["shop", "c"], properties={"k": "v"}), stream(rows(1, 2)))
    assert made.location == lake.store.native_uri(lake.table("shop.c").row.location)
    assert ids(lake, "shop.c") == [1, 2]
    assert lake.table("shop.c").row.properties == {"k": "v"}
    with pytest.raises(ln.TableAlreadyExistsError):
        found.create_table(ln.CreateTableRequest(id=["shop", "c"]), stream(rows(3)))
    found.create_table(ln.CreateTableRequest(id=["shop", "c"], mode="exist_ok"), stream(rows(3)))
    assert ids(lake, "shop.c") == [1, 2]
    found.create_table(ln.CreateTableRequest(id=["shop", "c"], mode="Overwrite"), stream(rows(3)))
    assert ids(lake, "shop.c") == [3]
    with pytest.raises(ln.InvalidInputError):
        found.create_table(ln.CreateTableRequest(id=["shop", "d"]), b"nonsense")
    lake.create_namespace("other")
    row = lake.table("shop.c").row
    found.rename_table(ln.RenameTableRequest(id=["shop", "c"], new_table_name="z", new_namespace_id=["other"]))
    assert lake.table("other.z").row.id == row.id
    found.rename_table(ln.RenameTableRequest(id=["other", "z"], new_table_name="y"))
    found.table_exists(ln.TableExistsRequest(id=["other", "y"]))
    with pytest.raises(ln.TableAlreadyExistsError):
        found.rename_table(ln.RenameTableRequest(id=["other", "y"], new_table_name="a", new_namespace_id=["shop"]))
    found.drop_table(ln.DropTableRequest(id=["other", "y"]))
    for call in (
        lambda: found.table_exists(ln.TableExistsRequest(id=["other", "y"])),
        lambda: found.drop_table(ln.DropTableRequest(id=["other", "y"])),
        lambda: found.rename_table(ln.RenameTableRequest(id=["other", "y"], new_table_name="x")),
        lambda: found.describe_table(ln.DescribeTableRequest(id=["other", "y"])),
        lambda: found.list_table_versions(ln.ListTableVersionsRequest(id=["other", "y"])),
    ):
        with pytest.raises(ln.TableNotFoundError):
            call()


@pytest.mark.parametrize("inside", [False, True])
def test_a_table_is_described_at_a_version(lake: Lake, inside: bool) -> None:
    lake.table("shop.a").append(rows(1))
    found = lake.transaction().namespace() if inside else lake.namespace()
    assert found.describe_table(ln.DescribeTableRequest(id=["shop", "a"], version=1)).version == 1
    with pytest.raises(ln.TableVersionNotFoundError):
        found.describe_table(ln.DescribeTableRequest(id=["shop", "a"], version=99))
    with pytest.raises(ln.UnsupportedOperationError, match="tags"):
        found.describe_table(ln.DescribeTableRequest.model_validate({"id": ["shop", "a"], "tag": "nightly"}))


@pytest.mark.parametrize("inside", [False, True])
def test_a_table_exists_at_a_version_or_not(lake: Lake, inside: bool) -> None:
    found = lake.transaction().namespace() if inside else lake.namespace()
    found.table_exists(ln.TableExistsRequest(id=["shop", "a"], version=1))
    with pytest.raises(ln.TableVersionNotFoundError):
        found.table_exists(ln.TableExistsRequest(id=["shop", "a"], version=99))


def test_all_tables_are_listed_by_their_whole_names(lake: Lake) -> None:
    lake.create_namespace("shop.inner")
    lake.create_table("shop.inner.t", SCHEMA)
    lake.create_table("shop.other", SCHEMA, format="iceberg")
    lake.create_view("shop.view", "SELECT 1")
    tx = lake.transaction()
    tx.rename_table("shop.b", "shop.inner.b")
    for found, names in (
        (lake.namespace(), ["shop$a", "shop$b", "shop$inner$t"]),
        (tx.namespace(), ["shop$a", "shop$inner$b", "shop$inner$t"]),
    ):
        assert found.list_all_tables(ln.ListTablesRequest()).tables == names
        first = found.list_all_tables(ln.ListTablesRequest(limit=2))
        rest = found.list_all_tables(ln.ListTablesRequest(limit=2, page_token=first.page_token))
        assert ([*first.tables, *rest.tables], rest.page_token) == (names, None)


def test_a_declared_table_is_nobody_elses_and_not_in_the_lake(lake: Lake) -> None:
    found = lake.namespace()
    before = lake.version
    declared = found.declare_table(ln.DeclareTableRequest(id=["shop", "c"], properties={"k": "v"}))
    assert declared.managed_versioning
    assert lake.version == before
    described = found.describe_table(ln.DescribeTableRequest(id=["shop", "c"]))
    assert (described.location, described.is_only_declared) == (declared.location, True)
    with pytest.raises(ln.TableNotFoundError):
        found.table_exists(ln.TableExistsRequest(id=["shop", "c"]))
    with pytest.raises(ln.TableNotFoundError):
        lake.namespace().describe_table(ln.DescribeTableRequest(id=["shop", "c"]))
    again = found.declare_table(ln.DeclareTableRequest(id=["shop", "c"]))
    assert again.location != declared.location, "no place is given out twice"
    with pytest.raises(ln.TableAlreadyExistsError):
        found.declare_table(ln.DeclareTableRequest(id=["shop", "a"]))
    with pytest.raises(ln.InvalidInputError, match="lake's to choose"):
        found.declare_table(ln.DeclareTableRequest(id=["shop", "d"], location="/tmp/x"))
    with pytest.raises(ln.NamespaceNotFoundError):
        found.declare_table(ln.DeclareTableRequest(id=["none", "d"]))


def test_what_a_transaction_does_by_names_is_seen_by_it_alone(lake: Lake) -> None:
    tx = lake.transaction()
    inside, outside = tx.namespace(), lake.namespace()
    assert inside is tx.namespace()
    inside.create_namespace(ln.CreateNamespaceRequest(id=["new"]))
    inside.create_table(ln.CreateTableRequest(id=["new", "t"]), stream(rows(1)))
    inside.rename_table(ln.RenameTableRequest(id=["shop", "a"], new_table_name="z"))
    inside.drop_table(ln.DropTableRequest(id=["shop", "b"]))
    assert (namespaces(inside), tables(inside, "new"), tables(inside, "shop")) == (["new", "shop"], ["t"], ["z"])
    assert (namespaces(outside), tables(outside, "shop")) == (["shop"], ["a", "b"])
    tx.commit()
    assert (namespaces(outside), tables(outside, "new"), tables(outside, "shop")) == (["new", "shop"], ["t"], ["z"])
    assert ids(lake, "new.t") == [1]
    with pytest.raises(ln.InvalidInputError, match="has ended"):
        namespaces(inside)


def test_a_table_has_to_stay_where_the_lake_knows_it(lake: Lake) -> None:
    found = lake.namespace()
    with pytest.raises(ln.UnsupportedOperationError):
        found.register_table(ln.RegisterTableRequest(id=["shop", "x"], location="/somewhere"))
    with pytest.raises(ln.UnsupportedOperationError, match="export"):
        found.deregister_table(ln.DeregisterTableRequest(id=["shop", "a"]))
    with pytest.raises(ln.UnsupportedOperationError, match=r"lake\.gc"):
        found.batch_delete_table_versions(ln.BatchDeleteTableVersionsRequest(id=["shop", "a"], ranges=[]))
    with pytest.raises(ln.UnsupportedOperationError, match="branches"):
        found.describe_table(ln.DescribeTableRequest(id=["shop", "a"], branch="dev"))


@pytest.mark.parametrize("branches", [False, True])
@pytest.mark.parametrize("name", [[], ["shop", ""], ["shop", "a/b"], ["a"] * 30])
def test_what_cannot_be_the_name_of_a_table_is_refused_as_the_interface_refuses(
    lake: Lake, name: list[str], branches: bool
) -> None:
    found = lake.namespace(branches=branches)
    for asked in (
        lambda: found.describe_table(ln.DescribeTableRequest(id=name)),
        lambda: found.list_table_versions(ln.ListTableVersionsRequest(id=name)),
        lambda: found.describe_table_version(ln.DescribeTableVersionRequest(id=name, version=1)),
        lambda: found.create_table_version(ln.CreateTableVersionRequest(id=name, version=2, manifest_path="x")),
        lambda: found.batch_commit_tables(ln.BatchCommitTablesRequest(operations=[ln.CommitTableOperation()])),
    ):
        with pytest.raises(ln.InvalidInputError):
            asked()


def test_a_page_of_tables_looks_at_no_more_than_it_shows() -> None:
    store = CountingStore(DictStore())
    lake = seiche.create(store)
    lake.create_namespace("shop")
    with lake.transaction() as tx:
        for number in range(20):  # the rows are in files of their own, which makes it seen who looks at one
            tx.create_table(f"shop.t{number:02}", SCHEMA, properties={"about": "x" * 5000})
    found = lake.namespace()
    store.reset()
    assert tables(found, "shop", limit=3) == ["t00", "t01", "t02"]
    request = ln.ListTablesRequest(id=[], limit=3, page_token="shop$t15")
    assert found.list_all_tables(request).tables == ["shop$t16", "shop$t17", "shop$t18"]
    assert store.counts["get"] <= 2 * 4
