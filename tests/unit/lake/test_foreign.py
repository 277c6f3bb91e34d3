"""Plain Lance writers in the directory of a managed table: refused, and what slips through is found and brought in."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import seiche
from seiche import Corrupt, IncompatibleConflict, InvalidInput, Lake, NotFound, RetryableConflict
from seiche.core.runtime import SYSTEM
from seiche.lake import adopt as adopt_module
from seiche.lake import publish as publish_module
from seiche.lake.publish import Publisher
from seiche.store.local import LocalStore
from seiche.table.format import file
from seiche.table.format.manifest import Manifest
from seiche.table.versions.naming import Naming
from seiche.testing import Fault, SimulatedStore
from tests.unit.format.test_file import framed
from tests.unit.lake.conftest import SCHEMA, ids, rows


def unfence(path: str, version: int) -> None:
    """Take the fence off a published manifest, as if it had been written by something that does not know it."""
    name = Path(path.removeprefix("file://")) / Naming.V2.path(version)
    read = file.decode(name.read_bytes(), path=str(name))
    header = read.manifest.copy_header()
    header.writer_feature_flags = header.reader_feature_flags
    assert read.transaction is not None
    made = Manifest(header, read.manifest.fragments, read.manifest.index_section)
    name.write_bytes(b"".join(file.encode(made, read.transaction.SerializeToString())))


def foreign_append(lake: Lake, *new: int) -> None:
    """A plain append past the lake, by a writer that the fence does not stop."""
    table = lake.table("shop.a")
    unfence(table.uri, table.version)
    lance.write_dataset(rows(*new), table.uri, mode="append")


def stop(*_: object) -> None:
    """In the place of a step: whoever came to it dies there."""
    raise KeyboardInterrupt


def test_a_foreign_commit_is_found_before_anything_is_lost_and_brought_in(lake: Lake) -> None:
    lake.table("shop.a").append(rows(1))
    foreign_append(lake, 2, 3)
    before = ids(lake, "shop.a")
    assert before == [1]
    lake.table("shop.a").append(rows(4))
    with pytest.raises(Corrupt, match="does not know the lake") as caught:
        lake.table("shop.a").append(rows(5))
    assert "adopt" in caught.value.remedy
    (adopted,) = lake.adopt("shop.a")
    assert (adopted.operation, adopted.lake_version) == ("Append", lake.version)
    assert ids(lake, "shop.a") == [1, 2, 3, 4]
    lake.table("shop.a").append(rows(5))
    assert ids(lake, "shop.a") == [1, 2, 3, 4, 5]
    plain = lance.dataset(lake.table("shop.a").uri)
    plain.validate()  # type: ignore[no-untyped-call]
    assert sorted(plain.to_table()["id"].to_pylist()) == [1, 2, 3, 4, 5]
    assert len(plain.versions()) == plain.version
    with pytest.raises(OSError, match="cannot be written"):
        lance.write_dataset(rows(9), lake.table("shop.a").uri, mode="append")
    assert lake.adopt("shop.a") == []


def test_readers_of_the_lake_do_not_mind_a_foreign_commit(lake: Lake) -> None:
    foreign_append(lake, 2, 3)
    lake.table("shop.a").append(rows(4))
    again = seiche.open(lake.store)
    assert ids(again, "shop.a") == [4]
    assert again.table("shop.a").to_arrow(filter="id > 4").num_rows == 0


def test_a_foreign_commit_that_the_lake_has_not_overtaken_is_brought_in(lake: Lake) -> None:
    lake.table("shop.a").append(rows(1, 2))
    foreign_append(lake, 3)
    lance.dataset(lake.table("shop.a").uri).delete("id = 1")
    assert [one.operation for one in lake.adopt("shop.a")] == ["Append", "Delete"]
    assert ids(lake, "shop.a") == [2, 3]


def test_foreign_deletes_that_leave_no_row_of_a_fragment_between_them_are_brought_in(lake: Lake) -> None:
    """Of the second, which it has rebased, pylance says that the fragment was changed and that it is gone."""
    table = lake.table("shop.a")
    table.append(rows(1, 2))
    table.append(rows(3))
    unfence(table.uri, table.version)
    first, second = (lance.dataset(table.uri) for _ in range(2))
    first.delete("id = 1")
    second.delete("id = 2")
    assert [one.operation for one in lake.adopt("shop.a")] == ["Delete", "Delete"]
    assert ids(lake, "shop.a") == [3]


def test_a_foreign_commit_that_conflicts_is_kept_aside(lake: Lake) -> None:
    lake.table("shop.a").append(rows(1, 2))
    table = lake.table("shop.a")
    unfence(table.uri, table.version)
    lance.dataset(table.uri).update({"n": "7"}, where="id = 1")
    lake.table("shop.a").delete("id = 1")
    with pytest.raises(RetryableConflict) as caught:
        lake.adopt("shop.a")
    kept = os.listdir(Path(table.uri.removeprefix("file://")) / "_foreign")
    assert len(kept) == 1
    assert caught.value.details["path"] == f"_foreign/{kept[0]}"
    assert f"remove _foreign/{kept[0]}" in caught.value.remedy, "the same would be refused for ever"
    with pytest.raises(OSError, match="cannot be written"):
        lance.write_dataset(rows(9), table.uri, mode="append")
    lake.table("shop.a").append(rows(5))
    assert ids(lake, "shop.a") == [2, 5]


@pytest.mark.parametrize("overtaken", [False, True])
@pytest.mark.parametrize("indexed", [False, True])
def test_a_foreign_compaction_is_brought_in_with_what_was_done_after_it(
    lake: Lake, indexed: bool, overtaken: bool
) -> None:
    """A plain writer reserves its fragment ids in a commit of its own, and compacts the version before that."""
    for one in (1, 2, 3):
        lake.table("shop.a").append(rows(one))
    if indexed:
        lake.table("shop.a").create_index("id")
    table = lake.table("shop.a")
    unfence(table.uri, table.version)
    lance.dataset(table.uri).optimize.compact_files()
    if overtaken:
        lake.table("shop.a").append(rows(9))
    else:
        lance.dataset(table.uri).delete("id = 2")
    lance.write_dataset(rows(4), table.uri, mode="append")
    if indexed and overtaken:
        # The files of the index name fragments by ids that are other rows in the lake.
        with pytest.raises(RetryableConflict, match="fragment ids"):
            lake.adopt("shop.a")
        assert ids(lake, "shop.a") == [1, 2, 3, 9]
        return
    between = [] if overtaken else ["Delete"]
    assert [one.operation for one in lake.adopt("shop.a")] == ["Rewrite", *between, "Append"]
    want = [1, 2, 3, 4, 9] if overtaken else [1, 3, 4]
    assert ids(lake, "shop.a") == want
    assert [one for one in range(10) if lake.table("shop.a").to_arrow(filter=f"id = {one}").num_rows] == want
    assert lake.adopt("shop.a") == []
    lance.dataset(table.uri).validate()  # type: ignore[no-untyped-call]
    assert lake.fsck(deep=True).problems == ()


def test_a_foreign_reservation_that_nobody_used_keeps_the_numbers_of_what_came_after_it(lake: Lake) -> None:
    for one in (1, 2):
        lake.table("shop.a").append(rows(one))
    table = lake.table("shop.a")
    unfence(table.uri, table.version)
    lance.dataset(table.uri).optimize.compact_files()
    compacted = Naming.V2.path(lance.dataset(table.uri).version)
    (Path(table.uri.removeprefix("file://")) / compacted).unlink()  # as if the writer had died before it
    lance.write_dataset(rows(3, 4), table.uri, mode="append")
    lance.dataset(table.uri).delete("id = 3")
    assert [one.operation for one in lake.adopt("shop.a")] == ["ReserveFragments", "Append", "Delete"]
    assert ids(lake, "shop.a") == [1, 2, 4]


def test_a_foreign_restore_is_brought_in(lake: Lake) -> None:
    lake.table("shop.a").append(rows(1, 2))
    foreign_append(lake, 3)
    table = lake.table("shop.a")
    lance.dataset(table.uri).delete("id = 1")
    lance.dataset(table.uri, version=table.version + 1).restore()  # type: ignore[no-untyped-call]
    lance.write_dataset(rows(4), table.uri, mode="append")
    assert [one.operation for one in lake.adopt("shop.a")] == ["Append", "Delete", "Restore", "Append"]
    assert ids(lake, "shop.a") == [1, 2, 3, 4]


def test_a_foreign_restore_of_a_version_that_is_another_one_in_the_lake_is_kept_aside(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The version that it was prepared on is the same in the lake; the one that it brings back is not."""
    lake.table("shop.a").append(rows(1))
    foreign_append(lake, 2)
    table = lake.table("shop.a")
    lance.dataset(table.uri).delete("id = 2")
    lance.dataset(table.uri, version=table.version + 1).restore()  # type: ignore[no-untyped-call]
    with monkeypatch.context() as stopped:
        stopped.setattr(adopt_module, "_commit", stop)
        with pytest.raises(KeyboardInterrupt):
            lake.adopt("shop.a")
    lake.table("shop.a").append(rows(3))
    lake.table("shop.a").delete("id = 3")
    for one in sorted((Path(table.uri.removeprefix("file://")) / "_foreign").iterdir())[:2]:
        one.unlink()
    with pytest.raises(IncompatibleConflict, match="not the lake's"):
        lake.adopt("shop.a")
    assert ids(lake, "shop.a") == [1]


@pytest.mark.parametrize("verb", ["delete", "update", "index"])
def test_a_foreign_commit_on_top_of_another_that_the_lake_overtook_is_kept_aside(lake: Lake, verb: str) -> None:
    """The fragment that it means has another number in the lake, where its own number is that of other rows."""
    lake.table("shop.a").append(rows(1))
    foreign_append(lake, 2, 3)
    lake.table("shop.a").append(rows(4, 5))
    plain = lance.dataset(lake.table("shop.a").uri)
    match verb:
        case "delete":
            plain.delete("id = 2")
        case "update":
            plain.update({"n": "7"}, where="id = 2")
        case "index":
            plain.create_scalar_index("id", "BTREE")
    for _ in range(2):
        with pytest.raises(IncompatibleConflict, match="not the lake's") as caught:
            lake.adopt("shop.a")
        assert ids(lake, "shop.a") == [1, 2, 3, 4, 5], "what can be brought in is"
    table = Path(lake.table("shop.a").uri.removeprefix("file://"))
    (table / str(caught.value.details["path"])).unlink()
    assert lake.adopt("shop.a") == []
    lake.table("shop.a").append(rows(6))
    assert lake.table("shop.a").to_arrow(filter="id = 4").num_rows == 1


def test_foreign_rows_do_not_come_under_another_column(lake: Lake) -> None:
    lake.table("shop.a").append(rows(1))
    table = lake.table("shop.a")
    unfence(table.uri, table.version)
    lance.dataset(table.uri).add_columns({"theirs": "id * 10"})
    lake.table("shop.a").add_columns({"ours": "id * 100"})
    new = rows(2).append_column("theirs", pa.array([20], pa.int64()))
    lance.write_dataset(new, table.uri, mode="append")
    with pytest.raises(RetryableConflict, match="replaced all fragments"):
        lake.adopt("shop.a")
    first, _ = sorted((Path(table.uri.removeprefix("file://")) / "_foreign").iterdir())
    first.unlink()
    with pytest.raises(RetryableConflict, match=r"was 'theirs' .* is 'ours'"):
        lake.adopt("shop.a")
    assert lake.table("shop.a").to_arrow()["ours"].to_pylist() == [100]


def test_a_foreign_commit_that_waits_makes_no_room_for_one_of_the_same_number(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Died(BaseException):
        pass

    def die(*_: object) -> None:
        raise Died

    lake.table("shop.a").append(rows(1))
    foreign_append(lake, 2)
    with monkeypatch.context() as patch:
        patch.setattr(adopt_module, "_commit", die)
        with pytest.raises(Died):
            lake.adopt("shop.a")
    foreign_append(lake, 3)
    assert [one.operation for one in lake.adopt("shop.a")] == ["Append", "Append"]
    assert ids(lake, "shop.a") == [1, 2, 3]


def test_a_foreign_version_that_does_not_say_what_it_did_is_kept_aside(lake: Lake) -> None:
    lake.table("shop.a").append(rows(1))
    foreign_append(lake, 2)
    lake.table("shop.a").append(rows(3))
    table = lake.table("shop.a")
    published = Path(table.uri.removeprefix("file://")) / Naming.V2.path(table.version)
    silent = file.decode(published.read_bytes(), path="").manifest
    header = silent.copy_header()
    header.ClearField("transaction_section")
    published.write_bytes(framed(header.SerializeToString() + b"".join(silent.fragments.pieces)))
    with pytest.raises(Corrupt, match="does not say what it did") as caught:
        lake.adopt("shop.a")
    assert (Path(table.uri.removeprefix("file://")) / str(caught.value.details["path"])).exists()
    lake.table("shop.a").append(rows(4))
    assert ids(lake, "shop.a") == [1, 3, 4]


def test_a_foreign_commit_whose_files_are_gone_is_not_brought_in(lake: Lake) -> None:
    lake.table("shop.a").append(rows(1))
    before = {info.path for info in lake.store.list()}
    foreign_append(lake, 2, 3)
    (lost,) = (info.path for info in lake.store.list() if info.path not in before and "/data/" in info.path)
    kept = lake.store.get(lost)
    lake.store.delete(lost)
    with pytest.raises(NotFound, match=r"a foreign Append names .*/data/"):
        lake.adopt("shop.a")
    lake.table("shop.a").append(rows(4))
    assert ids(lake, "shop.a") == [1, 4]
    lake.store.put(lost, kept)
    assert len(lake.adopt("shop.a")) == 1
    assert ids(lake, "shop.a") == [1, 2, 3, 4]


class Died(BaseException):
    """The process that adopts is killed."""


def adopt_without_end(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """A foreign commit is brought in by somebody who dies right after."""
    delete = LocalStore.delete

    def dying(self: LocalStore, path: str) -> None:
        if "/_foreign/" in path:
            raise Died
        delete(self, path)

    with monkeypatch.context() as patch:
        patch.setattr(LocalStore, "delete", dying)
        with pytest.raises(Died):
            lake.adopt("shop.a")


def test_what_was_brought_in_is_not_brought_in_twice(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    foreign_append(lake, 2)
    adopt_without_end(lake, monkeypatch)
    assert ids(lake, "shop.a") == [2]
    assert [one.lake_version for one in lake.adopt("shop.a")] == [lake.version]
    assert (ids(lake, "shop.a"), lake.adopt("shop.a")) == ([2], [])


@pytest.mark.parametrize("cleared", [False, True])
def test_nor_is_it_when_the_lake_has_forgotten_its_transaction(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, *, cleared: bool
) -> None:
    foreign_append(lake, 2)
    adopt_without_end(lake, monkeypatch)
    lake.table("shop.a").append(rows(3))
    if cleared:
        lake.table("shop.a").overwrite(rows(2, 3))
    assert lake.expire(older_than=0, keep=1).forgotten
    if cleared:
        lake.gc(dry_run=False, grace=0, window=0)
    assert lake.adopt("shop.a") == []
    assert ids(lake, "shop.a") == [2, 3]
    assert not list(lake.store.list(f"{lake.table('shop.a').row.location}/_foreign"))
    assert lake.fsck().problems == ()


def test_nor_is_it_on_top_of_a_version_that_has_it_already(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was prepared on a foreign version that nobody wanted, of which the number is now that of a later one."""
    lake.table("shop.a").append(rows(1))
    foreign_append(lake, 2)
    lance.write_dataset(rows(3), lake.table("shop.a").uri, mode="append")
    with monkeypatch.context() as patch:
        patch.setattr(adopt_module, "_commit", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            lake.adopt("shop.a")
    first, _ = sorted(lake.store.list(f"{lake.table('shop.a').row.location}/_foreign"), key=lambda one: one.path)
    lake.store.delete(first.path)
    adopt_without_end(lake, monkeypatch)
    lake.table("shop.a").append(rows(4))
    assert lake.expire(older_than=0, keep=1).forgotten
    lake.adopt("shop.a")
    assert ids(lake, "shop.a") == [1, 3, 4]


@pytest.mark.parametrize("verb", ["append", "overwrite", "delete"])
def test_a_foreign_commit_on_a_version_that_was_cleared_away_is_kept_aside(lake: Lake, verb: str) -> None:
    """What came after that version and went with it, an overwrite for one, may have been in its way."""
    lake.table("shop.a").append(rows(1))
    table = lake.table("shop.a")
    unfence(table.uri, table.version)
    if verb == "delete":
        lance.dataset(table.uri).delete("id = 1")
    else:
        lance.write_dataset(rows(2), table.uri, mode=verb)
    lake.table("shop.a").append(rows(3))
    lake.create_namespace("later")
    lake.expire(older_than=0, keep=1)
    lake.gc(dry_run=False, grace=0, window=0)
    for _ in range(2):
        with pytest.raises(IncompatibleConflict, match="prepared on version 2, which has been cleared away"):
            lake.adopt("shop.a")
        lake.gc(dry_run=False, grace=0, window=0)
    assert len(list(lake.store.list(f"{table.row.location}/_foreign"))) == 1
    lake.table("shop.a").append(rows(4))
    assert ids(lake, "shop.a") == [1, 3, 4]


def meanwhile(monkeypatch: pytest.MonkeyPatch, call: str, ending: str, then: Callable[[], object]) -> None:
    """Something happens right before the first call of storage about a path that ends so."""
    usual, waiting = getattr(LocalStore, call), [then]

    def met(self: LocalStore, path: str = "", *rest: Any, **options: Any) -> Any:
        if path.endswith(ending) and waiting:
            waiting.pop()()
        return usual(self, path, *rest, **options)

    monkeypatch.setattr(LocalStore, call, met)


def test_what_the_lake_commits_meanwhile_is_not_foreign(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    lake.table("shop.a").append(rows(1))
    other = seiche.open(lake.store)
    meanwhile(monkeypatch, "names", "_versions", lambda: other.table("shop.a").append(rows(2)))
    assert lake.adopt("shop.a") == []
    assert ids(lake, "shop.a") == [1, 2]
    assert lake.fsck().problems == ()


def test_of_two_who_bring_in_a_foreign_commit_neither_takes_what_the_lake_made_in_its_place(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    foreign_append(lake, 1)
    version = lake.table("shop.a").version + 1
    other = seiche.open(lake.store)
    meanwhile(monkeypatch, "get", Naming.V2.path(version), lambda: other.adopt("shop.a"))
    assert lake.adopt("shop.a") == []
    assert ids(lake, "shop.a") == [1]
    assert lake.fsck().problems == ()


@pytest.mark.parametrize("later", [0, 1, 3])
def test_a_version_that_the_lake_publishes_where_a_foreign_one_was_stays_published(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, later: int
) -> None:
    """Also if somebody else was about to free the name of the foreign one, which he had set aside as well."""
    foreign_append(lake, 1)
    version = lake.table("shop.a").version + 1
    other = seiche.open(lake.store)

    def overtake() -> None:
        other.adopt("shop.a")
        for number in range(later):
            other.table("shop.a").append(rows(2 + number))

    meanwhile(monkeypatch, "delete", Naming.V2.path(version), overtake)
    lake.adopt("shop.a")
    assert lake.fsck().problems == ()
    other.table("shop.a").append(rows(9))
    plain = lance.dataset(other.table("shop.a").uri)
    assert [one["version"] for one in plain.versions()] == list(range(1, plain.version + 1))
    assert ids(lake, "shop.a") == [1, *range(2, 2 + later), 9]


def test_foreign_commits_of_a_table_that_is_released_meanwhile_are_told_what_it_is_now(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    foreign_append(lake, 1)
    meanwhile(monkeypatch, "list", "_foreign", lambda: seiche.open(lake.store).release("shop.a"))
    with pytest.raises(InvalidInput, match="is federated"):
        lake.adopt("shop.a")


def test_later_versions_of_the_lake_are_not_foreign_to_a_handle_that_stays_at_one(lake: Lake) -> None:
    old = seiche.open(lake.store, version=lake.version)
    lake.table("shop.a").append(rows(1))
    with pytest.raises(InvalidInput, match="read-only"):
        old.adopt("shop.a")
    assert lake.fsck().problems == ()
    assert lake.adopt("shop.a") == []
    assert ids(lake, "shop.a") == [1]


def test_foreign_commits_of_a_table_that_is_made_anew_meanwhile_do_not_come_into_the_new_one(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    def anew() -> None:
        with seiche.open(lake.store).transaction() as tx:
            tx.drop_table("shop.a")
            tx.create_table("shop.a", SCHEMA).append(rows(7))

    foreign_append(lake, 1)
    meanwhile(monkeypatch, "list", "_foreign", anew)
    with pytest.raises(RetryableConflict, match="made anew"):
        lake.adopt("shop.a")
    assert (lake.adopt("shop.a"), ids(lake, "shop.a")) == ([], [7])


def test_what_fsck_advises_for_a_foreign_commit_to_a_table_that_was_dropped_works(lake: Lake) -> None:
    lake.table("shop.a").append(rows(1))
    foreign_append(lake, 2)
    before = lake.version
    lake.drop_table("shop.a")
    (found,) = lake.fsck().problems
    assert (found.kind, "brought back first, with `lake.rollback(to, tables=)`" in found.remedy) == (
        "published.foreign",
        True,
    )
    lake.rollback(to=before, tables=["shop.a"])
    lake.adopt("shop.a")
    assert (ids(lake, "shop.a"), lake.fsck().problems) == ([1, 2], ())


def test_rule_6_without_the_fence_plain_writers_get_in(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publish_module, "SEICHE_FENCE", 0)
    lake.table("shop.a").append(rows(1))
    lance.write_dataset(rows(2), lake.table("shop.a").uri, mode="append")
    assert ids(lake, "shop.a") == [1], "and what they write is not part of the lake"


def test_a_published_manifest_that_was_lost_is_published_again(lake: Lake) -> None:
    lake.table("shop.a").append(rows(1))
    table = lake.table("shop.a")
    folder = Path(table.uri.removeprefix("file://")) / "_versions"
    shutil.rmtree(folder)
    Publisher(lake.store, SYSTEM).publish(table.row)
    assert lance.dataset(table.uri, version=table.version).to_table()["id"].to_pylist() == [1]


def test_only_tables_whose_versions_the_lake_numbers_are_adopted(lake: Lake, tmp_path: Path) -> None:
    lance.write_dataset(rows(1), str(tmp_path / "elsewhere.lance"))
    lake.register_table("shop.far", str(tmp_path / "elsewhere.lance"), type="federated")
    lake.create_table("shop.ice", rows(1).schema, format="iceberg")
    for name in ("shop.far", "shop.ice"):
        with pytest.raises(InvalidInput, match=rf"{name} is .* adopted"):
            lake.adopt(name)


def test_what_the_storage_does_not_answer_is_done_again_and_adopted_at_once(lake: Lake) -> None:
    """It was a `CommitUnknown`, without an id, of something that had not been committed."""

    def adopted(plan: dict[int, Fault], new: int) -> SimulatedStore:
        foreign_append(lake, new)
        lake.table("shop.a").append(rows(new + 1))
        foreign_append(lake, new + 2)
        store = SimulatedStore(lake.store, plan=plan)
        assert len(seiche.open(store).adopt("shop.a")) == 2
        return store

    calls = adopted({}, 0).calls
    own = [
        (at, call.verb)
        for at, call in enumerate(calls, 1)
        if call.verb in ("put", "delete") and ("_foreign" in call.path or "_versions" in call.path)
    ]
    assert [verb for _, verb in own].count("put") >= 3
    for new, (number, verb) in enumerate(own, 1):
        assert adopted({number: "before" if verb == "delete" else "lost"}, 10 * new).injected
