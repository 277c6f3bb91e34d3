"""Iceberg tables that are not the lake's own, with the real PyIceberg on the other side."""

import gc
import gzip
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.exceptions import CommitFailedException, CommitStateUnknownException, ForbiddenError
from pyiceberg.table import StaticTable, Table

import seiche
from seiche import (
    AlreadyExists,
    CommitUnknown,
    IncompatibleConflict,
    InvalidInput,
    Lake,
    NotFound,
    PermissionDenied,
    RetryableConflict,
    Unavailable,
)
from seiche.core.retry import Patience
from seiche.lake.iceberg.foreign import edit as foreign_edit
from seiche.lake.iceberg.foreign.catalog import CatalogSource
from seiche.lake.iceberg.foreign.edit import ForeignEdit
from seiche.lake.iceberg.foreign.tables import ForeignIcebergTable
from seiche.lake.iceberg.metadata import last_number
from seiche.lake.transaction import Transaction
from tests.unit.lake.conftest import SCHEMA, ids, rows


class Place:
    """An Iceberg table of others: how they name it, read it and append to it."""

    location: str
    options: dict[str, Any]

    def table(self) -> Table:
        raise NotImplementedError

    def append(self, *numbers: int) -> None:
        raise NotImplementedError

    def ids(self) -> list[int]:
        return sorted(self.table().scan().to_arrow()["id"].to_pylist())


class InCatalog(Place):
    """In a catalog of PyIceberg's own."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.properties = {"type": "sql", "uri": f"sqlite:///{folder}/c.db", "warehouse": f"file://{folder}"}
        self.catalog = load_catalog("theirs", **self.properties)
        self.catalog.create_namespace("n")
        self.catalog.create_table("n.t", SCHEMA).append(rows(1, 2, 3))
        self.location, self.options = "n.t", {"catalog": {"name": "theirs", **self.properties}}

    def table(self) -> Table:
        return self.catalog.load_table("n.t")

    def append(self, *numbers: int) -> None:
        self.table().append(rows(*numbers))


class InFolder(Place):
    """In a folder whose metadata files are numbered, as Hadoop's tables are."""

    def __init__(self, folder: Path) -> None:
        made = InCatalog(folder)
        metadata = folder / "n" / "t" / "metadata"
        first = Path(made.table().metadata_location.removeprefix("file://"))
        made.catalog.close()
        os.link(first, metadata / "v1.metadata.json")
        (metadata / "version-hint.text").write_text("1")
        self.location, self.options = f"file://{folder}/n/t", {}

    def table(self) -> Table:
        return StaticTable.from_metadata(self.location)

    def append(self, *numbers: int) -> None:
        """Somebody else who keeps to the rule: here, a second lake."""
        folder = Path(self.location.removeprefix("file://"))
        other = seiche.create(str(folder.parent / f"lake-{numbers}"))
        other.create_namespace("n")
        other.register_table("n.t", self.location, type="federated", format="iceberg")
        other.table("n.t").append(rows(*numbers))


@pytest.fixture(params=["catalog", "folder"])
def other(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    made = (InCatalog if request.param == "catalog" else InFolder)(tmp_path / "theirs")
    yield made
    if isinstance(made, InCatalog):
        made.catalog.close()


@pytest.fixture
def theirs(tmp_path: Path) -> Iterator[InCatalog]:
    made = InCatalog(tmp_path / "theirs")
    yield made
    made.catalog.close()


def federate(lake: Lake, other: Place, name: str = "shop.fed") -> ForeignIcebergTable:
    table = lake.register_table(name, other.location, type="federated", format="iceberg", **other.options)
    assert isinstance(table, ForeignIcebergTable)
    return table


def test_an_external_table_is_read_and_nothing_else(lake: Lake, other: Place) -> None:
    table = lake.register_table("shop.ext", other.location, format="iceberg", **other.options)
    assert (ids(lake, "shop.ext"), table.row.type, table.schema.names) == ([1, 2, 3], "external", SCHEMA.names)
    other.append(4)
    assert ids(lake, "shop.ext") == [1, 2, 3, 4], "what others commit is seen"
    assert table.to_arrow(columns=["id"], filter="id > 3").to_pylist() == [{"id": 4}]
    assert table.to_iceberg().scan().to_arrow().num_rows == 4
    before = sorted(str(one) for one in Path(table.uri.removeprefix("file://")).rglob("*"))
    for verb, given in (("append", rows(5)), ("delete", "id = 77"), ("overwrite", rows(1))):
        with pytest.raises(InvalidInput, match="only be read"):
            getattr(table, verb)(given)
    with pytest.raises(InvalidInput, match="only be read"):
        table.to_iceberg().append(rows(5))
    with pytest.raises(InvalidInput, match="only be read"):
        lake.run(lambda tx: tx.set_properties("shop.ext", {"a": "b"}))
    assert sorted(str(one) for one in Path(table.uri.removeprefix("file://")).rglob("*")) == before, "not even a file"
    assert other.ids() == [1, 2, 3, 4]


def test_an_external_table_at_a_snapshot_or_a_metadata_file(lake: Lake, theirs: InCatalog) -> None:
    now = theirs.table()
    snapshot = now.metadata.current_snapshot_id
    lake.register_table("shop.at", "n.t", format="iceberg", version=snapshot, **theirs.options)
    lake.register_table("shop.file", now.metadata_location, format="iceberg")
    theirs.append(4)
    assert (ids(lake, "shop.at"), ids(lake, "shop.file")) == ([1, 2, 3], [1, 2, 3])
    with pytest.raises(InvalidInput, match="always at its newest"):
        lake.register_table("shop.x", now.metadata_location, type="federated", format="iceberg")
    with pytest.raises(NotFound, match="no snapshot 7"):
        lake.register_table("shop.x", "n.t", format="iceberg", version=7, **theirs.options)


@pytest.mark.parametrize("name", ["v2.gz.metadata.json", "v2.metadata.json.gz"])
def test_metadata_may_be_packed_under_either_name(lake: Lake, theirs: InCatalog, name: str) -> None:
    def packed(to: str) -> Path:
        found = Path(theirs.table().metadata_location.removeprefix("file://"))
        (found.parent / to).write_bytes(gzip.compress(found.read_bytes()))
        return found.parent / to

    packed("v1.metadata.json")
    theirs.append(4)
    newest = packed(name)
    lake.register_table("shop.folder", str(newest.parent.parent), format="iceberg")
    lake.register_table("shop.file", str(newest), format="iceberg")
    assert (ids(lake, "shop.folder"), ids(lake, "shop.file")) == ([1, 2, 3, 4], [1, 2, 3, 4])


def test_a_transaction_goes_on_seeing_what_it_saw_first(lake: Lake, other: Place) -> None:
    federate(lake, other)
    tx = lake.transaction()
    assert tx.table("shop.fed").to_arrow().num_rows == 3
    other.append(4)
    assert tx.table("shop.fed").to_arrow().num_rows == 3
    tx.append("shop.fed", rows(5))
    tx.append("shop.fed", rows(6))
    assert tx.table("shop.fed").to_arrow().num_rows == 5, "and its own changes"
    assert other.ids() == [1, 2, 3, 4], "nobody else sees those yet"
    tx.append("shop.a", rows(5))
    tx.commit()
    assert other.ids() == [1, 2, 3, 4, 5, 6]
    assert (ids(lake, "shop.a"), ids(lake, "shop.fed")) == ([5], [1, 2, 3, 4, 5, 6])


@pytest.mark.parametrize(
    ("other", "verb"),
    [
        *(("catalog", verb) for verb in ("append", "delete", "overwrite", "merge", "engine", "schema", "properties")),
        *(("folder", verb) for verb in ("append", "engine", "schema")),
    ],
    indirect=["other"],
)
def test_every_verb_of_a_federated_table(lake: Lake, other: Place, verb: str) -> None:
    table = federate(lake, other)
    expected = [1, 2, 3]
    match verb:
        case "append":
            table.append(rows(4))
            expected = [1, 2, 3, 4]
        case "delete":
            table.delete("id = 2")
            expected = [1, 3]
        case "overwrite":
            table.overwrite(rows(8), where="id < 3")
            expected = [3, 8]
        case "merge":
            table.merge(rows(3, 9, n=1), on="id").when_matched_update_all().when_not_matched_insert_all().execute()
            expected = [1, 2, 3, 9]
        case "engine":
            with lake.transaction() as tx:
                tx.table("shop.fed").to_iceberg().append(rows(4))
                tx.table("shop.fed").to_iceberg().delete("id = 1")
                tx.append("shop.a", rows(1))
            expected = [2, 3, 4]
        case "schema":
            with table.to_iceberg().update_schema() as update:
                update.add_column("extra", pyiceberg_string())
            assert other.table().schema().column_names[-1] == "extra"
        case "properties":
            lake.run(lambda tx: tx.set_properties("shop.fed", {"owner": "them"}))
            assert other.table().properties["owner"] == "them"
    assert other.ids() == expected == ids(lake, "shop.fed")
    assert lake.table("shop.fed").row.table_version == last_number(other.table().metadata)


def pyiceberg_string() -> Any:
    from pyiceberg.types import StringType

    return StringType()


def test_what_others_commit_meanwhile_is_rebased_over_or_a_conflict(lake: Lake, other: Place) -> None:
    federate(lake, other)
    tx = lake.transaction()
    tx.append("shop.fed", rows(4))
    other.append(5)
    tx.commit()
    assert other.ids() == [1, 2, 3, 4, 5]
    tx = lake.transaction()
    tx.append("shop.a", rows(1))
    tx.delete("shop.fed", "id = 3")
    other.append(6)
    with pytest.raises(RetryableConflict):
        tx.commit()
    assert (other.ids(), ids(lake, "shop.a")) == ([1, 2, 3, 4, 5, 6], []), "nothing happened anywhere"
    lake.run(lambda tx: tx.delete("shop.fed", "id = 3"))
    assert other.ids() == [1, 2, 4, 5, 6]


def test_a_transaction_changes_a_table_under_one_of_its_names(lake: Lake, other: Place) -> None:
    for name in ("shop.one", "shop.two"):
        lake.register_table(name, other.location, type="federated", format="iceberg", **other.options)
    with lake.transaction() as tx:
        tx.delete("shop.one", "id = 1")
        with pytest.raises(InvalidInput, match=r"shop\.two and shop\.one are two names of one table"):
            tx.delete("shop.two", "id = 2")
    assert other.ids() == [2, 3]


def test_other_tables_are_checked_first(lake: Lake, other: Place) -> None:
    federate(lake, other)
    lake.table("shop.a").append(rows(1))
    tx = lake.transaction()
    tx.append("shop.fed", rows(4))
    tx.delete("shop.a", "id = 1")
    lake.table("shop.a").delete("id = 1")
    with pytest.raises(RetryableConflict):
        tx.commit()
    assert other.ids() == [1, 2, 3]


def afterwards(monkeypatch: pytest.MonkeyPatch, between: Callable[[], object]) -> None:
    """Let something happen right after the commit there, before the root is put."""
    commit = ForeignEdit._commit

    def slow(self: ForeignEdit, *arguments: Any) -> None:
        commit(self, *arguments)
        monkeypatch.setattr(ForeignEdit, "_commit", commit)
        between()

    monkeypatch.setattr(ForeignEdit, "_commit", slow)


def test_a_lost_race_for_the_root_does_not_do_it_twice(
    lake: Lake, other: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    federate(lake, other)
    second = seiche.open(lake.uri)
    afterwards(monkeypatch, lambda: second.table("shop.b").append(rows(1)))
    with lake.transaction() as tx:
        tx.append("shop.fed", rows(4))
        tx.append("shop.a", rows(4))
    assert (other.ids(), ids(lake, "shop.a"), ids(lake, "shop.b")) == ([1, 2, 3, 4], [4], [1])


@pytest.mark.parametrize(("other", "what"), [("catalog", "append"), ("folder", "properties")], indirect=["other"])
def test_a_refused_root_is_told_and_the_same_key_does_not_do_it_twice(
    lake: Lake, other: Place, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    table = federate(lake, other)
    lake.table("shop.a").append(rows(1))
    second = seiche.open(lake.uri)
    afterwards(monkeypatch, lambda: second.table("shop.a").delete("id = 1"))
    calls = 0

    def work(tx: Transaction) -> None:
        nonlocal calls
        calls += 1
        if what == "append":
            tx.append("shop.fed", rows(4))
        else:
            tx.set_properties("shop.fed", {"owner": "them"})
        tx.update("shop.a", {"n": "n + 1"}, where="id = 1")

    with pytest.raises(IncompatibleConflict, match=r"(snapshot \d+|metadata) of shop\.fed had been made") as caught:
        lake.run(work, key="once")
    assert (calls, list(caught.value.details["federated"])) == (1, ["shop.fed"]), "not tried again by itself"
    expected = [1, 2, 3, 4] if what == "append" else [1, 2, 3]
    assert (other.ids(), ids(lake, "shop.a")) == (expected, [])
    transaction = str(caught.value.details["transaction_id"])
    snapshot = other.table().metadata.current_snapshot_id if what == "append" else 0
    assert (lake.status(transaction).outcome, table.version_made_by(transaction)) == ("undecided", snapshot)
    for _ in range(2):
        lake.run(work, key="once")
        assert other.ids() == expected, "found its own commit"
    assert lake.status(transaction).outcome == "committed"


def test_what_a_crash_before_the_root_leaves_is_finished_by_the_same_key(
    lake: Lake, other: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Died(BaseException):
        pass

    def die() -> None:
        raise Died

    federate(lake, other)
    afterwards(monkeypatch, die)
    for number in range(2):
        tx = seiche.open(lake.uri).transaction(key="once")
        tx.append("shop.fed", rows(4))
        tx.append("shop.a", rows(4))
        if number:
            tx.commit()
        else:
            with pytest.raises(Died):
                tx.commit()
            assert (other.ids(), ids(lake, "shop.a")) == ([1, 2, 3, 4], []), "this is what can be seen in between"
    assert (other.ids(), ids(lake, "shop.a")) == ([1, 2, 3, 4], [4])


@pytest.mark.parametrize("landed", [True, False])
@pytest.mark.parametrize("moved", [True, False])
def test_a_lost_answer_of_the_catalog_is_asked_for(
    lake: Lake, theirs: InCatalog, monkeypatch: pytest.MonkeyPatch, landed: bool, moved: bool
) -> None:
    """Whether or not the first attempt was made, the rows are there once."""
    federate(lake, theirs)
    kind = type(theirs.catalog)
    commit = kind.commit_table
    lost: list[int] = []

    def losing(self: Any, *arguments: Any) -> Any:
        if lost:
            return commit(self, *arguments)
        lost.append(1)
        if landed:
            commit(self, *arguments)
        if moved:
            theirs.append(9)
        raise CommitStateUnknownException("no answer")

    with lake.transaction() as tx:
        tx.append("shop.fed", rows(4))
        tx.append("shop.a", rows(4))
        monkeypatch.setattr(kind, "commit_table", losing)
    assert theirs.ids() == [1, 2, 3, 4] + [9] * moved
    assert (ids(lake, "shop.a"), lost) == ([4], [1])


def test_answers_of_the_catalog(lake: Lake, theirs: InCatalog, monkeypatch: pytest.MonkeyPatch) -> None:
    federate(lake, theirs)
    monkeypatch.setattr(foreign_edit, "_COMMITTING", Patience(attempts=3))
    kind = type(theirs.catalog)
    for answer, expected in (
        (CommitFailedException("no"), RetryableConflict),
        (CommitStateUnknownException("who knows"), CommitUnknown),
        (OSError("gone"), CommitUnknown),
        (ForbiddenError("no"), PermissionDenied),
        (NotImplementedError("no"), InvalidInput),
    ):
        with monkeypatch.context() as patch:
            tx = lake.transaction()
            tx.append("shop.fed", rows(4))
            tx.append("shop.a", rows(4))

            def answers(*_: Any, answer: Exception = answer) -> Any:
                raise answer

            patch.setattr(kind, "commit_table", answers)
            with pytest.raises(expected) as caught:
                tx.commit()
            assert expected is not CommitUnknown or caught.value.transaction_id == tx.id
    assert (theirs.ids(), ids(lake, "shop.a")) == ([1, 2, 3], [])
    with monkeypatch.context() as patch:
        patch.setattr(CatalogSource, "_loaded", lambda _self: (_ for _ in ()).throw(OSError("no route")))
        with pytest.raises(Unavailable, match="no route"):
            lake.table("shop.fed").to_arrow()


def test_no_connection_to_a_catalog_outlives_the_reading(
    lake: Lake, theirs: InCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    federate(lake, theirs)
    kind, opened, closed = type(theirs.catalog), [0], [0]
    begin, close = kind.__init__, kind.close

    def counted(self: Any, *args: Any, **options: Any) -> None:
        opened[0] += 1
        begin(self, *args, **options)

    def counted_close(self: Any) -> None:
        closed[0] += 1
        close(self)

    monkeypatch.setattr(kind, "__init__", counted)
    monkeypatch.setattr(kind, "close", counted_close)
    assert ids(lake, "shop.fed") == [1, 2, 3]
    lake.table("shop.fed").append(rows(4))
    theirs.catalog.drop_table("n.t")
    with pytest.raises(NotFound, match="no table"):
        lake.table("shop.fed").to_arrow()
    gc.collect()
    assert opened == closed != [0]


def test_names_rows_and_care(lake: Lake, other: Place) -> None:
    federate(lake, other)
    version = lake.version
    lake.table("shop.fed").append(rows(4))
    lake.rename_table("shop.fed", "shop.x")
    assert ids(lake, "shop.x") == [1, 2, 3, 4]
    assert lake.diff(version, lake.version).objects
    assert ("shop", "x") in lake.iceberg_catalog().list_tables("shop")
    lake.rollback(version)
    assert ids(lake, "shop.fed") == [1, 2, 3, 4], "its content is not the lake's to roll back"
    lake.expire(older_than=0, keep=1)
    lake.gc(dry_run=False, grace=0, window=0)
    assert lake.fsck(deep=True).ok
    assert lake.health().tables
    with lake.transaction() as tx:
        tx.append("shop.fed", rows(5))
        with pytest.raises(InvalidInput, match="cannot be saved"):
            tx.save()
        with pytest.raises(InvalidInput, match="cannot drop its name"):
            tx.drop_table("shop.fed")
    lake.drop_table("shop.fed")
    lake.expire(older_than=0, keep=1)
    lake.gc(dry_run=False, grace=0, window=0)
    assert other.ids() == [1, 2, 3, 4, 5], "dropping the name leaves the table"


def test_nonsense_is_refused(lake: Lake, theirs: InCatalog, tmp_path: Path) -> None:
    version, properties = lake.version, theirs.options["catalog"]
    lake.create_table("shop.own", SCHEMA, format="iceberg")
    own = lake.table("shop.own")
    for location, options, error, match in (
        (str(tmp_path / "nothing"), {}, NotFound, "numbered"),
        (str(tmp_path / "x.metadata.json"), {}, NotFound, "x.metadata.json"),
        ("n.nothing", {"catalog": properties}, NotFound, "no table n.nothing"),
        ("n.t", {"catalog": "unheard-of"}, Unavailable, "unheard-of"),
        ("n.t", {"catalog": {**properties, "token": "x"}}, InvalidInput, "secret"),
        ("n.t", {"catalog": {**properties, "uri": "postgresql://me:pw@host/db"}}, InvalidInput, "secret"),
        (own.metadata_location, {}, InvalidInput, "inside of the lake"),  # type: ignore[attr-defined]
    ):
        with pytest.raises(error, match=match):
            lake.register_table("shop.x", location, format="iceberg", **options)
    with pytest.raises(InvalidInput, match="catalogs are for Iceberg"):
        lake.register_table("shop.x", "n.t", catalog=properties)
    with pytest.raises(AlreadyExists):
        lake.register_table("shop.a", "n.t", format="iceberg", catalog=properties)
    assert lake.version == version + 1


def test_the_catalog_of_another_lake(lake: Lake, tmp_path: Path) -> None:
    """Two lakes, each with its own promise: here one is federated in the other, by PyIceberg's configuration."""
    second = seiche.create(str(tmp_path / "second"))
    second.create_namespace("n")
    second.create_table("n.t", SCHEMA, format="iceberg")
    kind = "seiche.lake.engines.pyiceberg_catalog.SeicheCatalog"
    options = {"py-catalog-impl": kind, "lake": second.uri}
    lake.register_table("shop.fed", "n.t", type="federated", format="iceberg", catalog=options)
    with lake.transaction() as tx:
        tx.append("shop.fed", rows(1, 2))
        tx.append("shop.a", rows(1))
    lake.table("shop.fed").delete("id = 1")
    assert (ids(lake, "shop.fed"), ids(second, "n.t"), ids(lake, "shop.a")) == ([2], [2], [1])
    assert second.fsck().ok
    shutil.rmtree(second.store.native_uri())
    with pytest.raises(Unavailable):
        lake.table("shop.fed").to_arrow()
