"""Versions that a manifest store decides: what is refused, what is taken over, and what a commit costs."""

import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from uuid import uuid4

import pytest

from seiche.core.runtime import Runtime
from seiche.errors import (
    AlreadyExists,
    CommitUnknown,
    Corrupt,
    InvalidInput,
    NotFound,
    PermissionDenied,
    SeicheError,
    Unavailable,
)
from seiche.store import open_store
from seiche.store.base import Store
from seiche.table.operations import UpdateConfig
from seiche.table.operations.update_config import UpdateMap
from seiche.table.table import Table
from seiche.table.versions.external import (
    ExternalVersions,
    ManifestRecord,
    ManifestStore,
    MemoryManifestStore,
    external_versions,
    open_manifest_store,
    split_address,
)
from seiche.table.versions.external.dynamodb import DynamoDBManifestStore
from seiche.table.versions.external.postgres import PostgresManifestStore
from seiche.table.versions.external.sqlite import SqliteManifestStore
from seiche.table.versions.naming import Naming
from seiche.table.versions.stored import PutVersions
from seiche.testing import Call, DictStore, SimulatedStore
from tests.external_history import another_manifest, begin, check_version, history
from tests.simulated_manifest_store import SimulatedManifestStore

FINAL = Naming.V2.path(3)
STAGED = f"{FINAL}-{uuid4()}"


@pytest.fixture
def records() -> MemoryManifestStore:
    return MemoryManifestStore()


@pytest.fixture
def store(records: ManifestStore) -> DictStore:
    """A table with two versions."""
    store = DictStore()
    begin(store, records, 2)
    return store


def claim(store: Store, records: ManifestStore, path: str = STAGED, version: int = 3) -> None:
    """Record a version as its writer does before it copies the file."""
    size = len(history().manifests[version])
    records.put_if_absent(store.uri, ManifestRecord(version, f"{store.uri}/{path}", size))


class FailingCopies(SimulatedStore):
    """A store that lets nobody copy."""

    def __init__(self, inner: Store, error: SeicheError) -> None:
        super().__init__(inner)
        self.error = error

    def copy(self, source: str, target: str) -> None:
        self.calls.append(Call("copy", target, source))
        raise self.error


def test_a_missing_staged_file_is_refused_with_both_paths(store: DictStore, records: MemoryManifestStore) -> None:
    claim(store, records)
    external = ExternalVersions(store, records)
    refused: list[Callable[[], object]] = [
        external.newest,
        lambda: external.newest(2),
        lambda: external.read(3),
        external.all,
        lambda: external.claim(4, history().manifests[4]),
    ]
    for ask in refused:
        with pytest.raises(Corrupt) as raised:
            ask()
        assert (raised.value.staged, raised.value.path) == (STAGED, FINAL)
        assert STAGED in str(raised.value)
        assert FINAL + " " in str(raised.value)
    # The remedy that the error names: give the claim up.
    records.delete(store.uri, 3)
    check_version(ExternalVersions(store, records), 2)
    ExternalVersions(store, records).claim(3, history().manifests[3])
    check_version(ExternalVersions(store, records), 3)


@pytest.mark.parametrize(
    ("error", "meaning"),
    [
        (Unavailable("no answer"), Unavailable),
        (CommitUnknown("no answer"), Unavailable),
        (PermissionDenied("read-only"), PermissionDenied),
    ],
)
def test_a_copy_that_fails_is_refused_with_both_paths(
    store: DictStore, records: MemoryManifestStore, error: SeicheError, meaning: type[SeicheError]
) -> None:
    store.put(STAGED, history().manifests[3])
    claim(store, records)
    failing = FailingCopies(store, error)
    for _ in range(2):
        with pytest.raises(meaning) as raised:
            ExternalVersions(failing, records, runtime=Runtime.seeded(1)).newest()
        assert STAGED in str(raised.value)
        assert FINAL + ":" in str(raised.value)
    latest = records.get_latest(store.uri)
    assert latest is not None
    assert latest.path == f"{store.uri}/{STAGED}"
    check_version(ExternalVersions(store, records), 3)  # when copying works again


@pytest.mark.parametrize("error", [Unavailable("no answer"), PermissionDenied("may not")])
def test_a_writer_that_cannot_finish_says_that_it_may_have_committed(
    store: DictStore, records: MemoryManifestStore, error: SeicheError
) -> None:
    failing = FailingCopies(store, error)
    external = ExternalVersions(failing, records, runtime=Runtime.seeded(1))
    for _ in range(2):  # the second attempt stages anew, and must not take the first for somebody else's
        with pytest.raises(CommitUnknown) as raised:
            external.claim(3, history().manifests[3])
        assert FINAL in str(raised.value)
    check_version(ExternalVersions(store, records), 3)


@pytest.mark.parametrize("error", [Unavailable("no answer"), PermissionDenied("may not")])
def test_a_table_whose_commit_cannot_be_finished_says_so(
    store: DictStore, records: MemoryManifestStore, error: SeicheError
) -> None:
    """Not that it failed: whoever repeats the work would do it twice."""
    failing = FailingCopies(store, error)
    external = ExternalVersions(failing, records, runtime=Runtime.seeded(1))
    table = Table(external, external.read(external.newest()).manifest, runtime=Runtime.seeded(2))
    with pytest.raises(CommitUnknown) as raised:
        table.commit(UpdateConfig(config_updates=UpdateMap({"key": "value"})))
    assert raised.value.version == 3
    others = ExternalVersions(store, records)
    assert others.newest() == 3
    assert others.transaction(3).uuid == raised.value.transaction_id
    assert not [info.path for info in store.list("_versions") if not info.path.endswith(".manifest")]


def test_a_writer_that_is_locked_out_after_an_unclear_answer_is_left_in_doubt(store: DictStore) -> None:
    """Its credentials expire between the two attempts; whoever gets new ones and repeats the work would do it twice."""

    class LocksOut(MemoryManifestStore):
        locked = False

        def get(self, base_uri: str, version: int) -> ManifestRecord | None:
            if self.locked:
                raise PermissionDenied("the token has expired")
            return super().get(base_uri, version)

        def put_if_absent(self, base_uri: str, record: ManifestRecord) -> None:
            self.get(base_uri, record.version)
            super().put_if_absent(base_uri, record)
            if record.version == 3:
                self.locked = True
                raise CommitUnknown("the answer was lost")

    records = LocksOut()
    external = ExternalVersions(store, records, runtime=Runtime.seeded(1))
    with pytest.raises(CommitUnknown):
        external.claim(3, history().manifests[3])
    records.locked = False
    check_version(ExternalVersions(store, records), 3)


def test_a_manifest_store_that_stays_away_after_an_unclear_answer_leaves_it_unknown(
    store: DictStore, records: MemoryManifestStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The record is there, its answer was lost, and whoever is asked after that only says that nobody is there."""
    asked = 0
    put = records.put_if_absent

    def away(base_uri: str, record: ManifestRecord) -> None:
        nonlocal asked
        asked += 1
        if asked > 1:
            raise Unavailable("nobody is there")
        put(base_uri, record)
        raise CommitUnknown("the answer was lost")

    with monkeypatch.context() as patched:
        patched.setattr(records, "put_if_absent", away)
        with pytest.raises(CommitUnknown):
            ExternalVersions(store, records, runtime=Runtime.seeded(1)).claim(3, history().manifests[3])
    assert asked > 1
    check_version(ExternalVersions(store, records), 3)


def test_a_failed_flip_is_no_failed_commit(store: DictStore, records: MemoryManifestStore) -> None:
    class NoFlips(MemoryManifestStore):
        def put_if_present(self, base_uri: str, record: ManifestRecord, *, replacing: str) -> None:
            raise Unavailable("no answer")

    other = DictStore()
    stubborn = NoFlips()
    begin(other, stubborn, 3)
    check_version(ExternalVersions(other, stubborn), 3)
    staged = [info.path for info in other.list("_versions") if not info.path.endswith(".manifest")]
    assert len(staged) == 3  # as long as a record names them they are kept


def test_a_finished_version_whose_staged_file_is_gone_is_taken(store: DictStore, records: MemoryManifestStore) -> None:
    """pylance removes the staged file even if it could not record the final path."""
    store.put(FINAL, history().manifests[3])
    claim(store, records)
    check_version(ExternalVersions(store, records), 3)
    latest = records.get_latest(store.uri)
    assert latest is not None
    assert latest.path == f"{store.uri}/{FINAL}"


@pytest.mark.parametrize("staged", [True, False])
def test_a_foreign_manifest_is_never_overwritten(store: DictStore, records: MemoryManifestStore, staged: bool) -> None:
    """Somebody without the manifest store has made the version that we claimed."""
    foreign = another_manifest(3) if staged else another_manifest(3) + b"longer"
    store.put(FINAL, foreign)
    if staged:
        store.put(STAGED, history().manifests[3])
    claim(store, records)
    with pytest.raises(Corrupt) as raised:
        ExternalVersions(store, records).newest()
    assert STAGED in str(raised.value)
    assert FINAL + " " in str(raised.value)
    assert store.get(FINAL) == foreign


def test_a_writer_that_meets_a_foreign_manifest_leaves_it_alone(store: DictStore, records: MemoryManifestStore) -> None:
    external = ExternalVersions(store, records)
    assert external.newest() == 2
    store.put(FINAL, another_manifest(3))
    with pytest.raises(AlreadyExists):
        external.claim(3, history().manifests[3])
    assert store.get(FINAL) == another_manifest(3)
    assert external.newest(2) == 3  # it was taken into the manifest store
    external.claim(4, history().manifests[4])
    assert external.newest(3) == 4


def test_the_latest_manifest_must_be_where_it_is_recorded(store: DictStore, records: MemoryManifestStore) -> None:
    store.delete(Naming.V2.path(2))
    external = ExternalVersions(store, records)
    with pytest.raises(Corrupt, match=Naming.V2.path(2)):
        external.read(external.newest())
    with pytest.raises(Corrupt, match=Naming.V2.path(2)):
        external.all()
    store.delete(Naming.V2.path(1))
    with pytest.raises(Corrupt, match=Naming.V2.path(2)):
        external.all()


def test_an_older_version_that_was_cleaned_up_is_just_missing(store: DictStore, records: MemoryManifestStore) -> None:
    store.delete(Naming.V2.path(1))
    external = ExternalVersions(store, records)
    with pytest.raises(NotFound):
        external.read(1)
    external.forget(1)
    assert records.get(store.uri, 1) is None
    with pytest.raises(InvalidInput):
        external.forget(2)
    assert external.all() == [2]
    # Cleaned up with its record still naming a staged file, because the flip failed and nobody has read it since.
    external.claim(3, history().manifests[3])
    records.put_if_present(
        store.uri,
        ManifestRecord(2, f"{store.uri}/{Naming.V2.path(2)}-{uuid4()}", len(history().manifests[2])),
        replacing=f"{store.uri}/{Naming.V2.path(2)}",
    )
    store.delete(Naming.V2.path(2))
    with pytest.raises(NotFound):
        ExternalVersions(store, records).read(2)


def test_without_an_answer_of_the_manifest_store_there_is_no_version(
    store: DictStore, records: MemoryManifestStore
) -> None:
    down = SimulatedStore(store, plan=dict.fromkeys(range(1, 100), "before"))
    with pytest.raises(Unavailable):
        ExternalVersions(store, SimulatedManifestStore(records, down)).newest()


def test_a_table_is_taken_into_an_empty_manifest_store(store: DictStore) -> None:
    """A copied directory, a lost manifest store, or a table that had none so far."""
    empty = MemoryManifestStore()
    external = ExternalVersions(store, empty)
    check_version(external, 2)
    assert empty.get_latest(store.uri) == ManifestRecord(
        2, f"{store.uri}/{Naming.V2.path(2)}", len(history().manifests[2])
    )
    external.claim(3, history().manifests[3])
    check_version(ExternalVersions(store, empty), 3)


def test_records_that_are_behind_the_directory_are_caught_up(store: DictStore, records: MemoryManifestStore) -> None:
    for version in (3, 4):
        PutVersions(store).claim(version, history().manifests[version])
    check_version(ExternalVersions(store, records), 4)
    latest = records.get_latest(store.uri)
    assert latest is not None
    assert latest.version == 4
    ExternalVersions(store, records).claim(5, history().manifests[5])


def test_records_that_fell_behind_take_nobody_back(store: DictStore, records: MemoryManifestStore) -> None:
    """A database that was put back from a copy: who has seen a later version is not given an older one."""
    external = ExternalVersions(store, records)
    for version in (3, 4, 5):
        external.claim(version, history().manifests[version])
    for version in (3, 4, 5):
        records.delete(store.uri, version)
    store.delete(Naming.V2.path(3))  # which a clean-up took since the copy was made
    assert external.newest(5) == 5
    assert records.get_latest(store.uri) == ManifestRecord(
        5, f"{store.uri}/{Naming.V2.path(5)}", len(history().manifests[5])
    )


def test_records_of_a_version_that_was_cleaned_up_are_caught_up(store: DictStore, records: MemoryManifestStore) -> None:
    """So old was the copy of the database: neither its latest version is there, nor the one after it."""
    external = ExternalVersions(store, records)
    for version in (3, 4, 5):
        external.claim(version, history().manifests[version])
    for version in (3, 4, 5):
        records.delete(store.uri, version)
    for version in (1, 2, 3):
        store.delete(Naming.V2.path(version))
    late = ExternalVersions(store, records)
    with pytest.raises(Unavailable, match="are at version 5 now"):
        late.read(late.newest())
    assert late.newest() == 5


def test_who_writes_on_records_that_fell_behind_is_told_of_all_at_once(
    store: DictStore, records: MemoryManifestStore
) -> None:
    """One by one, each found by a claim that is lost, would take as many attempts."""
    external = ExternalVersions(store, records)
    for version in (3, 4, 5):
        external.claim(version, history().manifests[version])
    for version in (3, 4, 5):
        records.delete(store.uri, version)
    late = ExternalVersions(store, records)
    assert late.newest(2) == 2
    with pytest.raises(AlreadyExists):
        late.claim(3, another_manifest(3))
    assert late.newest(2) == 5


def test_who_may_only_read_needs_no_record(store: DictStore) -> None:
    class ReadOnly(MemoryManifestStore):
        def put_if_absent(self, base_uri: str, record: ManifestRecord) -> None:
            raise PermissionDenied("read-only")

    assert ExternalVersions(store, ReadOnly()).newest() == 2


def test_versions_stay_contiguous(store: DictStore, records: MemoryManifestStore) -> None:
    external = ExternalVersions(store, records)
    with pytest.raises(InvalidInput, match="cannot follow"):
        external.claim(4, history().manifests[4])
    with pytest.raises(AlreadyExists):
        external.claim(2, another_manifest(2))
    store.delete(Naming.V2.path(1))
    records.delete(store.uri, 1)
    with pytest.raises(AlreadyExists):  # cleaned up, and so is what it was built on
        ExternalVersions(store, records).claim(1, history().manifests[1])
    check_versions = ExternalVersions(store, records)
    assert check_versions.all() == [2]
    assert not [info.path for info in store.list("_versions") if not info.path.endswith(".manifest")]


def test_the_first_version_of_a_clone_keeps_its_number(records: MemoryManifestStore) -> None:
    store = DictStore()
    external = ExternalVersions(store, records, naming=Naming.V2)
    with pytest.raises(NotFound):
        external.newest()
    external.claim(3, history().manifests[3])
    assert external.all() == [3]
    external.claim(4, history().manifests[4])
    assert ExternalVersions(store, records).all() == [3, 4]


def test_there_is_no_table_without_versions(records: MemoryManifestStore) -> None:
    external = ExternalVersions(DictStore(), records)
    for ask in (external.newest, external.all, lambda: external.read(1), lambda: external.naming):
        with pytest.raises(NotFound):
            ask()


@pytest.mark.parametrize("naming", list(Naming))
def test_a_table_keeps_its_naming_scheme(naming: Naming, records: MemoryManifestStore) -> None:
    store = DictStore()
    first = ExternalVersions(store, records, naming=naming)
    assert first.naming is naming
    first.claim(1, history().manifests[1])
    other = Naming.V1 if naming is Naming.V2 else Naming.V2
    later = ExternalVersions(store, records, naming=other)
    assert later.naming is naming
    later.claim(2, history().manifests[2])
    assert ExternalVersions(store, records).path(2) == naming.path(2)
    assert ExternalVersions(store, MemoryManifestStore()).all() == [1, 2]


@pytest.mark.parametrize(
    "path",
    [
        "elsewhere/_versions/3.manifest",
        "dict://test/_versions/4.manifest",
        "dict://test/_versions/3.manifest-not-a-uuid",
        "dict://test/_versions/sub/3.manifest",
        "dict://test/data/3.manifest",
        "dict://test/3.manifest",
    ],
)
def test_a_record_of_something_else_is_refused(path: str, store: DictStore, records: MemoryManifestStore) -> None:
    records.put_if_absent(store.uri, ManifestRecord(3, path, 1))
    with pytest.raises(Corrupt) as raised:
        ExternalVersions(store, records).newest()
    assert path in str(raised.value)


def test_a_loser_removes_its_own_staged_file_only(store: DictStore, records: MemoryManifestStore) -> None:
    external = ExternalVersions(store, records)
    assert external.newest() == 2
    store.put(STAGED, another_manifest(3))  # the winner has claimed and not copied yet
    claim(store, records)
    with pytest.raises(AlreadyExists):
        external.claim(3, history().manifests[3])
    assert [info.path for info in store.list("_versions") if "-" in info.path] == [STAGED]
    assert external.newest(2) == 3
    assert store.get(FINAL) == another_manifest(3)


def test_what_a_commit_and_a_read_cost(store: DictStore, records: MemoryManifestStore) -> None:
    simulated = SimulatedStore(store)
    external = ExternalVersions(simulated, SimulatedManifestStore(records, simulated))
    external.claim(external.newest() + 1, history().manifests[3])

    def cost() -> Counter[str]:
        counted = Counter(f"{call.verb}{' record' if call.path.startswith('record/') else ''}" for call in calls)
        calls.clear()
        return counted

    calls = simulated.calls
    calls.clear()
    external.claim(external.newest(3) + 1, history().manifests[4])
    assert cost() == Counter(
        {"put": 1, "head": 2, "copy": 1, "delete": 1, "get record": 1, "put_if_absent record": 1, "put record": 1}
    )
    external.read(external.newest(4))
    assert cost() == Counter({"get record": 1, "get": 1})
    opened = ExternalVersions(simulated, SimulatedManifestStore(records, simulated))
    opened.read(opened.newest())
    assert cost() == Counter({"get record": 1, "head": 1, "get": 1})


def test_one_table_has_one_name_through_links(tmp_path: Path, records: MemoryManifestStore) -> None:
    (tmp_path / "real dir").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real dir")
    names = {
        records.base_uri(open_store(address))
        for address in (
            f"{tmp_path}/real dir",
            f"{tmp_path}/link/",
            f"file://{tmp_path}/real%20dir",
            f"{tmp_path}/link",
        )
    }
    assert names == {f"file://{tmp_path.resolve()}/real%20dir"}


@pytest.mark.parametrize(
    ("uri", "key"),
    [
        ("s3://bucket/some/dir/t.lance", "some/dir/t.lance"),
        ("s3://bucket/sp%20ace/é/", "sp ace/é"),
    ],
)
def test_dynamodb_names_tables_as_pylance_does(uri: str, key: str) -> None:
    assert DynamoDBManifestStore("t").base_uri(open_store(uri, aws_region="us-east-1")) == key


def test_dynamodb_takes_no_table_at_the_root_of_a_bucket() -> None:
    with pytest.raises(InvalidInput, match="prefix"):
        DynamoDBManifestStore("t").base_uri(open_store("s3://bucket", aws_region="us-east-1"))


def test_addresses_of_manifest_stores(tmp_path: Path) -> None:
    sqlite = open_manifest_store(f"sqlite://{tmp_path}/a%20b.db")
    assert isinstance(sqlite, SqliteManifestStore)
    assert sqlite.uri == f"sqlite://{tmp_path}/a%20b.db"
    postgres = open_manifest_store("postgresql://user:open-sesame@host/base")
    assert isinstance(postgres, PostgresManifestStore)
    assert postgres.uri == "postgresql://host/base"
    dynamo = open_manifest_store("dynamodb://table?region=eu-west-1")
    assert isinstance(dynamo, DynamoDBManifestStore)
    assert dynamo.uri == "dynamodb://table"
    assert open_manifest_store("memory://x") is open_manifest_store("memory://x")
    assert open_manifest_store(sqlite) is sqlite
    assert external_versions(DictStore(), "memory://x", Naming.V1).naming is Naming.V1


@pytest.mark.parametrize(
    "address",
    [
        "",
        "x",
        "sqlite://",
        "dynamodb://",
        "memory://",
        "mysql://u:open-sesame@h/d",
        "dynamodb://t/x",
        "dynamodb://t?a=b",
    ],
)
def test_addresses_that_mean_nothing_are_refused(address: str) -> None:
    with pytest.raises(InvalidInput) as raised:
        open_manifest_store(address)
    assert "open-sesame" not in str(raised.value)
    assert raised.value.remedy


def test_pylance_addresses_name_the_table_and_its_manifest_store() -> None:
    assert split_address("s3+ddb://b/some/t?ddbTableName=m") == ("s3://b/some/t", "dynamodb://m")
    for other in ("s3://b/t", "/data/t?ddbTableName=m", "file:///t"):
        assert split_address(other) == (other, None)
    for wrong in ("s3+ddb://b/t", "s3+ddb://b/t?x=1", "s3+ddb://b/t?ddbTableName=m&x=1", "s3+ddb://?ddbTableName=m"):
        with pytest.raises(InvalidInput, match="ddbTableName"):
            split_address(wrong)


def test_databases_are_imported_when_they_are_used() -> None:
    code = "import sys, seiche.table.versions.external; print({'boto3', 'psycopg', 'sqlite3'} & set(sys.modules))"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "set()"
