"""What changed between two versions: each kind of change, with and without stable row ids, and what is refused."""

from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

from seiche.errors import InvalidInput, NotFound
from seiche.table.data.changes import CHANGE_TYPE, COMMIT_VERSION
from seiche.table.format.deletions import DeletionFiles
from seiche.table.operations import Opaque, Project
from seiche.table.row_changes import changes_of
from seiche.table.table import Table
from seiche.table.transaction import Transaction
from seiche.table.versions.naming import Naming
from seiche.testing import DictStore
from tests.row_table import SCHEMA, some_rows
from tests.unit.table import tables

DATA = pa.table({"id": range(10), "name": list("abcdefghij")})


@pytest.fixture(params=[False, True], ids=["addresses", "stable row ids"])
def stable(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.fixture
def table(tmp_path: Path, stable: bool) -> Table:
    """Three fragments of four, four and two rows."""
    return made(tmp_path / "t", DATA, stable)


def made(path: Path, data: pa.Table, stable: bool, rows: int = 4) -> Table:
    lance.write_dataset(data, str(path), max_rows_per_file=rows, enable_stable_row_ids=stable)
    return Table.open(str(path), durability="os")


def found(table: Table, since: int, until: int | None = None) -> list[tuple[str, int, Any, int]]:
    """Changes as (what, id, name, version), each version's in the order of ids."""
    rows = table.changes(since, until).to_arrow().to_pylist()
    listed = [(row[CHANGE_TYPE], row["id"], row.get("name"), row[COMMIT_VERSION]) for row in rows]
    order = {"delete": 0, "update": 1, "insert": 2}
    assert [(row[3], order[row[0]]) for row in listed] == sorted((row[3], order[row[0]]) for row in listed)
    return sorted(listed, key=lambda row: (row[3], order[row[0]], row[1]))


def no_others(versions: range) -> list[Transaction]:
    raise AssertionError(f"what made {versions} was asked for")


class TestRows:
    def test_inserted(self, table: Table) -> None:
        table.append([{"id": 20, "name": "x"}, {"id": 21, "name": "y"}])
        assert found(table, 1) == [("insert", 20, "x", 2), ("insert", 21, "y", 2)]

    def test_deleted_rows_have_the_values_they_had(self, table: Table) -> None:
        table.delete("id = 3")
        table.delete("id IN (2, 4, 5, 6, 7)")
        assert found(table, 1) == [
            ("delete", 3, "d", 2),
            *[("delete", number, "abcdefghij"[number], 3) for number in (2, 4, 5, 6, 7)],
        ]
        assert found(table, 2, 2) == []
        assert [row[1] for row in found(table, 2)] == [2, 4, 5, 6, 7]

    def test_updated_by_writing_rows_anew(self, table: Table, stable: bool) -> None:
        table.update({"name": "'new'"}, where="id IN (1, 8)", mode="rows")
        if stable:
            assert found(table, 1) == [("update", 1, "new", 2), ("update", 8, "new", 2)]
        else:
            assert found(table, 1) == [
                ("delete", 1, "b", 2),
                ("delete", 8, "i", 2),
                ("insert", 1, "new", 2),
                ("insert", 8, "new", 2),
            ]

    def test_updated_in_place(self, table: Table) -> None:
        table.delete("id = 1")
        table.update({"name": "'new'"}, where="id IN (2, 9)", mode="columns")
        assert found(table, 2) == [("update", 2, "new", 3), ("update", 9, "new", 3)]

    def test_merged(self, table: Table, stable: bool) -> None:
        data = [{"id": 4, "name": "four"}, {"id": 50, "name": "fifty"}]
        table.merge(data, on="id").when_matched_update_all().when_not_matched_insert_all().execute()
        if stable:
            assert found(table, 1) == [("update", 4, "four", 2), ("insert", 50, "fifty", 2)]
        else:
            assert found(table, 1) == [("delete", 4, "e", 2), ("insert", 4, "four", 2), ("insert", 50, "fifty", 2)]

    def test_each_version_by_itself(self, table: Table, stable: bool) -> None:
        table.append([{"id": 20, "name": "x"}])
        table.update({"name": "'y'"}, where="id = 20", mode="columns")
        table.delete("id = 20")
        assert found(table, 1) == [("insert", 20, "x", 2), ("update", 20, "y", 3), ("delete", 20, "y", 4)]

    def test_overwritten(self, table: Table) -> None:
        table.delete("id > 1")
        table.overwrite(pa.table({"id": [7], "name": ["z"]}))
        assert found(table, 2) == [("delete", 0, "a", 3), ("delete", 1, "b", 3), ("insert", 7, "z", 3)]

    def test_values_that_the_column_cannot_hold_any_more_are_told_with_the_version_that_had_them(
        self, table: Table
    ) -> None:
        table.overwrite(pa.table({"id": [7], "name": [1]}))
        with pytest.raises(InvalidInput, match="was string in version 1 and is int64 in version 2"):
            table.changes(1).to_arrow()
        assert table.changes(1, columns=["id"]).to_arrow().num_rows == 11

    def test_restored(self, table: Table) -> None:
        table.delete("id = 3")
        table.append([{"id": 20, "name": "x"}])
        table.restore(1)
        assert found(table, 3) == [("delete", 20, "x", 4), ("insert", 3, "d", 4)]

    def test_restored_after_a_column_was_dropped(self, table: Table) -> None:
        table.update({"name": "'new'"}, where="id = 3")
        updated = table.version
        table.drop_columns(["name"])
        table.append(pa.table({"id": [20]}))
        without = table.version
        table.restore(updated)
        changed = [(row[1], row[2]) for row in found(table, 1) if row[3] == updated and row[0] != "delete"]
        assert changed == [(3, "new")], "the column is the one that it was"
        assert ("insert", 20, None, without) in found(table, 1)
        assert ("insert", 0, "a", 1) in found(table, 0)

    @pytest.mark.parametrize("moved", [False, True], ids=["in place", "after a compaction"])
    def test_a_column_that_comes_back_with_a_restore_is_an_update_of_its_rows(self, table: Table, moved: bool) -> None:
        """Whoever follows version by version has rows without it."""
        table.drop_columns(["name"])
        table.delete("id > 1")
        if moved:
            table.compact()
        version = table.version
        table.restore(1)
        values = {row[1]: row[2] for row in found(table, version) if row[0] != "delete"}
        assert values == dict(enumerate("abcdefghij"))

    def test_a_field_that_comes_back_inside_a_column_is_an_update_of_its_rows(
        self, tmp_path: Path, stable: bool
    ) -> None:
        data = pa.table({"id": [1, 2], "at": [{"x": 1, "y": 2}, {"x": 3, "y": 4}]})
        table = made(tmp_path / "nested", data, stable)
        table.drop_columns(["at.y"])
        table.restore(1)
        rows = table.changes(2).to_arrow().to_pylist()
        assert [(row[CHANGE_TYPE], row["id"], row["at"]) for row in rows] == [
            ("update", 1, {"x": 1, "y": 2}),
            ("update", 2, {"x": 3, "y": 4}),
        ]

    def test_a_column_that_is_added_without_values_is_no_update(self, table: Table) -> None:
        table.add_columns(pa.field("later", pa.int32()))
        assert found(table, 1) == []

    def test_a_column_that_comes_back_without_the_values_it_had_meanwhile_is_an_update(self, table: Table) -> None:
        table.append(pa.table({"id": [20]}))
        table.replace_column("name", [*"ABCDEFGHIJ", "K"])
        table.drop_columns(["name"])
        table.restore(2)
        shown = [row for row in found(table, 1) if row[1] == 20]
        assert shown == [("insert", 20, None, 2), ("update", 20, "K", 3), ("update", 20, None, 5)]

    def test_restored_to_before_rows_changed_and_a_column_was_dropped(self, table: Table) -> None:
        """The column that came back is the one that it was, also in versions after the one that was restored."""
        table.update({"name": "'new'"}, where="id = 3", mode="columns")
        table.rename_columns({"name": "title"})
        table.append([{"id": 20, "title": "x"}])
        table.drop_columns(["title"])
        table.restore(3)
        table.append([{"id": 21, "title": "y"}])
        table.drop_columns(["title"])
        table.restore(1)
        shown = found(table, 1)
        assert ("update", 3, "new", 2) in shown
        assert ("insert", 20, "x", 4) in shown
        assert ("insert", 21, "y", 7) in shown

    def test_restored_to_before_the_versions_that_are_asked_for(self, table: Table) -> None:
        """What the column was called meanwhile is known from what made the versions before."""
        table.rename_columns({"name": "title"})
        table.append([{"id": 20, "title": "x"}])
        since = table.version
        table.append([{"id": 21, "title": "y"}])
        table.drop_columns(["title"])
        table.restore(1)
        shown = found(table, since)
        assert shown[0] == ("insert", 21, "y", since + 1)
        assert ("delete", 21, None, since + 3) in shown
        assert ("delete", 20, None, since + 3) in shown

    def test_restored_to_before_a_version_that_was_itself_a_restore(self, table: Table) -> None:
        table.rename_columns({"name": "title"})
        table.restore(1)
        table.append([{"id": 21, "name": "y"}])
        table.restore(2)
        (inserted, *_) = table.changes(3).to_arrow().to_pylist()
        assert (inserted["id"], inserted["title"]) == (21, "y")

    def test_restored_to_before_what_is_kept_columns_are_known_by_name(self, table: Table) -> None:
        table.rename_columns({"name": "title"})
        table.append([{"id": 20, "title": "x"}])
        table.delete("id < 9")
        table.restore(1)
        table.cleanup(older_than=0, retain=2, dry_run=False, grace=0)
        shown = {row[1]: row[2] for row in found(table, 4) if row[0] != "delete"}
        assert shown == dict(enumerate("abcdefghi"))

    def test_a_column_that_was_dropped_and_made_anew_is_another_one(self, table: Table) -> None:
        table.drop_columns(["name"])
        table.add_columns({"name": "'other'"})
        assert ("insert", 0, None, 1) in found(table, 0)

    @pytest.mark.parametrize("again", ["name", "title"])
    @pytest.mark.parametrize("since", [0, -1], ids=["all versions", "only the last"])
    def test_a_column_comes_back_whose_id_another_one_has_got(self, table: Table, again: str, since: int) -> None:
        """No file had it any more, so the next column got its id."""
        table.drop_columns("name")
        table.compact()
        table.add_columns(pa.field(again, pa.string()))
        assert [one.id for one in table.manifest.header.fields] == [0, 1]
        before = table.version
        table.restore(1)
        told = [row for row in found(table, before if since else 0) if row[3] == table.version and row[0] != "delete"]
        assert [row[1:3] for row in told] == list(enumerate("abcdefghij"))

    def test_restored_over_a_compaction(self, table: Table, stable: bool) -> None:
        """With row ids it is known that the rows only moved back."""
        table.update({"name": "'new'"}, where="id = 5", mode="rows")
        table.compact()
        version = table.version
        table.restore(1)
        if stable:
            assert found(table, version) == [("update", 5, "f", version + 1)]
        else:
            assert len(found(table, version)) == 20

    def test_compaction_and_other_work_shows_nothing(self, table: Table) -> None:
        table.delete("id IN (0, 5)")
        version = table.version
        table.compact()
        table.reorder(by="name")
        table.create_index("id", "BTREE")
        table.update_config({"a": "b"})
        table.reserve_fragments(3)
        table.rename_columns({"name": "title"})
        table.drop_columns("title")
        assert table.version > version + 6
        assert found(table, version) == []
        assert repr(table.changes(version)) == f"<changes after version {version} up to {table.version}: none>"
        table.delete("id = 9")
        assert found(table, version) == [("delete", 9, None, table.version)]

    def test_from_before_the_first_version(self, table: Table) -> None:
        assert [row[1] for row in found(table, 0, 1)] == list(range(10))
        assert table.changes(0).counts == {1: {"insert": 10}}

    def test_columns_that_got_values(self, table: Table) -> None:
        table.add_columns({"twice": "id * 2"})
        changes = table.changes(1).to_arrow()
        assert changes[CHANGE_TYPE].unique().to_pylist() == ["update"]
        assert sorted(changes["twice"].to_pylist()) == list(range(0, 20, 2))
        table.delete("id = 5")
        table.replace_column("name", pa.array(["same"] * 9))
        assert set(table.changes(3).to_arrow()["name"].to_pylist()) == {"same"}
        assert table.changes(3).counts == {4: {"update": 9}}


class TestColumns:
    def test_some_columns(self, table: Table) -> None:
        table.append([{"id": 20, "name": "x"}])
        changes = table.changes(1, columns=["name"])
        assert changes.schema.names == ["name", CHANGE_TYPE, COMMIT_VERSION]
        assert changes.to_arrow().to_pylist() == [{"name": "x", CHANGE_TYPE: "insert", COMMIT_VERSION: 2}]
        assert table.changes(1, columns=[]).to_arrow().num_rows == 1

    def test_names_are_those_of_the_last_version(self, table: Table) -> None:
        table.delete("id = 3")
        table.rename_columns({"name": "title"})
        table.delete("id = 4")
        rows = table.changes(1).to_arrow().to_pylist()
        assert [(row["id"], row["title"]) for row in rows] == [(3, "d"), (4, "e")]

    def test_a_column_that_did_not_exist_yet_is_null(self, table: Table) -> None:
        table.delete("id = 3")
        table.add_columns({"twice": "id * 2"})
        (gone, *rest) = table.changes(1).to_arrow().to_pylist()
        assert (gone["id"], gone["twice"], gone[CHANGE_TYPE]) == (3, None, "delete")
        assert all(row["twice"] is not None for row in rest)
        only = table.changes(1, 3, columns=["twice"]).to_arrow()["twice"].to_pylist()
        assert only[0] is None

    def test_a_column_of_another_type(self, table: Table) -> None:
        table.delete("id = 3")
        table.alter_columns({"path": "id", "data_type": pa.int32()})
        rows = table.changes(1).to_arrow()
        assert rows.schema.field("id").type == pa.int32()
        assert rows["id"].to_pylist()[0] == 3

    def test_an_overwrite_gives_ids_of_fields_anew(self, table: Table) -> None:
        """The field that was `id` is `other` now: its values must not be shown as those."""
        table.overwrite(pa.table({"other": ["o"], "id": [1]}))
        rows = table.changes(1).to_arrow().to_pylist()
        assert {row["other"] for row in rows if row[CHANGE_TYPE] == "delete"} == {None}
        assert sorted(row["id"] for row in rows if row[CHANGE_TYPE] == "delete") == list(range(10))
        assert rows[-1] == {"other": "o", "id": 1, CHANGE_TYPE: "insert", COMMIT_VERSION: 2}

    def test_every_type_of_column(self, tmp_path: Path, stable: bool) -> None:
        data = some_rows(40)
        table = made(tmp_path / "all", data, stable, rows=15)
        table.delete("id % 7 = 3")
        table.append(some_rows(5, 100))
        changes = table.changes(0).to_arrow()
        assert changes.schema.names[:-2] == SCHEMA.names
        inserted = changes.filter(pa.compute.equal(changes[CHANGE_TYPE], "insert")).drop_columns(
            [CHANGE_TYPE, COMMIT_VERSION]
        )
        assert inserted.to_pylist() == [*data.to_pylist(), *some_rows(5, 100).to_pylist()]
        deleted = changes.filter(pa.compute.equal(changes[CHANGE_TYPE], "delete")).drop_columns(
            [CHANGE_TYPE, COMMIT_VERSION]
        )
        assert deleted.to_pylist() == [row for row in data.to_pylist() if row["id"] % 7 == 3]

    @pytest.mark.parametrize("around", ["structs", "lists of structs", "maps of structs"])
    def test_fields_inside_are_followed_by_their_ids(self, tmp_path: Path, stable: bool, around: str) -> None:
        kind: pa.DataType = pa.struct([("x", pa.int64()), ("y", pa.string()), ("gone", pa.int64())])
        values: list[Any] = [{"x": 1, "y": "a", "gone": 7}, None, {"x": None, "y": "c", "gone": None}]
        inner = "s"
        if around == "lists of structs":
            kind, values, inner = pa.list_(kind), [values, None, []], "s.item"
        elif around == "maps of structs":
            kind, inner = pa.map_(pa.string(), kind), "s.entries.value"
            values = [list(zip("pqr", values, strict=True)), None, []]
        table = made(tmp_path / "t", pa.table({"id": range(3), "s": pa.array(values, kind)}), stable)
        table.delete("id = 2")
        table.rename_columns({f"{inner}.x": "z"})
        table.drop_columns(f"{inner}.gone")
        table.rename_columns({f"{inner}.y": "gone", "s": "t"})
        table.delete("id = 0")

        def now(value: Any) -> Any:
            if isinstance(value, list):
                return [now(one) for one in value]
            if isinstance(value, tuple):
                return value[0], now(value[1])
            return None if value is None else {"z": value["x"], "gone": value["y"]}

        told = [(row[CHANGE_TYPE], row["id"], row["t"]) for row in table.changes(0).to_arrow().to_pylist()]
        inserted = [("insert", number, now(value)) for number, value in enumerate(values)]
        assert told == [*inserted, ("delete", 2, now(values[2])), ("delete", 0, now(values[0]))]

    def test_a_name_that_went_to_another_column_shows_no_values_of_the_first(self, table: Table) -> None:
        table.rename_columns({"name": "old"})
        table.add_columns({"name": "'new'"})
        table.append([{"id": 10, "old": "k", "name": "l"}])
        rows = table.changes(0).to_arrow().to_pylist()
        first = [(row["old"], row["name"]) for row in rows if row[COMMIT_VERSION] == 1]
        assert first == [(letter, None) for letter in "abcdefghij"]
        assert (rows[-1]["old"], rows[-1]["name"]) == ("k", "l")

    def test_fields_inside_are_followed_across_an_overwrite_by_name(self, tmp_path: Path, stable: bool) -> None:
        kind = pa.struct([("x", pa.int64()), ("y", pa.string())])
        data = pa.table({"id": [1], "s": pa.array([{"x": 1, "y": "a"}], kind)})
        table = made(tmp_path / "t", data, stable)
        table.overwrite(pa.table({"s": data["s"], "id": data["id"]}))
        table.rename_columns({"s.x": "z"})
        told = [(row[CHANGE_TYPE], row["s"]) for row in table.changes(0).to_arrow().to_pylist()]
        assert told == [(what, {"z": 1, "y": "a"}) for what in ("insert", "delete", "insert")]


class TestReading:
    def test_in_batches_and_more_than_once(self, tmp_path: Path, stable: bool) -> None:
        table = made(tmp_path / "many", pa.table({"id": range(30_000)}), stable, rows=20_000)
        changes = table.changes(0)
        batches = list(changes)
        assert len(batches) > 2
        assert all(batch.schema == changes.schema for batch in batches)
        assert sum(batch.num_rows for batch in changes) == 30_000
        assert changes.to_reader().read_all().num_rows == 30_000
        assert repr(changes) == "<changes after version 0 up to 1: insert 30000>"

    def test_versions_by_tags_and_on_branches(self, table: Table) -> None:
        table.tag("first")
        branch = table.branch("dev")
        branch.append([{"id": 20, "name": "x"}])
        branch.delete("id = 2")
        branch.tag("there", 2)
        assert found(branch, 1) == [("insert", 20, "x", 2), ("delete", 2, "c", 3)]
        assert branch.changes("there").counts == {3: {"delete": 1}}
        assert table.changes("first").counts == {}
        table.append([{"id": 30, "name": "y"}])
        assert found(table.checkout(1), 1) == []
        assert table.checkout(2).changes("first").counts == {2: {"insert": 1}}
        with pytest.raises(InvalidInput, match="main line"):
            branch.changes("first")


class TestRefused:
    def test_bad_input(self, table: Table) -> None:
        table.append([{"id": 20, "name": "x"}])
        for arguments in ((2, 1), (-1, 1), (1, -1), (1, 0)):
            with pytest.raises(InvalidInput):
                table.changes(*arguments)
        with pytest.raises(NotFound, match="no version 9"):
            table.changes(1, 9)
        with pytest.raises(NotFound, match="no tag 'nothing'"):
            table.changes("nothing")
        for columns in (["nothing"], ["id", "id"]):
            with pytest.raises(InvalidInput, match="column"):
                table.changes(1, columns=columns)

    def test_a_version_in_between_that_was_cleaned_up(self, table: Table) -> None:
        for number in range(3):
            table.append([{"id": number, "name": "x"}])
        table.store.delete(Naming.V2.path(3))
        with pytest.raises(NotFound, match="no version 3, so the changes after 1 are not known"):
            table.changes(1)
        assert table.changes(3 + 1).counts == {}

    def test_a_version_that_is_cleaned_up_before_it_is_read(self, table: Table) -> None:
        table.delete("id = 4")
        changes = table.changes(1)
        table.store.delete(Naming.V2.path(1))
        with pytest.raises(NotFound, match="version 1 cannot be opened any more"):
            list(changes)

    def test_files_of_columns_that_are_gone_do_not_matter(self) -> None:
        """A fragment may lose them with any later commit; its rows are what they were."""
        old, new = tables.fragment(0, fields=[0]), tables.fragment(0, fields=[0])
        old.files.add(path="dropped.lance", fields=[1])
        before = tables.manifest(1, [old])
        after = tables.manifest(2, [new], fields=[tables.field(0, "id")])
        files = DeletionFiles(DictStore())
        found = changes_of(
            before, after, Transaction(1, "t", Project(tuple(after.header.fields))), files, files, no_others
        )
        assert (len(found.updated), len(found.deleted), len(found.inserted)) == (0, 0, 0)
        other = tables.manifest(2, [new])
        assert len(changes_of(before, other, Transaction(1, "t", Project()), files, files, no_others).updated) == 10

    def test_an_operation_of_a_newer_writer(self, table: Table) -> None:
        table.append([{"id": 20, "name": "x"}])
        before, after = (table.checkout(version).manifest for version in (1, 2))
        unknown = Transaction(1, "u", Opaque(199, b""))
        with pytest.raises(InvalidInput, match="version 2 was made by an operation that is not understood"):
            changes_of(before, after, unknown, None, None, no_others)  # type: ignore[arg-type]
