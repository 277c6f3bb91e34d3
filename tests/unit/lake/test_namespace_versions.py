"""Versions that pylance makes through the namespace of a lake: each is a commit, under its own number, or none."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import lance_namespace as ln
import pytest
from pyroaring import BitMap

import seiche
from seiche import Corrupt, InvalidInput, Lake, RetryableConflict
from seiche.core.runtime import Runtime
from seiche.lake.commit.intent import Intent
from seiche.lake.engines.lance_namespace import LakeNamespace
from seiche.lake.engines.object_paths import object_path
from seiche.store import open_store
from seiche.store.base import Store
from seiche.store.prefix import below
from seiche.table.format import file
from seiche.table.format.fragments import Fragments
from seiche.table.format.manifest import Manifest
from seiche.table.format.manifest_pb2 import Manifest as Header
from seiche.table.operations.coverage import with_coverage
from seiche.table.versions.naming import Naming, parse
from seiche.testing import CRASHES, Fault, SimulatedStore, crash_points
from tests.unit.lake.conftest import SCHEMA, ids, rows

TABLE = ["shop", "a"]


class Held(LakeNamespace):
    """Keeps what pylance wants to commit instead of committing it."""

    request: dict[str, Any]

    def create_table_version(self, request: Any) -> Any:
        self.request = dict(request)
        raise ln.InternalError("held")


def held(lake: Lake, run: Callable[[lance.LanceDataset], object], table: list[str] | None = None) -> dict[str, Any]:
    """The request that pylance makes to commit what `run` does; nothing is committed."""
    namespace = Held(lake)
    with pytest.raises((OSError, RuntimeError), match="unknown"):
        run(lance.dataset(namespace_client=namespace, table_id=table or TABLE))
    return namespace.request


def append(*new: int) -> Callable[[lance.LanceDataset], object]:
    return lambda dataset: dataset.insert(rows(*new))


def opened(namespace: ln.LanceNamespace) -> lance.LanceDataset:
    return lance.dataset(namespace_client=namespace, table_id=TABLE)


def versions(lake: Lake, table: str = "shop.a") -> list[int]:
    folder = Path(lake.store.native_uri(lake.table(table).row.location)) / "_versions"
    found = (parse(path.name) for path in folder.iterdir())
    return sorted(one[1] for one in found if one is not None)


def left_over(lake: Lake) -> list[str]:
    folder = Path(lake.store.native_uri(lake.table("shop.a").row.location)) / "_versions"
    return [path.name for path in folder.iterdir() if ".manifest-" in path.name]


def test_a_commit_keeps_its_number_its_transaction_and_its_bytes(lake: Lake) -> None:
    request = held(lake, append(1))
    store = below(lake.store, lake.table("shop.a").row.location)
    path = "/" + request["manifest_path"]
    data = Path(path).read_bytes()
    before = lake.version
    made = lake.namespace().create_table_version(ln.CreateTableVersionRequest(**request))
    assert made.version is not None
    row = lake.table("shop.a").row
    assert row.manifest is not None
    assert (made.version.version, row.table_version, lake.version) == (2, 2, before + 1)
    assert Path("/" + made.version.manifest_path).read_bytes() == data == store.get(row.manifest.path)
    transaction = file.decode(data, path=path).transaction
    assert transaction is not None
    assert row.manifest.transaction == transaction.uuid
    published = file.decode(store.get(Naming.V2.path(2)), path="")
    assert published.transaction == transaction
    assert published.manifest.header.writer_feature_flags >> 62 & 1, "closed to plain writers"
    assert left_over(lake) == []
    assert ids(lake, "shop.a") == [1]


def test_a_lost_race_is_a_conflict_and_the_winner_can_be_found(lake: Lake) -> None:
    request = held(lake, append(1))
    lake.table("shop.a").append(rows(2))
    before = lake.version
    found = lake.namespace()
    with pytest.raises(ln.ConcurrentModificationError):
        found.create_table_version(ln.CreateTableVersionRequest(**request))
    assert isinstance(found.refusal, RetryableConflict)
    described = found.describe_table_version(ln.DescribeTableVersionRequest(id=TABLE, version=2))
    assert described.version.manifest_path.endswith(".manifest")
    assert versions(lake) == [1, 2]
    assert (lake.version, ids(lake, "shop.a")) == (before, [2])


def test_a_version_that_was_lost_against_is_published_though_its_writer_did_not(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = held(lake, append(1))
    other = seiche.open(lake.store)
    monkeypatch.setattr(other._committer.publisher, "publish", lambda *_, **__: None)
    other.table("shop.a").append(rows(2))
    assert versions(lake) == [1]
    with pytest.raises(ln.ConcurrentModificationError):
        lake.namespace().create_table_version(ln.CreateTableVersionRequest(**request))
    assert versions(lake) == [1, 2]


def test_told_twice_a_version_is_made_once(lake: Lake) -> None:
    request = held(lake, append(1))
    path = Path("/" + request["manifest_path"])
    data = path.read_bytes()
    found = lake.namespace()
    first = found.create_table_version(ln.CreateTableVersionRequest(**request))
    path.write_bytes(data)
    lake.table("shop.a").append(rows(2))
    again = lake.namespace().create_table_version(ln.CreateTableVersionRequest(**request))
    assert again.version is not None
    assert first.version is not None
    assert again.version.version == first.version.version == 2
    assert lake.table("shop.a").version == 3
    assert ids(lake, "shop.a") == [1, 2]


@pytest.mark.parametrize("overtaken", [0, 1, 3])
def test_pylance_finds_its_own_commit_after_a_lost_reply(lake: Lake, overtaken: int) -> None:
    class Lossy(LakeNamespace):
        def create_table_version(self, request: Any) -> Any:
            super().create_table_version(request)
            for number in range(overtaken):
                lake.table("shop.a").append(rows(100 + number))
            raise ln.ServiceUnavailableError("the reply was lost")

    dataset = opened(Lossy(lake))
    dataset.insert(rows(1))
    assert dataset.version == 2
    assert ids(lake, "shop.a") == [1, *range(100, 100 + overtaken)]
    assert versions(lake) == list(range(1, lake.table("shop.a").version + 1))


def test_a_namespace_opens_writes_and_makes_tables(lake: Lake) -> None:
    found = lake.namespace()
    made = lance.write_dataset(rows(1, 2), namespace_client=found, table_id=["shop", "new"], mode="create")
    assert (made.version, ids(lake, "shop.new")) == (1, [1, 2])
    lance.write_dataset(rows(3), namespace_client=found, table_id=["shop", "new"], mode="append")
    dataset = lance.dataset(namespace_client=found, table_id=["shop", "new"])
    dataset.delete("id = 1")
    dataset.update({"n": "7"}, where="id = 2")
    dataset.create_scalar_index("id", "BTREE")
    assert (dataset.version, lake.table("shop.new").version) == (5, 5)
    assert ids(lake, "shop.new") == [2, 3]
    assert versions(lake, "shop.new") == [1, 2, 3, 4, 5]
    with pytest.raises(ln.TableAlreadyExistsError):
        lance.write_dataset(rows(1), namespace_client=found, table_id=["shop", "new"], mode="create")
    with pytest.raises(OSError, match="cannot be written"):
        lance.write_dataset(rows(9), lake.table("shop.new").uri, mode="append")
    lance.dataset(lake.table("shop.new").uri).validate()  # type: ignore[no-untyped-call]


def test_of_two_who_make_a_table_of_one_name_one_does(lake: Lake) -> None:
    class Late(LakeNamespace):
        def create_table_version(self, request: Any) -> Any:
            if ("shop", "new") not in lake.tables("shop"):
                lake.create_table("shop.new", SCHEMA)
            return super().create_table_version(request)

    with pytest.raises(OSError, match="already exists"):
        lance.write_dataset(rows(1), namespace_client=Late(lake), table_id=["shop", "new"], mode="create")
    assert ids(lake, "shop.new") == []


def test_versions_are_listed_in_pages(lake: Lake) -> None:
    for number in range(4):
        lake.table("shop.a").append(rows(number))
    found = lake.namespace()

    def listed(**options: Any) -> tuple[list[int], str | None]:
        page = found.list_table_versions(ln.ListTableVersionsRequest(id=TABLE, **options))
        return [one.version for one in page.versions], page.page_token

    assert listed() == ([1, 2, 3, 4, 5], None)
    assert listed(descending=True, limit=1) == ([5], "4")
    assert listed(descending=True, limit=1, page_token="4") == ([4], "3")
    assert listed(descending=True, limit=1, page_token="1") == ([1], None)
    assert listed(limit=2) == ([1, 2], "3")
    assert listed(limit=2, page_token="3") == ([3, 4], "5")
    assert listed(descending=True, limit=3) == ([5, 4, 3], "2")
    assert listed(descending=True, limit=3, page_token="2") == ([2, 1], None)
    newest = found.describe_table_version(ln.DescribeTableVersionRequest(id=TABLE)).version
    assert newest.version == 5
    for missing in (0, 6, 1 << 63):
        with pytest.raises(ln.TableVersionNotFoundError):
            found.describe_table_version(ln.DescribeTableVersionRequest(id=TABLE, version=missing))


def test_a_declared_version_list_is_that_of_no_table(lake: Lake) -> None:
    found = lake.namespace()
    found.declare_table(ln.DeclareTableRequest(id=["shop", "c"]))
    with pytest.raises(ln.TableNotFoundError):
        found.list_table_versions(ln.ListTableVersionsRequest(id=["shop", "c"]))


def tampered(data: bytes, change: Callable[[Header, list[Any]], None]) -> bytes:
    read = file.decode(data, path="")
    assert read.transaction is not None
    header, fragments = read.manifest.copy_header(), list(read.manifest.fragments)
    change(header, fragments)
    made = Manifest(header, Fragments(fragments), read.manifest.index_section)
    return b"".join(file.encode(made, read.transaction.SerializeToString()))


def without_a_fragment(header: Header, fragments: list[Any]) -> None:
    fragments.pop(0)


def with_other_rows(header: Header, fragments: list[Any]) -> None:
    fragments[0].physical_rows += 1


def with_a_lower_counter(header: Header, fragments: list[Any]) -> None:
    header.max_fragment_id -= 1


def with_another_column(header: Header, fragments: list[Any]) -> None:
    header.fields[1].name = "m"


def with_an_unknown_flag(header: Header, fragments: list[Any]) -> None:
    header.writer_feature_flags |= 1 << 40


def with_other_settings(header: Header, fragments: list[Any]) -> None:
    header.config["a"] = "b"


@pytest.mark.parametrize(
    "change",
    [
        without_a_fragment,
        with_other_rows,
        with_a_lower_counter,
        with_another_column,
        with_an_unknown_flag,
        with_other_settings,
    ],
)
def test_a_manifest_that_is_not_what_its_transaction_says_is_refused(lake: Lake, change: Any) -> None:
    lake.table("shop.a").append(rows(1))
    request = held(lake, append(2))
    path = Path("/" + request["manifest_path"])
    path.write_bytes(tampered(path.read_bytes(), change))
    before = lake.version
    found = lake.namespace()
    with pytest.raises(ln.InvalidTableStateError, match="otherwise than its transaction says"):
        found.create_table_version(ln.CreateTableVersionRequest(**request))
    assert isinstance(found.refusal, Corrupt)
    assert (lake.version, ids(lake, "shop.a")) == (before, [1])


@pytest.mark.parametrize(("names", "refused"), [([0, 1], True), ([0, 7], True), ([], True), ([0], False)])
def test_an_index_must_not_speak_for_fragments_that_it_does_not_know(
    lake: Lake, names: list[int], refused: bool
) -> None:
    """Neither for the one that comes with the version, nor for one that is yet to come."""
    lake.table("shop.a").append(rows(1))
    lake.table("shop.a").create_index("id", "BTREE")
    request = held(lake, append(2))
    path = Path("/" + request["manifest_path"])
    read = file.decode(path.read_bytes(), path="")
    assert read.transaction is not None
    indices = [with_coverage(one, BitMap(names)) for one in read.manifest.indices]
    made = Manifest(read.manifest.copy_header(), read.manifest.fragments, indices)
    path.write_bytes(b"".join(file.encode(made, read.transaction.SerializeToString())))
    wanted = ln.CreateTableVersionRequest(**request)
    if not refused:
        lake.namespace().create_table_version(wanted)
        return
    with pytest.raises(ln.InvalidTableStateError, match="otherwise than its transaction says"):
        lake.namespace().create_table_version(wanted)


def test_a_manifest_of_another_version_place_or_kind_is_refused(lake: Lake) -> None:
    request = held(lake, append(1))
    other = held(lake, append(1), ["shop", "b"])
    path = Path("/" + request["manifest_path"])
    found = lake.namespace()
    before = lake.version

    def refused(**changes: Any) -> None:
        with pytest.raises((ln.InvalidInputError, ln.InvalidTableStateError, ln.ConcurrentModificationError)):
            found.create_table_version(ln.CreateTableVersionRequest(**{**request, **changes}))
        assert lake.version == before

    refused(version=3)
    refused(version=1)
    refused(manifest_path=other["manifest_path"])
    refused(manifest_path=request["manifest_path"] + "-not-there")
    refused(manifest_path="/etc/passwd")
    refused(manifest_path=request["manifest_path"].replace("_versions", "_versions/../.."))
    data = path.read_bytes()
    path.write_bytes(data[:-20])
    refused()
    read = file.decode(data, path="")
    header = read.manifest.copy_header()
    header.ClearField("transaction_section")
    body = header.SerializeToString() + b"".join(bytes(piece) for piece in read.manifest.fragments.pieces)
    path.write_bytes(len(body).to_bytes(4, "little") + body + bytes(8) + b"\x00\x00\x02\x00LANC")
    refused()
    path.write_bytes(data)
    found.create_table_version(ln.CreateTableVersionRequest(**request))
    assert ids(lake, "shop.a") == [1]


def test_versions_of_several_tables_are_made_together_or_not_at_all(lake: Lake) -> None:
    def requests() -> list[ln.CreateTableVersionEntry]:
        wanted = [held(lake, append(1)), held(lake, append(2), ["shop", "b"])]
        return [ln.CreateTableVersionEntry(**request) for request in wanted]

    found = lake.namespace()
    before = lake.version
    made = found.batch_create_table_versions(ln.BatchCreateTableVersionsRequest(entries=requests()))
    assert [one.version for one in made.versions] == [2, 2]
    assert lake.version == before + 1
    assert (ids(lake, "shop.a"), ids(lake, "shop.b")) == ([1], [2])
    entries = requests()
    lake.table("shop.b").append(rows(3))
    before = lake.version
    with pytest.raises(ln.ConcurrentModificationError):
        found.batch_create_table_versions(ln.BatchCreateTableVersionsRequest(entries=entries))
    assert (lake.version, ids(lake, "shop.a"), ids(lake, "shop.b")) == (before, [1], [2, 3])


@pytest.mark.parametrize("by_id", [False, True])
def test_two_versions_of_one_table_are_not_made_together(lake: Lake, by_id: bool) -> None:
    """Both would be told as made, and one of them would be lost."""
    first, second = held(lake, append(1)), held(lake, append(2))
    if by_id:
        second = {**second, "id": [lake.table("shop.a").row.id]}
    entries = [ln.CreateTableVersionEntry(**request) for request in (first, second)]
    before = lake.version
    with pytest.raises(ln.InvalidInputError, match="twice"):
        lake.namespace().batch_create_table_versions(ln.BatchCreateTableVersionsRequest(entries=entries))
    assert (lake.version, ids(lake, "shop.a")) == (before, [])


def test_versions_of_several_tables_by_the_operations_of_a_batch(lake: Lake) -> None:
    wanted = [held(lake, append(1)), held(lake, append(2), ["shop", "b"])]
    before = lake.version
    made = lake.namespace().batch_commit_tables(
        ln.BatchCommitTablesRequest(
            operations=[
                ln.CommitTableOperation(create_table_version=ln.CreateTableVersionRequest(**one)) for one in wanted
            ]
        )
    )
    assert [one["create_table_version"]["version"]["version"] for one in made.model_dump()["results"]] == [2, 2]
    assert lake.version == before + 1
    assert (ids(lake, "shop.a"), ids(lake, "shop.b")) == ([1], [2])


def test_files_from_before_a_clean_up_are_not_committed_after_it(lake: Lake) -> None:
    """What pylance wrote is nobody's until it is committed: a clean-up that began meanwhile may have taken it."""
    old, table = lake.namespace(), lake.table("shop.a")
    dataset, handle = opened(old), table.to_lance()
    lake.decide(Intent(id=str(lake._runtime.uuid()), base=lake.version, min_base=lake.version + 1))
    with pytest.raises(OSError, match="unknown"):
        dataset.insert(rows(1))
    assert isinstance(old.refusal, RetryableConflict)
    assert ids(lake, "shop.a") == []
    opened(lake.namespace()).insert(rows(2))
    handle.insert(rows(3))
    assert ids(lake, "shop.a") == [2, 3]


def test_a_lake_at_an_old_version_takes_no_commits(lake: Lake) -> None:
    request = held(lake, append(1))
    old = seiche.open(lake.store, lake.version)
    found = old.namespace()
    with pytest.raises(ln.InvalidInputError, match="read-only"):
        found.create_table_version(ln.CreateTableVersionRequest(**request))
    assert ids(lake, "shop.a") == []


def test_settings_by_which_pylance_would_clean_up_are_refused_wherever_they_came_from(lake: Lake) -> None:
    settings: dict[str, str | None] = {"lance.auto_cleanup.interval": "1", "lance.auto_cleanup.older_than": "0s"}
    with pytest.raises(OSError, match="unknown"):
        opened(lake.namespace()).update_config(settings)
    lake.table("shop.a").append(rows(1))
    lake.table("shop.a").update_config(settings)
    found = lake.namespace()
    with pytest.raises(OSError, match="unknown"):
        opened(found).insert(rows(2))
    assert isinstance(found.refusal, InvalidInput)
    with pytest.raises(InvalidInput, match="cleaned up by pylance"):
        lake.table("shop.a").to_lance().insert(rows(2))
    assert versions(lake) == [1, 2, 3]
    lake.table("shop.a").update_config(dict.fromkeys(settings))
    opened(lake.namespace()).insert(rows(2))
    assert versions(lake) == [1, 2, 3, 4, 5]


def test_pylance_itself_cannot_clean_up_what_the_lake_has_published(lake: Lake) -> None:
    from datetime import timedelta

    for number in range(3):
        lake.table("shop.a").overwrite(rows(number))
    dataset = opened(lake.namespace())
    with pytest.raises(OSError, match="cannot be written"):
        dataset.cleanup_old_versions(timedelta(0), delete_unverified=True)
    assert versions(lake) == [1, 2, 3, 4]
    assert dataset.checkout_version(2).to_table()["id"].to_pylist() == [0]


@pytest.fixture(scope="module")
def waiting(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str, int]:
    """A lake whose table is about to get a version from pylance: where it is, and the manifest's path in it."""
    folder = tmp_path_factory.mktemp("waiting") / "lake"
    lake = seiche.create(open_store(str(folder), durability="os"), runtime=Runtime.seeded(1))
    lake.create_namespace("shop")
    lake.create_table("shop.a", SCHEMA).append(rows(1))
    request = held(lake, append(2))
    return folder, str(Path("/" + request["manifest_path"]).relative_to(folder)), request["version"]


def interrupted(waiting: tuple[Path, str, int], tmp_path: Path, faults: tuple[Fault, ...]) -> Any:
    template, manifest, version = waiting
    copies = iter(range(10_000))

    def fresh() -> Store:
        copy = tmp_path / f"copy {next(copies)}"
        shutil.copytree(template, copy)
        return open_store(str(copy), durability="os")

    def create(store: SimulatedStore) -> Any:
        lake = seiche.open(store, runtime=Runtime.seeded(2))
        path = object_path(store, manifest)
        found = lake.namespace()
        try:
            return found.create_table_version(
                ln.CreateTableVersionRequest(id=TABLE, version=version, manifest_path=path)
            )
        except ln.LanceNamespaceError:
            assert found.refusal is not None
            raise found.refusal from None

    return crash_points(fresh, create, faults=faults)


def test_a_crash_at_any_call_of_a_commit_leaves_it_done_or_not_and_the_table_sound(
    waiting: tuple[Path, str, int], tmp_path: Path
) -> None:
    seen = {False: 0, True: 0}
    for crash in interrupted(waiting, tmp_path, CRASHES):
        lake = seiche.open(crash.store)
        done = lake.table("shop.a").version == 3
        assert ids(lake, "shop.a") == ([1, 2] if done else [1]), str(crash)
        seen[done] += 1
        opened(lake.namespace()).insert(rows(3))
        assert ids(lake, "shop.a") == ([1, 2, 3] if done else [1, 3]), str(crash)
        newest = lake.table("shop.a").version
        assert versions(lake) == list(range(1, newest + 1)), str(crash)
        plain = lance.dataset(lake.store.native_uri(lake.table("shop.a").row.location))
        plain.validate()  # type: ignore[no-untyped-call]
        assert (plain.version, plain.count_rows()) == (newest, 3 if done else 2)
    assert seen[False] >= 10
    assert seen[True] >= 5


def test_whatever_the_storage_answers_pylance_can_find_out_what_became_of_its_commit(
    waiting: tuple[Path, str, int], tmp_path: Path
) -> None:
    runs = 0
    for crash in interrupted(waiting, tmp_path, ("after", "lost", "late", "before", "conflict")):
        runs += 1
        lake = seiche.open(crash.store)
        found = lake.namespace()
        done = lake.table("shop.a").version == 3
        assert done or crash.error is not None, str(crash)
        assert ids(lake, "shop.a") == ([1, 2] if done else [1]), str(crash)
        if done:
            described = found.describe_table_version(ln.DescribeTableVersionRequest(id=TABLE, version=3))
            assert described.version.version == 3
        else:
            with pytest.raises(ln.TableVersionNotFoundError):
                found.describe_table_version(ln.DescribeTableVersionRequest(id=TABLE, version=3))
        opened(found).insert(rows(3))
        assert ids(lake, "shop.a") == ([1, 2, 3] if done else [1, 3]), str(crash)
        assert versions(lake) == list(range(1, lake.table("shop.a").version + 1)), str(crash)
    assert runs >= 20


def test_what_pylance_is_shown_is_written_again_if_the_storage_gives_no_answer(lake: Lake) -> None:
    def insert(store: SimulatedStore, number: int) -> SimulatedStore:
        seiche.open(store).table("shop.a").to_lance().insert(rows(number))
        return store

    calls = insert(SimulatedStore(lake.store), 0).calls
    shown = [at for at, call in enumerate(calls, 1) if call.verb == "put_if_absent" and "_staged" in call.path]
    assert len(shown) >= 2, "before and after"
    for number in shown:
        assert insert(SimulatedStore(lake.store, plan={number: "after"}), number).injected
    assert ids(lake, "shop.a") == [0, *shown]
