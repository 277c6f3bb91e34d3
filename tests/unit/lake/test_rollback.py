"""Rolling a lake back: everything is what it was, nothing that counts or remembers goes back, slow writers notice."""

from dataclasses import replace

import lance
import pytest

import seiche
from seiche import AlreadyExists, IncompatibleConflict, InvalidInput, Lake, NotFound, RetryableConflict
from seiche.lake.history import rollback as rollback_module
from seiche.lake.lake import open_lake
from seiche.lake.objects.keys import export_key, retention_key, table_key, trash_key
from seiche.lake.objects.names import Name, text
from seiche.lake.objects.rows import ExportRow, IcebergMetadata, NamespaceRow, RetentionRow, TableRow, ViewRow, encode
from seiche.lake.pins import pins
from seiche.lake.tree.latest import read_root
from seiche.table.format import file
from seiche.table.format.flags import SEICHE_FENCE
from seiche.table.versions.naming import Naming
from tests.unit.lake.conftest import SCHEMA, ids, rows
from tests.unit.lake.past import bury, give_up, put_row


def everything(lake: Lake, inside: Name = ()) -> dict[str, object]:
    """What a user sees: namespaces with their properties, views, tables with theirs and their rows."""
    seen: dict[str, object] = {}
    state = lake.state()
    for namespace in lake.namespaces(inside):
        row = state.namespace(namespace)
        seen[text(namespace)] = dict(row.properties) if row is not None else None
        seen.update(everything(lake, namespace))
        for name in lake.tables(namespace):
            relation = state.relation(name)
            if isinstance(relation, TableRow):
                table = lake.table(name).to_arrow()
                seen[text(name)] = (
                    relation.id,
                    dict(relation.properties),
                    table.schema,
                    sorted(table.to_pylist(), key=str),
                )
            else:
                seen[text(name)] = relation and relation.sql
    return seen


def table_row(lake: Lake, name: str) -> TableRow:
    return lake.table(name).row


def check_plain(lake: Lake, name: str) -> None:
    """A plain Lance reader sees the same rows, and versions without a gap up to the lake's."""
    plain = lance.dataset(lake.table(name).uri)
    plain.validate()  # type: ignore[no-untyped-call]
    assert plain.version == table_row(lake, name).table_version
    assert [one["version"] for one in plain.versions()] == list(range(1, plain.version + 1))
    assert sorted(plain.to_table()["id"].to_pylist()) == ids(lake, name)


@pytest.fixture
def eventful(lake: Lake) -> Lake:
    """A lake to which, after version 6, everything happens that can happen to an object."""
    lake.table("shop.a").append(rows(1, 2))
    lake.table("shop.b").append(rows(3))
    with lake.transaction() as tx:
        tx.create_namespace("deep")
        tx.create_namespace("deep.er", {"kept": "yes"})
        tx.create_view("shop.v", "SELECT 1")
        tx.create_view("shop.w", "SELECT 2")
        tx.create_table("deep.er.c", SCHEMA).append(rows(4))
        tx.create_table("deep.er.same", SCHEMA).append(rows(5))
        tx.set_properties("shop.a", {"owner": "me"})
    assert lake.version == 6
    lake.table("shop.a").append(rows(7))
    lake.table("shop.a").delete("id = 1")
    lake.table("shop.b").append(rows(8))
    with lake.transaction() as tx:
        tx.drop_table("shop.b")
        tx.rename_table("shop.a", "shop.moved")
        tx.set_properties("shop.moved", {"owner": None, "new": "yes"})
        tx.drop_view("shop.v")
        tx.create_table("shop.v", SCHEMA)
        tx.drop_view("shop.w")
        tx.create_view("shop.w", "SELECT 3")
        tx.alter_namespace("shop", {"note": "here"})
        tx.create_namespace("fresh")
        tx.create_table("fresh.t", SCHEMA).append(rows(9))
    lake.drop_table("deep.er.c")
    lake.rename_table("deep.er.same", "fresh.same")
    lake.drop_namespace("deep.er")
    lake.create_table("shop.b", SCHEMA).append(rows(10))
    return lake


def test_every_object_is_what_it_was(eventful: Lake) -> None:
    lake = eventful
    expected = everything(open_lake(lake.store, version=6))
    before, changed = lake.version, everything(lake)
    assert changed != expected
    assert lake.rollback(to=6) == lake.version == before + 1
    assert everything(lake) == expected
    assert everything(open_lake(lake.store)) == expected, "also for somebody who opens it anew"
    for name in ("shop.a", "shop.b", "deep.er.c", "deep.er.same"):
        check_plain(lake, name)
    assert everything(open_lake(lake.store, version=6)) == expected
    assert everything(open_lake(lake.store, version=before)) == changed, "what was undone can still be looked at"
    assert lake.rollback(to=before) == before + 2
    assert everything(lake) == changed, "and rolled back to"
    for name in ("shop.moved", "shop.b", "shop.v", "fresh.t"):
        check_plain(lake, name)


def test_no_number_goes_back(eventful: Lake) -> None:
    lake = eventful
    last = {row.id: row for row in (table_row(lake, one) for one in ("shop.moved", "fresh.same"))}
    for version in (9, 10):  # before they were dropped
        for name in ("shop.b", "deep.er.c"):
            if version == 9 or name == "deep.er.c":
                row = table_row(open_lake(lake.store, version=version), name)
                last[row.id] = row
    lake.rollback(to=6)
    versions = {}
    for name in ("shop.a", "shop.b", "deep.er.c", "deep.er.same"):
        row = table_row(lake, name)
        versions[name] = row.table_version - last[row.id].table_version
        assert row.pointer_version > last[row.id].pointer_version
        assert row.logical_version == last[row.id].logical_version + versions[name]
    assert versions == {"shop.a": 1, "shop.b": 1, "deep.er.c": 0, "deep.er.same": 0}, "what has not changed is not made"
    restored = [one.operation.name for _, one in table_transactions(lake, "shop.a")][-1]
    assert restored == "Restore"


def test_no_counter_of_a_namespace_or_view_goes_back(lake: Lake) -> None:
    """Changed often in one transaction, changed since, dropped and brought back, from near and from far."""
    had: dict[str, list[int]] = {"namespace": [], "view": []}

    def look() -> None:
        namespace, view = lake.state().namespace(("other",)), lake.state().relation(("shop", "v"))
        assert isinstance(namespace, NamespaceRow)
        assert isinstance(view, ViewRow)
        for kind, counter in (("namespace", namespace.pointer_version), ("view", view.pointer_version)):
            assert counter > max(had[kind], default=0), f"{kind}: {counter} after {had[kind]}"
            had[kind].append(counter)

    def alter(times: int = 1) -> None:
        key, view = table_key(("shop", "v")), lake.state().relation(("shop", "v"))
        assert isinstance(view, ViewRow)
        with lake.transaction() as tx:
            for number in range(times):
                tx.alter_namespace("other", {"a": f"{lake.version} {number}"})
            changed = replace(view, sql=f"SELECT {lake.version}", pointer_version=view.pointer_version + 1)
            tx.write_row(key, encode(changed))
        look()

    def drop() -> None:
        with lake.transaction() as tx:
            tx.drop_namespace("other")
            tx.drop_view("shop.v")

    with lake.transaction() as tx:
        tx.create_namespace("other")
        tx.create_view("shop.v", "SELECT 0")
    first = lake.version
    look()
    alter(times=9)
    lake.rollback(to=first)
    look()
    near = lake.version
    alter(times=9)
    drop()
    lake.rollback(to=first)
    look()
    alter()
    drop()
    lake.rollback(to=near)
    look()


def table_transactions(lake: Lake, name: str) -> list[tuple[int, seiche.table.transaction.Transaction]]:
    from seiche.lake.versions import LakeVersions

    row = table_row(lake, name)
    versions = LakeVersions(lake.store, row)
    return [(version, versions.transaction(version)) for version in range(1, row.table_version + 1)]


def test_the_table_goes_on_from_there(lake: Lake) -> None:
    for stable in (False, True):
        name = f"shop.{stable}"
        lake.create_table(name, SCHEMA, stable_row_ids=stable)
        lake.table(name).append(rows(1, 2))
        before = lake.version
        lake.table(name).append(rows(3))
        lake.table(name).delete("id = 2")
        lake.rollback(to=before)
        lake.table(name).append(rows(4))
        lake.table(name).delete("id = 1")
        lake.table(name).update({"n": "5"}, where="id = 4")
        check_plain(lake, name)
        assert ids(lake, name) == [2, 4]
        plain = lance.dataset(lake.table(name).uri).to_table(with_row_id=True)
        assert len(set(plain["_rowid"].to_pylist())) == 2


def test_the_last_version_of_a_dropped_table_is_published_before_it_goes_on(lake: Lake) -> None:
    """Rule 7: whoever made that version may have been stopped before it had its name."""
    before = lake.version
    lake.table("shop.a").append(rows(1))
    row = table_row(lake, "shop.a")
    lake.drop_table("shop.a")
    lake.store.delete(f"{row.location}/{Naming.V2.path(row.table_version)}")
    seiche.open(lake.store).rollback(to=before)
    assert table_row(lake, "shop.a").table_version == row.table_version + 1
    check_plain(lake, "shop.a")


def test_a_restored_version_is_staged_open_and_published_closed(lake: Lake) -> None:
    """Rule 6: our own readers get the one, plain writers meet the other."""
    before = lake.version
    lake.table("shop.a").append(rows(1))
    lake.rollback(to=before)
    row = table_row(lake, "shop.a")
    assert row.manifest is not None
    staged = file.decode(lake.store.get(f"{row.location}/{row.manifest.path}"), path="staged").manifest
    assert not staged.header.writer_feature_flags & SEICHE_FENCE
    with pytest.raises(OSError, match="cannot be written"):
        lance.dataset(lake.table("shop.a").uri).delete("true")


def test_the_root_says_what_it_is(lake: Lake) -> None:
    lake.table("shop.a").append(rows(1))
    version = lake.rollback(to=0)
    root = read_root(lake.store, version)
    assert (root.rollback_from, root.rollback_to) == (version - 1, 0)
    entry = lake.log(1)[0]
    assert entry.rollback_to == 0
    assert entry.summary.startswith("rolled back to version 0, dropped namespace shop")
    assert entry.transactions[0].properties == {"rollback_to": "0"}
    lake.create_namespace("next")
    assert read_root(lake.store, lake.version).rollback_to is None


def test_what_is_remembered_stays(lake: Lake) -> None:
    """Rule 12: tags, exports, retention, epochs, decided transactions."""
    start = lake.version
    lake.tag("nightly")
    put_row(lake, export_key("copy"), ExportRow(version=2, location="memory://x", mode="minimal"))
    put_row(lake, retention_key("all"), RetentionRow(maximum_age_millis=5))
    with lake.transaction(stream="orders", epoch=3, owner="run") as streamed:
        streamed.table("shop.a").append(rows(1))
    with lake.transaction(key="load") as keyed:
        keyed.table("shop.a").append(rows(2))
    definition = lake.state().root.definition
    lake.rollback(to=start)
    state = lake.state()
    assert ids(lake, "shop.a") == []
    assert lake.tags()["nightly"].version == start
    assert state.get(retention_key("all")) is not None
    assert state.root.definition == definition
    assert pins(state)[2] == ("export copy",)
    assert lake.status(keyed.id).version == keyed.version
    with lake.transaction(key="load") as again:
        again.table("shop.a").append(rows(2))
    assert again.replayed
    with lake.transaction(stream="orders", epoch=3, owner="run") as repeated:
        repeated.table("shop.a").append(rows(1))
    assert repeated.version == streamed.version
    assert ids(lake, "shop.a") == [], "what was committed once is not committed again"


def test_an_expected_version_that_is_not_the_newest_stops_it(lake: Lake) -> None:
    seen = lake.version
    lake.table("shop.a").append(rows(1))
    with pytest.raises(IncompatibleConflict, match=f"at version {seen + 1}, not at {seen}") as caught:
        lake.rollback(to=0, expected_version=seen)
    assert (caught.value.read_version, caught.value.version) == (seen, seen + 1)
    assert lake.version == seen + 1
    assert lake.rollback(to=seen, expected_version=seen + 1) == seen + 2
    with pytest.raises(IncompatibleConflict):
        lake.rollback(to=lake.version, expected_version=1)


def test_a_dry_run_says_what_would_happen_and_does_nothing(eventful: Lake) -> None:
    lake = eventful
    files = {info.path for info in lake.store.list()}
    would = lake.rollback(to=6, dry_run=True)
    assert {info.path for info in lake.store.list()} == files
    assert (would.before, would.after) == (lake.version, 6)
    assert would == lake.diff(lake.version, 6)
    (content,) = [one for one in would.tables if one.table == "shop.a"]
    assert (content.rows_added, content.rows_removed) == (1, 1)
    some = lake.rollback(to=6, dry_run=True, tables=["shop.b"])
    assert [str(one) for one in some.objects] == ["added table shop.b", "dropped table shop.b"]
    with pytest.raises(IncompatibleConflict):
        lake.rollback(to=6, dry_run=True, expected_version=6)


def test_nothing_to_undo_makes_no_version(lake: Lake) -> None:
    lake.tag("here")
    before = lake.version
    assert lake.rollback(to=before) == lake.rollback(to="here") == lake.version == before
    assert not lake.rollback(to=before, dry_run=True)


def test_where_it_cannot_go(lake: Lake) -> None:
    lake.table("shop.a").append(rows(1))
    before = lake.version
    with pytest.raises(NotFound, match="99"):
        lake.rollback(to=99)
    with pytest.raises(NotFound, match="no tag"):
        lake.rollback(to="nowhere")
    bury(lake, 1)
    with pytest.raises(NotFound, match="expired"):
        lake.rollback(to=1)
    assert lake.version == before
    give_up(lake, 2)
    for dry_run in (False, True):
        with pytest.raises(NotFound, match="given up"):
            lake.rollback(to=2, dry_run=dry_run)
    assert lake.version == before + 1
    old = open_lake(lake.store, version=3)
    with pytest.raises(InvalidInput, match="read-only"):
        old.rollback(to=2 + 1)


def test_an_expiry_that_comes_first_stops_it(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rule 12: the version is given up between the plan and the put."""
    other = open_lake(lake.store)
    lake.table("shop.a").append(rows(1))

    def race() -> int:
        real = rollback_module.reverse_changes
        calls = []

        def slow(*arguments: object) -> object:
            calls.append(arguments)
            if len(calls) == 2:  # the first is to see whether there is anything to undo
                give_up(other, 3)
            return real(*arguments)  # type: ignore[arg-type]

        with monkeypatch.context() as patch:
            patch.setattr(rollback_module, "reverse_changes", slow)
            return lake.rollback(to=3)

    with pytest.raises(NotFound, match="given up"):
        race()
    assert ids(lake, "shop.a") == [1]
    monkeypatch.setattr(rollback_module, "check_kept", lambda state, version: None)
    race()
    assert ids(lake, "shop.a") == [], "without the check the lake rests on a version that is being cleared away"


def test_a_table_whose_trash_is_gone_stops_it(lake: Lake) -> None:
    row = table_row(lake, "shop.a")
    before = lake.version
    lake.drop_table("shop.a")
    put_row(lake, trash_key(row.id), None)
    with pytest.raises(NotFound, match="no longer remembers"):
        lake.rollback(to=before)
    lake.drop_table("shop.b")
    lake.rollback(to=before, tables=["shop.b"])
    assert lake.tables("shop") == [("shop", "b")]


def test_the_trash_has_what_was_dropped_and_only_that(lake: Lake) -> None:
    a = table_row(lake, "shop.a").id
    before = lake.version
    lake.drop_table("shop.a")
    b = lake.create_table("shop.new", SCHEMA).row.id
    lake.rollback(to=before)
    state = lake.state()
    assert state.get(trash_key(a)) is None
    assert state.get(trash_key(b)) is not None
    assert state.key_of(b) is None
    assert state.key_of(a) == table_key(("shop", "a"))


def test_tables_of_a_format_that_cannot_be_restored_are_refused(lake: Lake) -> None:
    key = table_key(("shop", "ice"))
    row = TableRow(id="x", format="delta", location="ice", iceberg=IcebergMetadata(location="m1"), table_version=1)
    before = put_row(lake, key, row)
    other = replace(row, iceberg=IcebergMetadata(location="m2"), table_version=2, pointer_version=2)
    put_row(lake, key, replace(row, properties={"owner": "me"}, pointer_version=2))
    lake.rollback(to=before)
    assert table_row(lake, "shop.ice").properties == {}, "what the lake itself says can go back"
    put_row(lake, key, other)
    lake.table("shop.a").append(rows(1))
    at = lake.version
    for dry_run in (False, True):
        with pytest.raises(InvalidInput, match="ice is an delta table"):
            lake.rollback(to=before, dry_run=dry_run)
    assert lake.version == at
    lake.rollback(to=before, tables=["shop.a"])
    assert ids(lake, "shop.a") == []


def test_external_tables_go_back_by_their_rows(lake: Lake) -> None:
    key = table_key(("shop", "theirs"))
    row = TableRow(id="x", type="external", location="s3://one", logical_version=3)
    before = put_row(lake, key, row)
    put_row(lake, key, replace(row, location="s3://two", pointer_version=2, logical_version=4))
    lake.rollback(to=before)
    back = table_row(lake, "shop.theirs")
    assert (back.location, back.pointer_version, back.logical_version) == ("s3://one", 3, 5)


def test_slow_writers_resurrect_nothing(lake: Lake) -> None:
    lake.table("shop.a").append(rows(1))
    lake.create_namespace("fresh")
    start = lake.version - 2  # shop.a was empty, and there was no namespace
    lake.create_table("shop.new", SCHEMA)
    appending, deleting, dropping, making, using, elsewhere = (lake.transaction() for _ in range(6))
    reading = lake.transaction("serializable")
    appending.table("shop.a").append(rows(2))
    deleting.table("shop.a").delete("id = 1")
    dropping.drop_table("shop.a")
    making.create_table("fresh.t", SCHEMA)
    using.table("shop.new").append(rows(3))
    elsewhere.table("shop.b").append(rows(4))
    assert reading.table("shop.a").to_arrow().num_rows == 1
    reading.table("shop.b").append(rows(5))
    lake.rollback(to=start)
    for tx, kind in (
        (appending, IncompatibleConflict),
        (deleting, IncompatibleConflict),
        (dropping, RetryableConflict),
        (making, RetryableConflict),
        (using, RetryableConflict),
        (reading, RetryableConflict),
    ):
        with pytest.raises(kind):
            tx.commit()
    elsewhere.commit()
    assert (ids(lake, "shop.a"), ids(lake, "shop.b")) == ([], [4])
    assert lake.tables("shop") == [("shop", "a"), ("shop", "b")]
    assert lake.namespaces() == [("shop",)]
    check_plain(lake, "shop.a")


def test_a_slow_writer_of_a_table_that_came_back_unchanged_is_not_disturbed(lake: Lake) -> None:
    lake.table("shop.a").append(rows(1))
    before = lake.version
    tx = lake.transaction("serializable")
    tx.table("shop.a").append(rows(2))
    lake.drop_table("shop.a")
    lake.rollback(to=before)
    tx.commit()
    assert ids(lake, "shop.a") == [1, 2]
    check_plain(lake, "shop.a")


def test_a_slow_change_of_a_namespace_conflicts_with_its_return(lake: Lake) -> None:
    lake.create_namespace("other", {"a": "1"})
    before = lake.version
    slow = lake.transaction()
    slow.alter_namespace("other", {"b": "2"})
    lake.drop_namespace("other")
    lake.rollback(to=before)
    with pytest.raises(RetryableConflict):
        slow.commit()
    row = lake.state().namespace(("other",))
    assert row is not None
    assert row.properties == {"a": "1"}


def test_indices_made_since_are_gone_and_those_from_before_are_back(lake: Lake) -> None:
    table = lake.table("shop.a")
    table.append(rows(*range(100)))
    table.create_index("id", "BTREE")
    before = lake.version
    table.drop_index("id_idx")
    table.create_index("n", "BTREE")
    lake.rollback(to=before)
    plain = lance.dataset(table.uri)
    assert [one.name for one in plain.describe_indices()] == ["id_idx"]
    assert plain.to_table(filter="id = 42")["id"].to_pylist() == [42]
    check_plain(lake, "shop.a")


def test_chosen_tables_only(eventful: Lake) -> None:
    lake = eventful
    others = everything(lake)
    then = everything(open_lake(lake.store, version=6))
    version = lake.rollback(to=6, tables=["shop.moved"])
    assert read_root(lake.store, version).rollback_to is None, "it is not the lake that went back"
    assert lake.log(1)[0].transactions[0].properties == {"rollback_to": "6", "rollback_tables": "shop.moved"}
    now = everything(lake)
    assert now["shop.a"] == then["shop.a"]
    del now["shop.a"], others["shop.moved"]
    assert now == others, "nothing else was touched"
    check_plain(lake, "shop.a")


def test_a_chosen_name_means_what_had_it_and_what_has_it(eventful: Lake) -> None:
    lake = eventful
    then = everything(open_lake(lake.store, version=6))
    lake.rollback(to=6, tables=["shop.b", "shop.w", ("shop", "v")])
    now = everything(lake)
    assert {name: now[name] for name in ("shop.b", "shop.v", "shop.w")} == {
        name: then[name] for name in ("shop.b", "shop.v", "shop.w")
    }
    assert "fresh.t" in now


def test_a_chosen_table_brings_its_namespaces(eventful: Lake) -> None:
    lake = eventful
    lake.drop_namespace("deep")
    lake.rollback(to=6, tables=["deep.er.c"])
    assert ids(lake, "deep.er.c") == [4]
    row = lake.state().namespace(("deep", "er"))
    assert row is not None
    assert row.properties == {"kept": "yes"}
    assert lake.tables("deep.er") == [("deep", "er", "c")], "and nothing else that was in them"
    lake.create_namespace("deep.new")


def test_a_chosen_table_does_not_push_another_aside(lake: Lake) -> None:
    before = lake.version
    lake.rename_table("shop.a", "shop.z")
    lake.create_table("shop.a", SCHEMA)
    at = lake.version
    with pytest.raises(AlreadyExists, match=r"shop\.z would become shop\.a again"):
        lake.rollback(to=before, tables=["shop.z"])
    assert lake.version == at
    with pytest.raises(NotFound, match=r"no table or view shop\.y"):
        lake.rollback(to=before, tables=["shop.y"])
    lake.rollback(to=before, tables=["shop.z", "shop.a"])
    assert lake.tables("shop") == [("shop", "a"), ("shop", "b")]


def test_one_chosen_table_may_be_given_as_such_and_none_is_none(lake: Lake) -> None:
    before = lake.version
    lake.table("shop.a").append(rows(1))
    lake.table("shop.b").append(rows(2))
    at = lake.version
    assert lake.rollback(to=before, tables=[]) == at
    lake.rollback(to=before, tables="shop.a")
    assert (ids(lake, "shop.a"), ids(lake, "shop.b")) == ([], [2])


def test_names_that_were_swapped_are_swapped_back(lake: Lake) -> None:
    lake.table("shop.a").append(rows(1))
    lake.table("shop.b").append(rows(2))
    before = lake.version
    for old, new in (("a", "x"), ("b", "a"), ("x", "b")):
        lake.rename_table(f"shop.{old}", f"shop.{new}")
    lake.table("shop.a").append(rows(3))
    swapped = lake.version
    lake.rollback(to=before)
    assert (ids(lake, "shop.a"), ids(lake, "shop.b")) == ([1], [2])
    lake.rollback(to=swapped)
    assert (ids(lake, "shop.a"), ids(lake, "shop.b")) == ([2, 3], [1])
    lake.rollback(to=before, tables=["shop.a"])
    assert (ids(lake, "shop.a"), ids(lake, "shop.b")) == ([1], [2])
