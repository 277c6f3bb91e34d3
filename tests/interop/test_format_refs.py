"""Tags and branches: what pylance writes we read, what we write it reads, and both allow the same names."""

from dataclasses import replace
from pathlib import Path

import lance
import pyarrow as pa
import pytest

from seiche.table.format import refs
from seiche.table.format.refs import Branch, Tag
from tests.unit.format.test_refs import BRANCH_NAMES, TAG_NAMES


@pytest.fixture
def table(tmp_path: Path) -> lance.LanceDataset:
    lance.write_dataset(pa.table({"a": range(3)}), str(tmp_path))
    return lance.write_dataset(pa.table({"a": range(3)}), str(tmp_path), mode="append")


def test_pylance_files_are_read_and_written_back(table: lance.LanceDataset, tmp_path: Path) -> None:
    table.tags.create("one", 1)
    branch = table.create_branch("dev/x", 1)
    deep = lance.write_dataset(pa.table({"a": range(3)}), branch, mode="append").create_branch("deep")
    table.tags.create("two", ("dev/x", 2))
    assert deep is not None

    tag_file = tmp_path / refs.tag_path("two")
    tag = Tag.decode(tag_file.read_bytes(), path="two")
    assert (tag.branch, tag.version, tag.extra) == ("dev/x", 2, {})
    assert tag.manifest_size == min((tmp_path / "tree/dev/x/_versions").glob("*.manifest")).stat().st_size
    branch_file = tmp_path / refs.branch_path("deep")
    stored = Branch.decode(branch_file.read_bytes(), path="deep")
    assert (stored.parent_branch, stored.parent_version, stored.extra) == ("dev/x", 2, {})
    assert [version for version, _ in stored.identifier] == [1, 2]
    assert stored.encode() == branch_file.read_bytes()

    before = table.tags.list()
    tag_file.write_bytes(tag.encode())
    branch_file.write_bytes(stored.encode())
    assert table.tags.list() == before
    assert table.branches.list()["deep"]["parent_branch"] == "dev/x"


def test_our_tag_is_used_by_pylance(table: lance.LanceDataset, tmp_path: Path) -> None:
    table.tags.create("one", 1)
    ours = replace(Tag.decode((tmp_path / refs.tag_path("one")).read_bytes(), path="one"), metadata={"k": "v"})
    (tmp_path / refs.tag_path("ours")).write_bytes(ours.encode())
    assert lance.dataset(str(tmp_path), version="ours").version == 1
    assert table.tags.list()["ours"]["metadata"] == {"k": "v"}
    (tmp_path / refs.tag_path("bare")).write_bytes(Tag(version=2, manifest_size=ours.manifest_size).encode())
    assert lance.dataset(str(tmp_path), version="bare").version == 2


def test_both_allow_the_same_names(table: lance.LanceDataset) -> None:
    def allowed(create: object, name: str) -> bool:
        try:
            create(name, 1)  # type: ignore[operator]
        except OSError:
            return False
        return True

    assert {name: allowed(table.tags.create, name) for name in TAG_NAMES} == TAG_NAMES
    assert {name: allowed(table.create_branch, name) for name in BRANCH_NAMES} == BRANCH_NAMES
