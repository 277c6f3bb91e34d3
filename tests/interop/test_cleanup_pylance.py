"""Clean-up of real tables, while pylance reads and writes them, and beside pylance's own clean-up."""

import os
import random
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import lance
import lance.blob
import pyarrow as pa
import pytest

from seiche.errors import InvalidInput
from seiche.table.table import Table
from tests.row_table import in_order, some_rows

GONE_AFTER = {"older_than": 0, "grace": 0, "dry_run": False}


def native(path: Path | str, version: int | str | None = None) -> Any:
    return lance.dataset(str(path), version=version)


def validated(table: Table) -> None:
    dataset: Any = table.to_lance()
    dataset.validate()


def age(path: Path, days: float) -> None:
    """Let all files be older."""
    for file in path.rglob("*"):
        with suppress(FileNotFoundError):  # somebody else is at work
            if file.is_file():
                status = file.stat()
                os.utime(file, (status.st_atime, status.st_mtime - days * 86400))


def tracked(path: Path) -> set[str]:
    """Files that pylance says the versions of the table and of its branches consist of."""
    found: set[str] = set()
    for dataset in (
        native(path),
        *(native(path).checkout_version((name, None)) for name in native(path).branches.list()),
    ):
        reader = dataset.tracked_files()
        for row in reader.read_all().to_pylist():
            if row["type"] != "manifest":
                found.add(str(Path(row["base_uri"]) / row["path"]))
    return found


def stored(path: Path) -> set[str]:
    folders = ("data", "_deletions", "_indices", "_transactions")
    return {str(file) for file in path.rglob("*") if file.is_file() and any(one in file.parts for one in folders)}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    where = tmp_path / "t"
    lance.write_dataset(some_rows(30), str(where), max_rows_per_file=12)
    native(where).delete("id IN (3, 14)")
    native(where).create_scalar_index("small", "BTREE")
    lance.write_dataset(some_rows(5, 100), str(where), mode="append")
    native(where).update({"name": "'x'"}, where="id = 20")
    native(where).optimize.compact_files()
    return where


class TestAgainstPylance:
    def test_what_is_left_is_what_pylance_needs(self, path: Path) -> None:
        table = Table.open(str(path))
        expected = in_order(native(path).to_table())
        done = table.cleanup(**GONE_AFTER)  # type: ignore[arg-type]
        assert done.dropped == tuple(range(1, table.version))
        assert stored(path) == tracked(path)
        dataset = native(path)
        dataset.validate()
        assert in_order(dataset.to_table()) == expected
        assert [row["id"] for row in dataset.to_table(filter="small = 7").to_pylist()] == [7]
        lance.write_dataset(some_rows(3, 200), str(path), mode="append")
        native(path).delete("id = 200")
        assert table.to_arrow().num_rows == len(expected) + 2

    def test_the_same_as_pylance_removes(self, path: Path, tmp_path: Path) -> None:
        shutil.copytree(path, tmp_path / "theirs")
        Table.open(str(path)).cleanup(**GONE_AFTER)  # type: ignore[arg-type]
        native(tmp_path / "theirs").cleanup_old_versions(timedelta(0), delete_unverified=True)
        ours = {str(Path(file).relative_to(path)) for file in stored(path)}
        theirs = {str(Path(file).relative_to(tmp_path / "theirs")) for file in stored(tmp_path / "theirs")}
        assert ours == theirs

    def test_a_handle_of_pylance_on_a_kept_version_goes_on_reading(self, path: Path) -> None:
        old = native(path, native(path).version - 1)
        expected = in_order(old.to_table())
        age(path, 3)
        lance.write_dataset(some_rows(1, 300), str(path), mode="overwrite")
        Table.open(str(path)).cleanup("4d", grace=0, dry_run=False)
        assert in_order(old.to_table()) == expected
        assert in_order(native(path, old.version).to_table()) == expected

    def test_branches_and_tags_of_pylance(self, path: Path) -> None:
        newest = native(path).version
        native(path).create_branch("dev/x", 2)
        branch = native(path).checkout_version(("dev/x", None))
        lance.write_dataset(some_rows(2, 400), branch, mode="append")
        native(path).tags.create("kept", newest - 1)
        age(path, 30)
        done = Table.open(str(path)).cleanup(dry_run=False)
        assert done.kept == (newest - 1, newest)
        branch = native(path).checkout_version(("dev/x", None))
        branch.validate()
        assert branch.to_table().num_rows == 30
        assert native(path, "kept").to_table().num_rows == 33
        assert stored(path) == tracked(path)
        native(path).cleanup_old_versions(timedelta(0), delete_unverified=True, error_if_tagged_old_versions=False)
        assert native(path).checkout_version(("dev/x", None)).to_table().num_rows == 30
        assert native(path, "kept").to_table().num_rows == 33

    @pytest.mark.parametrize("inner", ["dev/data", "dev/_indices", "dev/_transactions", "dev/_shadow"])
    def test_a_branch_where_another_has_its_files(self, tmp_path: Path, inner: str) -> None:
        """pylance takes such names; clean-up of the outer branch removed the inner one, and deleting the inner one the
        rows of the outer.
        """
        table = Table.create(tmp_path / "t", pa.schema([("id", pa.int64())]))
        with pytest.raises(InvalidInput, match="files of its own"):
            table.branch(inner)
        outer = table.branch("dev")
        outer.append([{"id": 1}])
        lance.write_dataset(pa.table({"id": [2]}), native(tmp_path / "t").create_branch(inner), mode="append")
        outer.append([{"id": 3}])
        for line in (outer, table):
            line.cleanup(0, grace=0, dry_run=False)
            assert table.checkout(branch=inner).to_arrow()["id"].to_pylist() == [2]
        table.delete_branch(inner)
        assert outer.to_arrow()["id"].to_pylist() == [1, 3]
        assert list(table.branches()) == ["dev"]

    def test_a_shallow_clone_of_ours_survives_both_clean_ups(self, path: Path, tmp_path: Path) -> None:
        Table.open(str(path)).clone(str(tmp_path / "copy"), shallow=True, version=2)
        age(path, 30)
        Table.open(str(path)).cleanup(retain=1, dry_run=False, gaps=True)
        native(path).cleanup_old_versions(timedelta(0), delete_unverified=True, error_if_tagged_old_versions=False)
        copy = native(tmp_path / "copy")
        copy.validate()
        assert copy.to_table().num_rows == 28

    def test_without_gaps_a_writer_on_an_old_tag_brings_nothing_back(self, path: Path) -> None:
        """pylance does not check against versions that are missing: a deletion in between would be undone."""
        source = path.parent / "source"
        lance.write_dataset(some_rows(10), str(source))
        native(source).tags.create("old", 1)
        lance.write_dataset(some_rows(5, 50), str(source), mode="append")
        native(source).delete("id = 3")
        lance.write_dataset(some_rows(5, 60), str(source), mode="append")
        back = {}
        for gaps in (True, False):
            copy = path.parent / f"gaps-{gaps}"
            shutil.copytree(source, copy)
            Table.open(str(copy)).cleanup(gaps=gaps, **GONE_AFTER)  # type: ignore[arg-type]
            native(copy, "old").delete("id = 4")
            back[gaps] = native(copy).count_rows("id = 3")
        assert back == {True: 1, False: 0}

    def test_large_values(self, tmp_path: Path) -> None:
        for size in (100_000, 3_000_000):
            blobs = lance.blob.blob_array([b"x" * size, b"y" * size])
            lance.write_dataset(pa.table({"i": range(2), "b": blobs}), str(tmp_path / "t"), mode="append")
        native(tmp_path / "t").delete("i = 0")
        age(tmp_path / "t", 30)
        Table.open(str(tmp_path / "t")).cleanup(retain=1, dry_run=False)
        found = native(tmp_path / "t").take_blobs("b", indices=[0, 1])
        assert [len(one.readall()) for one in found] == [100_000, 3_000_000]
        small = pa.table({"i": [1], "b": lance.blob.blob_array([b"z"])})
        lance.write_dataset(small, str(tmp_path / "t"), mode="overwrite")
        age(tmp_path / "t", 30)
        Table.open(str(tmp_path / "t")).cleanup(retain=1, dry_run=False)
        assert len(list((tmp_path / "t/data").iterdir())) == 1
        assert not [one for one in (tmp_path / "t/data").iterdir() if one.is_dir()]


class TestLeftovers:
    def test_of_writers_that_were_killed(self, path: Path) -> None:
        """Fragments without a commit, an index without one, a temporary file of ours: gone after the grace time."""
        before = stored(path)
        lance.fragment.write_fragments(some_rows(5, 500), str(path))
        native(path).create_index_uncommitted(
            "id", "BTREE", name="never", fragment_ids=[native(path).get_fragments()[0].fragment_id]
        )
        (path / "data" / ".seiche-tmp-0123456789abcdef").write_bytes(b"x")
        left = stored(path) - before
        assert len(left) >= 4
        table = Table.open(str(path))
        table.cleanup(dry_run=False)
        assert left <= stored(path)
        age(path, 8)
        lance.write_dataset(some_rows(1, 600), str(path), mode="append")
        done = table.cleanup(older_than="30d", dry_run=False)
        assert not left & stored(path)
        assert done.temporary == 1
        assert done.dropped == ()
        native(path).validate()
        assert not any((path / "_indices").glob("*/never"))

    def test_of_a_compaction_that_was_never_committed(self, path: Path) -> None:
        from lance.optimize import Compaction

        lance.write_dataset(some_rows(5, 500), str(path), mode="append")
        before = stored(path)
        plan: Any = Compaction.plan(native(path), {"target_rows_per_fragment": 1 << 20})
        for task in plan.tasks:
            task.execute(native(path))
        assert stored(path) - before
        age(path, 8)
        Table.open(str(path)).cleanup(older_than="30d", dry_run=False)
        assert stored(path) == before


@pytest.mark.soak
def test_random_work_of_both(tmp_path: Path, effort: Callable[[int, int], int]) -> None:
    """We and pylance change a table and its branch at random; after each clean-up every version that is kept is
    whole: pylance reads it all.
    """
    done: Counter[str] = Counter()
    for seed in range(effort(2, 30)):
        chance = random.Random(seed)
        path = tmp_path / str(seed)
        lance.write_dataset(some_rows(20), str(path), max_rows_per_file=8, enable_stable_row_ids=seed % 2 == 1)
        table = Table.open(str(path), durability="os")
        lines = [table]
        for _ in range(25):
            line = chance.choice(lines)
            act = chance.choice(ACTS)
            act(line, chance)
            done[act.__name__] += 1
            if len(lines) == 1 and chance.random() < 0.1:
                lines.append(table.branch("dev", chance.choice(table.versions()).version))
            result = line.cleanup(retain=chance.randrange(1, 6), grace=0, dry_run=False)
            done["files"] += result.files
            for one in lines:
                for version in one.versions():
                    one.checkout(version.version).to_lance().to_table()
        for one in lines:
            validated(one)
    print(dict(done))
    assert done["files"] > 50


def _append(line: Table, chance: random.Random) -> None:
    line.append(some_rows(chance.randrange(1, 9), 1000))


def _delete(line: Table, chance: random.Random) -> None:
    line.delete(f"id % 11 = {chance.randrange(11)}")


def _update(line: Table, chance: random.Random) -> None:
    line.update({"name": "'u'"}, where=f"id % 7 = {chance.randrange(7)}")


def _compact(line: Table, _: random.Random) -> None:
    line.compact()


def _index(line: Table, _: random.Random) -> None:
    if line.to_lance().count_rows():
        line.create_index("small", "BTREE", replace=True)


def _restore(line: Table, chance: random.Random) -> None:
    line.restore(chance.choice(line.versions()).version)


def _overwrite(line: Table, chance: random.Random) -> None:
    line.overwrite(some_rows(chance.randrange(1, 30)))


def _by_pylance(line: Table, chance: random.Random) -> None:
    dataset = lance.dataset(line.store.native_uri())
    lance.write_dataset(some_rows(4, 2000), dataset, mode="append")
    lance.dataset(line.store.native_uri()).delete(f"id % 13 = {chance.randrange(13)}")


ACTS: list[Callable[[Table, random.Random], None]] = [
    *[_append, _delete, _update, _by_pylance] * 2,
    *[_compact, _index, _restore, _overwrite],
]

WRITER = """
import sys
import lance, pyarrow as pa
path = sys.argv[1]
for number in range(40):
    lance.write_dataset(pa.table({"id": [1000 + number]}), path, mode="append")
    if number % 10 == 9:
        lance.dataset(path).optimize.compact_files()
print(lance.dataset(path).count_rows())
"""


def test_while_pylance_writes(tmp_path: Path) -> None:
    """Another process appends and compacts; we clean up as hard as we may. Nothing is lost."""
    path = tmp_path / "t"
    lance.write_dataset(pa.table({"id": range(10)}), str(path))
    table = Table.open(str(path), durability="os")
    runs = 0
    with subprocess.Popen([sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE, text=True) as writer:
        while writer.poll() is None:
            # A grace time, because somebody is at work; none for versions, but for the two minutes that always hold.
            table.cleanup(older_than=0, dry_run=False)
            age(path / "_versions", 0.01)
            runs += 1
        assert writer.stdout is not None
        assert writer.stdout.read().split() == ["50"]
    dataset = native(path)
    dataset.validate()
    assert sorted(dataset.to_table()["id"].to_pylist()) == [*range(10), *range(1000, 1040)]
    assert runs >= 2
    versions = [one.version for one in table.versions()]
    assert versions == list(range(versions[0], versions[-1] + 1))
