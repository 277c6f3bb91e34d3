"""Tables that are not the lake's own: read, written with the weaker promise, and given back to plain writers."""

import shutil
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import lance
import pytest

import seiche
from seiche import AlreadyExists, IncompatibleConflict, InvalidInput, Lake, NotFound, RetryableConflict
from seiche.lake.commit.intent import Intent
from seiche.lake.federated import release as federated_release
from seiche.lake.federated.edit import FederatedEdit
from seiche.lake.federated.release import released
from seiche.lake.federated.tables import ForeignLakeTable
from seiche.lake.lake import open_lake
from seiche.lake.transaction import Transaction
from seiche.store.paths import join
from seiche.store.turns import Turns
from seiche.table.versions.naming import Naming
from tests.unit.lake.conftest import SCHEMA, ids, rows


@pytest.fixture
def other(tmp_path: Path) -> seiche.Table:
    """A plain table that others commit to."""
    made = seiche.Table.create(str(tmp_path / "other.lance"), SCHEMA)
    made.append(rows(1, 2, 3))
    return made


def plain(table: seiche.Table) -> list[int]:
    return sorted(lance.dataset(table.store.native_uri()).to_table()["id"].to_pylist())


def test_an_external_table_is_read_and_nothing_else(lake: Lake, other: seiche.Table) -> None:
    lake.register_table("shop.ext", other.uri)
    table = lake.table("shop.ext")
    assert (ids(lake, "shop.ext"), table.version, table.schema) == ([1, 2, 3], 2, SCHEMA)
    other.append(rows(4))
    assert ids(lake, "shop.ext") == [1, 2, 3, 4], "what others commit is seen"
    assert table.to_lance().count_rows() == 4
    assert table.to_arrow(columns=["id"], filter="id > 3").to_pylist() == [{"id": 4}]
    with pytest.raises(InvalidInput, match="only be read"):
        table.append(rows(5))
    with pytest.raises(InvalidInput, match="only be read"):
        table.delete("true")
    assert table.row.type == "external"
    assert plain(other) == [1, 2, 3, 4]


@pytest.mark.parametrize("verb", ["append", "overwrite", "update", "delete", "merge", "create_index", "compact"])
def test_who_may_only_read_a_table_leaves_no_file_there(lake: Lake, other: seiche.Table, verb: str) -> None:
    other.append(rows(4))
    table = lake.register_table("shop.ext", other.uri)
    verbs: dict[str, Callable[[], object]] = {
        "append": lambda: table.append(rows(5)),
        "overwrite": lambda: table.overwrite(rows(5)),
        "update": lambda: table.update({"id": "id + 1"}),
        "delete": lambda: table.delete("id = 1"),
        "merge": lambda: table.merge(rows(1), on="id").when_matched_update_all().execute(),
        "create_index": lambda: table.create_index("id"),
        "compact": table.compact,
    }
    folder = Path(other.store.native_uri())
    before = sorted(folder.rglob("*"))
    with pytest.raises(InvalidInput, match="only be read"):
        verbs[verb]()
    assert sorted(folder.rglob("*")) == before


def test_an_external_table_at_a_version(lake: Lake, other: seiche.Table) -> None:
    lake.register_table("shop.ext", str(other.store.native_uri()), version=2)
    other.append(rows(4))
    assert (ids(lake, "shop.ext"), lake.table("shop.ext").version) == ([1, 2, 3], 2)


def test_a_transaction_goes_on_seeing_what_it_saw_first(lake: Lake, other: seiche.Table) -> None:
    lake.register_table("shop.fed", other.uri, type="federated")
    tx = lake.transaction()
    assert tx.table("shop.fed").to_arrow().num_rows == 3
    other.append(rows(4))
    assert tx.table("shop.fed").to_arrow().num_rows == 3
    tx.append("shop.fed", rows(5))
    assert tx.table("shop.fed").to_arrow().num_rows == 4, "and its own changes"
    assert plain(other) == [1, 2, 3, 4], "nobody else sees those yet"
    tx.append("shop.a", rows(5))
    tx.commit()
    assert plain(other) == [1, 2, 3, 4, 5]
    assert ids(lake, "shop.a") == [5]


@pytest.mark.parametrize("verb", ["append", "delete", "update", "merge", "overwrite", "index", "compact"])
def test_every_verb_of_a_federated_table(lake: Lake, other: seiche.Table, verb: str) -> None:
    lake.register_table("shop.fed", other.uri, type="federated")
    table = lake.table("shop.fed")
    expected = [1, 2, 3]
    match verb:
        case "append":
            table.append(rows(4))
            expected = [1, 2, 3, 4]
        case "delete":
            table.delete("id = 2")
            expected = [1, 3]
        case "update":
            table.update({"n": "7"}, where="id = 2")
            assert lake.table("shop.fed").to_arrow(filter="n = 7")["id"].to_pylist() == [2]
        case "merge":
            table.merge(rows(3, 9, n=1), on="id").when_matched_update_all().when_not_matched_insert_all().execute()
            expected = [1, 2, 3, 9]
        case "overwrite":
            table.overwrite(rows(8))
            expected = [8]
        case "index":
            table.create_index("id", "BTREE")
            assert lance.dataset(other.store.native_uri()).describe_indices()[0].name == "id_idx"
        case "compact":
            other.append(rows(4))
            table.compact()
            expected = [1, 2, 3, 4]
            assert len(lance.dataset(other.store.native_uri()).get_fragments()) == 1
    assert plain(other) == expected == ids(lake, "shop.fed")
    assert lake.table("shop.fed").row.table_version == other.version


def test_what_others_commit_meanwhile_is_rebased_over_or_a_conflict(lake: Lake, other: seiche.Table) -> None:
    lake.register_table("shop.fed", other.uri, type="federated")
    tx = lake.transaction()
    tx.delete("shop.fed", "id = 1")
    other.append(rows(4))
    other.delete("id = 2")
    tx.commit()
    assert plain(other) == [3, 4]
    tx = lake.transaction()
    tx.append("shop.a", rows(1))
    tx.delete("shop.fed", "id = 3")
    other.update({"n": "1"}, where="id = 3")
    with pytest.raises(RetryableConflict):
        tx.commit()
    assert (plain(other), ids(lake, "shop.a")) == ([3, 4], []), "nothing happened anywhere"
    tx = lake.transaction()
    tx.delete("shop.fed", "id = 3")
    other.overwrite(rows(7))
    with pytest.raises(IncompatibleConflict):
        tx.commit()


def test_what_is_overwritten_after_it_was_read_must_still_be_so(lake: Lake, other: seiche.Table) -> None:
    lake.register_table("shop.fed", other.uri, type="federated")
    tx = lake.transaction()
    tx.overwrite("shop.fed", tx.table("shop.fed").to_arrow(filter="id > 1"))
    other.append(rows(4))
    with pytest.raises(RetryableConflict, match="others have committed since"):
        tx.commit()
    lake.run(lambda tx: tx.overwrite("shop.fed", tx.table("shop.fed").to_arrow(filter="id > 1")))
    assert plain(other) == [2, 3, 4]
    tx = lake.transaction()
    tx.overwrite("shop.fed", rows(9))
    other.append(rows(5))
    tx.commit()
    assert plain(other) == [9], "one that read nothing replaces whatever is there"


def test_other_tables_are_checked_first(lake: Lake, other: seiche.Table) -> None:
    """A conflict in the lake that is there to be found leaves the federated table as it was."""
    lake.register_table("shop.fed", other.uri, type="federated")
    lake.table("shop.a").append(rows(1))
    tx = lake.transaction()
    tx.append("shop.fed", rows(4))
    tx.delete("shop.a", "id = 1")
    lake.table("shop.a").delete("id = 1")
    with pytest.raises(RetryableConflict):
        tx.commit()
    assert plain(other) == [1, 2, 3]


def lose_the_root(lake: Lake, monkeypatch: pytest.MonkeyPatch, between: object) -> None:
    """Let something happen right after the federated commit, before the root is put."""
    commit = FederatedEdit._commit

    def slow(self: FederatedEdit, *arguments: object) -> int:
        version = commit(self, *arguments)  # type: ignore[arg-type]
        monkeypatch.setattr(FederatedEdit, "_commit", commit)
        between()  # type: ignore[operator]
        return version

    monkeypatch.setattr(FederatedEdit, "_commit", slow)


def test_a_lost_race_for_the_root_does_not_do_it_twice(
    lake: Lake, other: seiche.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake.register_table("shop.fed", other.uri, type="federated")
    second = seiche.open(lake.uri)
    lose_the_root(lake, monkeypatch, lambda: second.table("shop.b").append(rows(1)))
    with lake.transaction() as tx:
        tx.append("shop.fed", rows(4))
        tx.append("shop.a", rows(4))
    assert (plain(other), ids(lake, "shop.a"), ids(lake, "shop.b")) == ([1, 2, 3, 4], [4], [1])


def test_a_refused_root_is_told_and_the_same_key_does_not_do_it_twice(
    lake: Lake, other: seiche.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake.register_table("shop.fed", other.uri, type="federated")
    lake.table("shop.a").append(rows(1))
    second = seiche.open(lake.uri)
    lose_the_root(lake, monkeypatch, lambda: second.table("shop.a").delete("id = 1"))
    calls = 0

    def work(tx: Transaction) -> None:
        nonlocal calls
        calls += 1
        tx.append("shop.fed", rows(4))
        tx.update("shop.a", {"n": "n + 1"}, where="id = 1")

    with pytest.raises(IncompatibleConflict, match=r"version 3 of shop\.fed had been made") as caught:
        lake.run(work, key="once")
    assert (calls, caught.value.details["federated"]) == (1, {"shop.fed": 3}), "not tried again by itself"
    assert (plain(other), ids(lake, "shop.a")) == ([1, 2, 3, 4], [])
    table = lake.table("shop.fed")
    assert isinstance(table, ForeignLakeTable)
    transaction = str(caught.value.details["transaction_id"])
    assert (lake.status(transaction).outcome, table.version_made_by(transaction)) == ("undecided", 3)
    lake.run(work, key="once")
    assert plain(other) == [1, 2, 3, 4], "found its own commit"
    assert lake.status(transaction).outcome == "committed"
    lake.run(work, key="once")
    assert plain(other) == [1, 2, 3, 4]


def test_what_a_crash_before_the_root_leaves_is_finished_by_the_same_key(
    lake: Lake, other: seiche.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Died(BaseException):
        pass

    def die() -> None:
        raise Died

    lake.register_table("shop.fed", other.uri, type="federated")
    lose_the_root(lake, monkeypatch, die)
    for number in range(2):
        tx = seiche.open(lake.uri).transaction(key="once")
        tx.append("shop.fed", rows(4))
        tx.append("shop.a", rows(4))
        if number:
            tx.commit()
        else:
            with pytest.raises(Died):
                tx.commit()
            assert (plain(other), ids(lake, "shop.a")) == ([1, 2, 3, 4], []), "this is what can be seen in between"
    assert (plain(other), ids(lake, "shop.a")) == ([1, 2, 3, 4], [4])


def test_one_change_of_rows_or_several_appends(lake: Lake, other: seiche.Table) -> None:
    lake.register_table("shop.fed", other.uri, type="federated")
    with lake.transaction() as tx:
        tx.append("shop.fed", rows(4))
        tx.append("shop.fed", rows(5))
        with pytest.raises(InvalidInput, match="one change"):
            tx.delete("shop.fed", "id = 1")
        assert tx.table("shop.fed").to_arrow().num_rows == 5, "the statement left everything as it was"
        with pytest.raises(InvalidInput, match="cannot be saved"):
            tx.save()
    assert plain(other) == [1, 2, 3, 4, 5]


def test_a_transaction_changes_a_table_under_one_of_its_names(lake: Lake, other: seiche.Table) -> None:
    """Two commits there would be half of the change if the second is refused."""
    lake.register_table("shop.one", other.uri, type="federated")
    lake.register_table("shop.two", f"{other.uri}/", type="federated")
    files = len(list(other.store.list()))
    with lake.transaction() as tx:
        tx.delete("shop.one", "id = 1")
        written = len(list(other.store.list()))
        with pytest.raises(InvalidInput, match=r"shop\.two and shop\.one are two names of one table"):
            tx.append("shop.two", rows(4))
        assert len(list(other.store.list())) == written > files
        assert tx.table("shop.two").count_rows() == 3
    assert plain(other) == [2, 3]
    with lake.transaction() as tx:
        tx.drop_table("shop.one")
        tx.append("shop.two", rows(4))
    assert plain(other) == [2, 3, 4]


def test_a_change_is_not_lost_with_the_name_that_it_was_made_under(lake: Lake, other: seiche.Table) -> None:
    """The table stays when its name is dropped: who appended to it was told that the rows are there."""
    lake.register_table("shop.fed", other.uri, type="federated")
    with lake.transaction() as tx:
        tx.append("shop.fed", rows(4))
        tx.rename_table("shop.fed", "shop.x")
        with pytest.raises(InvalidInput, match=r"shop\.x, a federated table, and cannot drop"):
            tx.drop_table("shop.x")
    assert (plain(other), ids(lake, "shop.x")) == ([1, 2, 3, 4], [1, 2, 3, 4])
    with lake.transaction() as tx:
        assert tx.table("shop.x").count_rows() == 4
        tx.drop_table("shop.x")
    assert plain(other) == [1, 2, 3, 4]


@pytest.mark.parametrize("type", ["external", "federated"])
def test_a_transaction_that_gave_a_table_its_name_and_was_saved_still_sees_it(
    lake: Lake,
    other: seiche.Table,
    type: str,  # noqa: A002 - the word for it
) -> None:
    tx = lake.transaction()
    tx.register_table("shop.x", other.uri, type)  # type: ignore[arg-type]
    resumed = lake.resume(tx.save())
    assert resumed.table("shop.x").to_arrow()["id"].to_pylist() == [1, 2, 3]
    if type == "federated":
        resumed.append("shop.x", rows(4))
    resumed.commit()
    assert ids(lake, "shop.x") == plain(other) == [1, 2, 3] + [4] * (type == "federated")


def test_a_change_of_rows_goes_with_nothing_else(lake: Lake, other: seiche.Table) -> None:
    """Otherwise an index over rows of its own would answer for rows of others that got their number, and deletions
    from compacted fragments would be lost.
    """
    lake.register_table("shop.fed", other.uri, type="federated")
    other.append(rows(4))
    with lake.transaction() as tx:
        table = tx.table("shop.fed")
        table.append(rows(5))
        with pytest.raises(InvalidInput, match="nothing else with them"):
            table.create_index("id", "BTREE")
        with pytest.raises(InvalidInput, match="nothing else with them"):
            table.compact()
        other.append(rows(6))
    with lake.transaction() as tx:
        tx.table("shop.fed").compact()
        with pytest.raises(InvalidInput, match="nothing else with them") as caught:
            tx.delete("shop.fed", "id = 1")
    assert "adopt" not in caught.value.remedy
    assert plain(other) == [1, 2, 3, 4, 5, 6]
    assert len(lance.dataset(other.store.native_uri()).get_fragments()) == 1


def test_a_compaction_while_others_append(lake: Lake, other: seiche.Table) -> None:
    lake.register_table("shop.fed", other.uri, type="federated")
    other.append(rows(4))
    with lake.transaction() as tx:
        tx.table("shop.fed").compact()
        other.append(rows(5))
    assert plain(other) == [1, 2, 3, 4, 5]
    assert [one.count_rows() for one in lance.dataset(other.store.native_uri()).get_fragments()] == [1, 4]


def test_what_is_made_before_another_part_fails_is_told(lake: Lake, other: seiche.Table) -> None:
    lake.register_table("shop.fed", other.uri, type="federated")
    tx = lake.transaction()
    tx.table("shop.fed").create_index("id", "BTREE")
    tx.table("shop.fed").update_config({"owner": "us"})
    other.update_config({"owner": "them"})
    with pytest.raises(IncompatibleConflict, match=r"version 4 of shop\.fed had been made"):
        tx.commit()
    assert [one.name for one in lance.dataset(other.store.native_uri()).describe_indices()] == ["id_idx"]


@pytest.mark.parametrize("verb", ["append", "delete", "overwrite"])
def test_who_is_overtaken_by_a_clean_up_there_begins_again(lake: Lake, other: seiche.Table, verb: str) -> None:
    do: Callable[[Transaction], object] = {
        "append": lambda tx: tx.append("shop.other", rows(9)),
        "delete": lambda tx: tx.delete("shop.other", "id = 2"),
        "overwrite": lambda tx: tx.table("shop.other").overwrite(rows(9)),
    }[verb]
    lake.register_table("shop.other", other.uri, type="federated")
    tx = lake.transaction()
    assert tx.table("shop.other").to_arrow().num_rows == 3
    do(tx)
    _overtake(other)
    with pytest.raises(RetryableConflict, match=r"shop\.other: version 2, .* has been cleaned up") as caught:
        tx.commit()
    assert isinstance(caught.value.__cause__, seiche.Corrupt)
    lake.run(do)


def test_what_was_cleaned_up_before_it_was_read_is_a_conflict_too(lake: Lake, other: seiche.Table) -> None:
    lake.register_table("shop.other", other.uri, type="federated")
    tx = lake.transaction()
    table = tx.table("shop.other")
    assert table.schema == SCHEMA
    _overtake(other)
    for look in (table.to_arrow, table.to_lance, lambda: tx.delete("shop.other", "id = 2")):
        with pytest.raises(RetryableConflict, match="has been cleaned up"):
            look()


def test_a_file_that_is_missing_there_is_no_conflict(lake: Lake, other: seiche.Table) -> None:
    lake.register_table("shop.other", other.uri, type="federated")
    for one in list(other.store.list("data")):
        other.store.delete(one.path)
    with pytest.raises(NotFound, match=r"data/"):
        lake.table("shop.other").to_arrow()


def _overtake(other: seiche.Table) -> None:
    """Others go on, and remove what came before."""
    other.append(rows(7))
    other.append(rows(8))
    lance.dataset(other.uri.removeprefix("file://")).cleanup_old_versions(timedelta(0))


def test_names_rows_and_care(lake: Lake, other: seiche.Table) -> None:
    lake.register_table("shop.fed", other.uri, type="federated", properties={"owner": "them"})
    version = lake.version
    lake.table("shop.fed").append(rows(4))
    lake.rename_table("shop.fed", "shop.x")
    assert ids(lake, "shop.x") == [1, 2, 3, 4]
    assert [str(one) for one in lake.log()[0].objects]
    assert lake.diff(version, lake.version).objects
    lake.rollback(version)
    assert ids(lake, "shop.fed") == [1, 2, 3, 4], "its content is not the lake's to roll back"
    lake.expire(older_than=0, keep=1)
    lake.gc(dry_run=False, grace=0, window=0)
    assert lake.fsck().ok
    assert lake.health().tables
    lake.drop_table("shop.fed")
    lake.expire(older_than=0, keep=1)
    lake.gc(dry_run=False, grace=0, window=0)
    assert plain(other) == [1, 2, 3, 4], "dropping the name leaves the table"


def test_nonsense_is_refused(lake: Lake, other: seiche.Table, tmp_path: Path) -> None:
    version = lake.version
    with pytest.raises(NotFound):
        lake.register_table("shop.x", str(tmp_path / "nothing"))
    with pytest.raises(InvalidInput, match="type"):
        lake.register_table("shop.x", other.uri, type="managed")
    with pytest.raises(InvalidInput, match="version"):
        lake.register_table("shop.x", other.uri, type="federated", version=1)
    with pytest.raises(AlreadyExists):
        lake.register_table("shop.a", other.uri)
    with pytest.raises(InvalidInput, match="inside of the lake"):
        lake.register_table("shop.x", lake.table("shop.a").uri)
    managed = seiche.create(str(tmp_path / "second"))
    managed.create_namespace("n")
    managed.create_table("n.t", SCHEMA)
    with pytest.raises(InvalidInput, match="managed by a lake"):
        lake.register_table("shop.x", managed.table("n.t").uri, type="federated")
    assert lake.version == version
    lake.register_table("shop.x", managed.table("n.t").uri)
    assert ids(lake, "shop.x") == []


def test_before_anything_is_done_elsewhere_the_newest_version_is_looked_for(lake: Lake, other: seiche.Table) -> None:
    lake.register_table("shop.fed", other.uri, type="federated")
    tx = lake.transaction()
    tx.append("shop.fed", rows(4))
    open_lake(lake.store).drop_table("shop.fed")
    with pytest.raises(RetryableConflict, match="dropped"):
        tx.commit()
    assert plain(other) == [1, 2, 3]


@pytest.mark.parametrize("appends", [0, 1, 2])
def test_a_federated_table_that_is_made_anew_meanwhile_is_not_given_files_of_the_old_one(
    lake: Lake, other: seiche.Table, appends: int
) -> None:
    """With as many versions it took the commit, and could not be read any more."""
    lake.register_table("shop.fed", other.uri, type="federated")
    tx = lake.transaction()
    tx.append("shop.fed", rows(9))
    tx.append("shop.a", rows(9))
    place = Path(other.store.native_uri())
    shutil.rmtree(place)
    anew = seiche.Table.create(str(place), SCHEMA)
    for number in range(appends):
        anew.append(rows(11 + number))
    with pytest.raises(IncompatibleConflict, match="another one lies at its place"):
        tx.commit()
    assert (plain(anew), ids(lake, "shop.a")) == (list(range(11, 11 + appends)), [])
    lake.table("shop.fed").append(rows(9))
    assert plain(anew) == [9, *range(11, 11 + appends)]


def test_a_released_table_belongs_to_plain_writers(lake: Lake) -> None:
    lake.table("shop.a").append(rows(1))
    lake.table("shop.a").append(rows(2))
    slow = lake.transaction()
    slow.append("shop.a", rows(9))
    with pytest.raises(OSError, match="cannot be written"):
        lance.write_dataset(rows(3), lake.table("shop.a").uri, mode="append")
    uri = lake.release("shop.a")
    with pytest.raises(RetryableConflict, match="type federated"):
        slow.commit()
    lance.write_dataset(rows(3), uri, mode="append")
    assert ids(lake, "shop.a") == [1, 2, 3]
    lake.table("shop.a").append(rows(4))
    assert sorted(lance.dataset(uri).to_table()["id"].to_pylist()) == [1, 2, 3, 4]
    assert lake.table("shop.a").row.type == "federated"
    with pytest.raises(InvalidInput, match="type managed"):
        lake.rollback(3)
    assert lake.fsck().problems == (), "versions from before do not make a foreign commit of it"
    lake.expire(older_than=0, keep=1)
    done = lake.gc(dry_run=False, grace=0, window=0)
    assert list(done.closed) == list(released(lake.state()))
    assert ids(lake, "shop.a") == [1, 2, 3, 4], "its files are not the lake's to clear away"
    assert lake.release("shop.a") == uri, "once more does no harm"


def test_a_commit_to_a_released_table_does_not_wait_for_itself(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """It makes a version of the table inside of the commit to the lake, and both take turns at the lake's folder."""
    lake.release("shop.a")
    monkeypatch.setattr(Turns, "wait", lambda *given: pytest.fail("it waits"))
    lake.table("shop.a").append(rows(1))
    assert ids(lake, "shop.a") == [1]


def test_a_handle_from_before_the_release_says_what_the_table_is_now(lake: Lake) -> None:
    table = lake.table("shop.a")
    table.append(rows(1))
    lake.release("shop.a")
    asked: dict[str, Callable[[], object]] = {
        "uri": lambda: table.uri,
        "versions": table.versions,
        "changes": lambda: table.changes(0),
        "to_lance": table.to_lance,
    }
    for what, ask in asked.items():
        with pytest.raises(InvalidInput, match="by now a federated table") as told:
            ask()
        assert "lake.table('shop.a')" in told.value.remedy, what
    assert table.to_arrow()["id"].to_pylist() == [1], "rows are found by the name"
    assert [one.version for one in lake.table("shop.a").versions()] == [1, 2]


def test_a_handle_of_a_federated_table_does_not_look_for_one_of_the_lake_in_the_working_directory(
    lake: Lake, other: seiche.Table
) -> None:
    lake.register_table("shop.fed", other.uri, type="federated")
    table = lake.table("shop.fed")
    lake.drop_table("shop.fed")
    lake.create_table("shop.fed", SCHEMA)
    asked: dict[str, Callable[[], object]] = {
        "version": lambda: table.version,
        "uri": lambda: table.uri,
        "versions": table.versions,
        "to_lance": table.to_lance,
    }
    for ask in asked.values():
        with pytest.raises(InvalidInput, match="by now a managed table of format lance"):
            ask()


def test_a_released_table_that_the_lake_forgets_stays_where_it_is(lake: Lake) -> None:
    lake.table("shop.a").append(rows(1))
    uri = lake.release("shop.a", drop=True)
    assert lake.tables("shop") == [("shop", "b")]
    assert lake.fsck().problems == ()
    lake.expire(older_than=0, keep=1)
    lake.gc(dry_run=False, grace=0, window=0)
    lance.write_dataset(rows(2), uri, mode="append")
    assert lance.dataset(uri).count_rows() == 2
    lake.register_table("shop.again", uri, type="federated")
    assert ids(lake, "shop.again") == [1, 2]


def test_what_was_not_published_yet_is_released_too(lake: Lake) -> None:
    lake.table("shop.a").append(rows(1))
    row = lake.table("shop.a").row
    lake.store.delete(join(row.location, Naming.V2.path(row.table_version)))  # as if its writer had died before that
    lake = open_lake(lake.store)
    uri = lake.release("shop.a")
    assert lance.dataset(uri).to_table()["id"].to_pylist() == ids(lake, "shop.a") == [1]


def test_a_table_that_has_got_the_name_meanwhile_is_not_released(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would be marked as given away, and stay closed to plain writers."""
    decide, other = type(lake).decide, open_lake(lake.store)

    def late(self: Lake, intent: Intent) -> int:
        if isinstance(intent, federated_release.Releasing):
            other.drop_table("shop.a")
            other.create_table("shop.a", SCHEMA)
            other.table("shop.a").append(rows(7))
        return decide(self, intent)

    monkeypatch.setattr(type(lake), "decide", late)
    with pytest.raises(RetryableConflict, match="another table has the name by now"):
        lake.release("shop.a")
    assert (lake.table("shop.a").row.type, ids(lake, "shop.a"), released(lake.state())) == ("managed", [7], {})


def test_a_released_table_can_be_forgotten_later(lake: Lake) -> None:
    uri = lake.release("shop.a")
    assert lake.release("shop.a", drop=True) == uri
    assert lake.tables("shop") == [("shop", "b")]
    assert lance.dataset(uri).count_rows() == 0


def test_a_table_is_forgotten_only_when_plain_writers_are_let_in(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    class Died(BaseException):
        pass

    def dies(*_: object) -> None:
        raise Died

    lake.table("shop.a").append(rows(1))
    with monkeypatch.context() as patch:
        patch.setattr(federated_release, "_open", dies)
        with pytest.raises(Died):
            lake.release("shop.a", drop=True)
    uri = lake.release("shop.a", drop=True)
    assert lake.tables("shop") == [("shop", "b")]
    lance.write_dataset(rows(2), uri, mode="append")
    assert sorted(lance.dataset(uri).to_table()["id"].to_pylist()) == [1, 2]


def test_a_release_that_dies_is_finished_by_the_next(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    lake.table("shop.a").append(rows(1))
    opening = federated_release._open
    monkeypatch.setattr(federated_release, "_open", lambda *_: None)
    uri = lake.release("shop.a")
    with pytest.raises(InvalidInput, match="release"):
        lake.table("shop.a").append(rows(2))
    with pytest.raises(OSError, match="cannot be written"):
        lance.write_dataset(rows(2), uri, mode="append")
    assert ids(lake, "shop.a") == [1], "everybody can read"
    monkeypatch.setattr(federated_release, "_open", opening)
    lake.release("shop.a")
    lance.write_dataset(rows(2), uri, mode="append")
    assert ids(lake, "shop.a") == [1, 2]


def test_without_the_note_a_clean_up_takes_a_released_table(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """The planted fault: what the note prevents."""
    from seiche.lake.care import gc

    monkeypatch.setattr(gc, "released", lambda _state: {})
    lake.table("shop.a").append(rows(1))
    uri = lake.release("shop.a", drop=True)
    lake.expire(older_than=0, keep=1)
    lake.gc(dry_run=False, grace=0, window=0)
    with pytest.raises((ValueError, OSError)):
        lance.dataset(uri).to_table()
