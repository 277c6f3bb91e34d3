"""Tags and branches from both sides: pylance uses ours and goes on where we stopped, and the other way round."""

from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

from seiche.errors import AlreadyExists, InvalidInput, NotFound
from seiche.table.format import refs
from seiche.table.table import Table
from tests.row_table import in_order, some_rows


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Two versions of twenty rows, one of them deleted, with an index."""
    lance.write_dataset(some_rows(20), str(tmp_path / "t"), max_rows_per_file=8)
    native(tmp_path / "t").delete("id = 3")
    native(tmp_path / "t").create_scalar_index("small", "BTREE")
    return tmp_path / "t"


def native(path: Path | str) -> Any:
    return lance.dataset(str(path))


def on_branch(path: Path, name: str) -> Any:
    dataset = native(path).checkout_version((name, None))
    dataset.validate()
    return dataset


def ids(dataset: Any) -> list[int]:
    return sorted(dataset.to_table(columns=["id"])["id"].to_pylist())


class TestTags:
    def test_ours_for_pylance(self, path: Path) -> None:
        table = Table.open(str(path))
        table.tag("one", 1, metadata={"by": "us"})
        table.tag("moved", 1)
        table.tag("moved", 2, replace=True)
        table.tag("gone", 1)
        table.untag("gone")
        listed = native(path).tags.list()
        assert {name: tag["version"] for name, tag in listed.items()} == {"one": 1, "moved": 2}
        assert listed["one"]["metadata"] == {"by": "us"}
        assert lance.dataset(str(path), version="one").count_rows() == 20
        assert lance.dataset(str(path), version="moved").count_rows() == 19
        native(path).tags.update("one", 2)
        native(path).tags.delete("moved")
        assert {name: tag.version for name, tag in table.tags().items()} == {"one": 2}
        assert table.tags()["one"].created_at == listed_time(listed["one"])
        with pytest.raises(ValueError, match="already exists"):
            native(path).tags.create("one", 1)

    def test_pylances_for_us(self, path: Path) -> None:
        native(path).tags.create("one", 1)
        native(path).create_branch("dev", 2)
        native(path).tags.create("there", ("dev", None))
        assert Table.open(str(path), "one").to_arrow().num_rows == 20
        assert Table.open(str(path), "there").uri.endswith("tree/dev")
        table = Table.open(str(path))
        with pytest.raises(AlreadyExists):
            table.tag("one", 2)
        table.tag("one", 2, replace=True)
        assert lance.dataset(str(path), version="one").version == 2
        table.untag("there")
        assert native(path).tags.list().keys() == {"one"}

    def test_the_files_are_alike(self, path: Path) -> None:
        native(path).tags.create("theirs", 2)
        Table.open(str(path)).tag("ours", 2)
        theirs, ours = ((path / refs.tag_path(name)).read_text().splitlines() for name in ("theirs", "ours"))
        assert [line.partition(":")[0] for line in theirs] == [line.partition(":")[0] for line in ours]
        changing = ("createdAt", "updatedAt")
        assert [line for line in theirs if not any(one in line for one in changing)] == [
            line for line in ours if not any(one in line for one in changing)
        ]


def listed_time(tag: dict[str, Any]) -> Any:
    created = tag["created_at"]
    return created if isinstance(created, datetime) else datetime.fromisoformat(created)


class TestBranches:
    def test_ours_is_continued_by_pylance(self, path: Path) -> None:
        table = Table.open(str(path))
        branch = table.branch("dev/x", 2)
        branch.append(some_rows(2, 50))
        branch.delete("id IN (4, 50)")
        theirs = on_branch(path, "dev/x")
        assert (theirs.version, ids(theirs)) == (4, [0, 1, 2, *range(5, 20), 51])
        theirs = lance.write_dataset(some_rows(1, 60), theirs, mode="append")
        theirs.delete("id = 5")
        theirs.update({"name": "'pylance'"}, where="id = 6")
        theirs.optimize.compact_files()
        assert branch.to_arrow(filter="id = 6")["name"].to_pylist() == ["pylance"]
        assert sorted(branch.to_arrow()["id"].to_pylist()) == ids(on_branch(path, "dev/x"))
        branch.update({"name": "'ours'"}, where="id > 17", mode="rows")
        branch.compact()
        on_branch(path, "dev/x")
        assert table.to_arrow().num_rows == 19
        assert native(path).version == 3
        assert native(path).branches.list()["dev/x"]["parent_version"] == 2

    def test_pylances_is_continued_by_us(self, path: Path) -> None:
        native(path).create_branch("dev", 3)
        branch = Table.open(str(path), branch="dev")
        branch.append(some_rows(3, 50))
        branch.delete("id = 4")
        branch.update({"name": "'x'"}, where="id < 2", mode="columns")
        theirs = on_branch(path, "dev")
        assert in_order(theirs.to_table()) == in_order(branch.to_arrow())
        assert theirs.count_rows() == 21
        assert [one.operation for one in branch.versions()] == ["Clone", "Append", "Delete", "Update"]

    def test_a_branch_of_a_branch(self, path: Path) -> None:
        table = Table.open(str(path))
        branch = table.branch("a", 3)
        branch.append(some_rows(2, 50))
        theirs = on_branch(path, "a").create_branch("b")
        assert theirs.count_rows() == 21
        deep = Table.open(str(path), branch="b").branch("c/d")
        deep.delete("id = 51")
        assert on_branch(path, "c/d").count_rows() == 20
        listed = native(path).branches.list()
        assert [version for version, _ in listed["c/d"]["branch_identifier"]] == [3, 4, 4]
        assert listed["c/d"]["parent_branch"] == "b"

    def test_indices_come_along(self, path: Path) -> None:
        branch = Table.open(str(path)).branch("dev")
        branch.append(some_rows(5, 50))
        dataset = on_branch(path, "dev")
        plan = dataset.scanner(filter="small = 7").explain_plan()
        assert "ScalarIndexQuery" in plan or "MaterializeIndex" in plan
        assert [row["id"] for row in dataset.to_table(filter="small IN (7, 52)").to_pylist()] == [7, 52]

    def test_deleting_from_both_sides(self, path: Path) -> None:
        table = Table.open(str(path))
        for name in ("a", "b", "a/inner"):
            table.branch(name)
        native(path).branches.delete("a")
        assert table.branches().keys() == {"b", "a/inner"}
        assert on_branch(path, "a/inner").count_rows() == 19
        table.delete_branch("b")
        assert native(path).branches.list().keys() == {"a/inner"}
        assert not (path / "tree/b").exists()
        table.branch("b")
        table.checkout(branch="b").branch("child")
        with pytest.raises(Exception, match="referenced"):
            native(path).branches.delete("b")
        with pytest.raises(InvalidInput, match="child"):
            table.delete_branch("b")

    def test_a_branch_that_pylance_left_half_made(self, path: Path) -> None:
        """It writes the manifest first and the reference then."""
        native(path).create_branch("half")
        (path / refs.branch_path("half")).unlink()
        table = Table.open(str(path))
        with pytest.raises(NotFound, match="no branch 'half'"):
            Table.open(str(path), branch="half")
        with pytest.raises(AlreadyExists, match="delete_branch"):
            table.branch("half")
        table.delete_branch("half")
        assert table.branch("half").to_arrow().num_rows == 19
        assert on_branch(path, "half").count_rows() == 19

    def test_a_branch_that_we_left_half_made(self, path: Path) -> None:
        table = Table.open(str(path))
        table.branch("half", 2)
        for file in (path / "tree/half").rglob("*"):
            if file.is_file():
                file.unlink()
        assert Table.open(str(path), branch="half").to_arrow().num_rows == 19
        assert on_branch(path, "half").count_rows() == 19

    def test_the_first_manifest_is_as_pylance_writes_it(self, path: Path) -> None:
        native(path).create_branch("theirs", 3)
        Table.open(str(path)).branch("ours", 3)
        theirs, ours = (Table.open(str(path), branch=name) for name in ("theirs", "ours"))
        assert ours.manifest.fragments == theirs.manifest.fragments
        assert ours.manifest.indices == theirs.manifest.indices
        header, other = ours.manifest.copy_header(), theirs.manifest.copy_header()
        for one in (header, other):
            for name in ("branch", "transaction_file", "timestamp", "writer_version", "transaction_section"):
                one.ClearField(name)
            one.ClearField("index_section")
        assert header == other
        operations: list[Any] = [table.transactions()[0][1].operation for table in (theirs, ours)]
        assert replace(operations[0], branch_name="") == replace(operations[1], branch_name="")


def test_schema_of_tables_from_both_sides_is_one(path: Path) -> None:
    branch = Table.open(str(path)).branch("dev")
    assert branch.schema.names == native(path).schema.names
    assert isinstance(branch.to_arrow(), pa.Table)
