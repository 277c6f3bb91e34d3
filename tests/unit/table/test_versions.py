"""Names of versions, finding the newest, claiming the next."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from shutil import rmtree
from typing import Any

import pyarrow as pa
import pytest

from seiche.core.clock import SimulatedClock
from seiche.core.runtime import Runtime
from seiche.errors import AlreadyExists, Corrupt, InvalidInput, NotFound
from seiche.store.base import Data, ObjectInfo, Store
from seiche.store.local import LocalStore
from seiche.table.table import Table
from seiche.table.versions import hint
from seiche.table.versions.external import MemoryManifestStore
from seiche.table.versions.migration import migrate_to_v2
from seiche.table.versions.naming import BARRIER, DETACHED, Naming, detect, parse
from seiche.table.versions.stored import PutVersions, RenameVersions, StoredVersions
from seiche.testing import CountingStore, DictStore, Fault, SimulatedStore, Stopped
from seiche.testing.simulated import applies

LARGEST = 2**63 - 1


@pytest.mark.parametrize(
    ("version", "v1", "v2"),
    [
        (1, "1.manifest", "18446744073709551614.manifest"),
        (2, "2.manifest", "18446744073709551613.manifest"),
        (10, "10.manifest", "18446744073709551605.manifest"),
        (LARGEST, "9223372036854775807.manifest", "09223372036854775808.manifest"),
    ],
)
def test_named_vectors(version: int, v1: str, v2: str) -> None:
    assert Naming.V1.file_name(version) == v1
    assert Naming.V2.file_name(version) == v2
    assert parse(v1) == (Naming.V1, version)
    assert parse(v2) == (Naming.V2, version)


@pytest.mark.parametrize("version", [-1, 0, DETACHED, DETACHED + 5])
def test_numbers_outside_the_history_have_no_name(version: int) -> None:
    with pytest.raises(InvalidInput):
        Naming.V2.path(version)


@pytest.mark.parametrize(
    "name",
    [
        f"d{DETACHED + 7}.manifest",
        "latest_version_hint.json",
        "18446744073709551614.manifest-3f2a",
        "18446744073709551614.manifest#3",
        "18446744073709551614.manifest.tmp-abc",
        "foo.manifest",
        ".manifest",
        "0.manifest",
        "18446744073709551615.manifest",
        "١.manifest",
        "-1.manifest",
    ],
)
def test_other_files_are_no_versions(name: str) -> None:
    assert parse(name) is None


def test_a_directory_that_mixes_the_schemes_is_refused() -> None:
    with pytest.raises(Corrupt, match="both naming schemes") as caught:
        detect([(Naming.V1, 1), (Naming.V2, 2)], table="t")
    assert "migrate_naming" in caught.value.remedy


def table(store: Store, naming: Naming, *versions: int) -> Store:
    for version in versions:
        store.put_if_absent(naming.path(version), b"manifest %d" % version)
    return store


class Remote(DictStore):
    """A store where a listing is a request of its own kind, as on S3."""

    @property
    def lists_in_one_request(self) -> bool:
        return False


class Nearby(DictStore):
    """A store where a listing is cheap, as on local disk."""

    @property
    def lists_in_one_request(self) -> bool:
        return True


@pytest.mark.parametrize("kind", [Nearby, Remote])
@pytest.mark.parametrize("naming", list(Naming))
@pytest.mark.parametrize(
    "hinted",
    [
        None,
        b"",
        b"garbage",
        b"{}",
        b'{"version":2}',
        b'{"version":7}',
        b'{"version":999}',
        b'{"version":"7"}',
        b"[" * 5000,
    ],
)
def test_every_hint_is_survived(kind: type[DictStore], naming: Naming, hinted: bytes | None) -> None:
    store = table(kind(), naming, *range(1, 8))
    if hinted is not None:
        store.put(hint.PATH, hinted)
    versions = PutVersions(store, runtime=Runtime.seeded(1))
    assert versions.newest() == 7
    assert versions.naming is naming
    for known in range(1, 8):
        assert versions.newest(known) == 7
    assert versions.all() == list(range(1, 8))


@pytest.mark.parametrize("kind", [Nearby, Remote])
@pytest.mark.parametrize("naming", list(Naming))
def test_files_in_folders_beside_the_manifests_are_no_versions(kind: type[DictStore], naming: Naming) -> None:
    store = table(kind(), naming, 1, 2)
    for other in Naming:
        store.put(f"_versions/kept/{other.file_name(9)}", b"a copy that somebody put there")
    versions = PutVersions(store, runtime=Runtime.seeded(1))
    assert versions.newest() == 2
    assert versions.all() == [1, 2]


def test_opening_a_table_on_disk_looks_at_none_of_its_old_versions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of each only the name is read: a look for each would make tables slower with every commit."""
    made = Table.create(str(tmp_path), pa.schema([("id", pa.int64())]), durability="os")
    for number in range(30):
        made.update_config({"number": str(number)})
    looked, stat = list[str](), os.stat

    def looking(path: str, **how: Any) -> os.stat_result:
        looked.append(str(path))
        return stat(path, **how)

    monkeypatch.setattr(os, "stat", looking)
    assert Table.open(str(tmp_path)).version == 31
    assert len([path for path in looked if path.endswith(".manifest")]) <= 2


@pytest.mark.parametrize("kind", [Nearby, Remote])
def test_a_version_that_somebody_else_just_made_is_seen_although_the_hint_is_old(kind: type[DictStore]) -> None:
    store = table(kind(), Naming.V2, 1)
    versions = PutVersions(store, runtime=Runtime.seeded(1))
    assert versions.newest() == 1
    versions.announce(1)
    table(store, Naming.V2, 2, 3, 4, 5)
    assert versions.newest(1) == 5


class Sends(Remote):
    """Counts the names that a server sends: it can begin behind one only where nothing in folders is wanted."""

    sent = 0

    def list(self, prefix: str = "", *, start_after: str = "", recursive: bool = True) -> Iterator[ObjectInfo]:
        for info in super().list(prefix, start_after="" if recursive else start_after, recursive=recursive):
            self.sent += 1
            if info.path > start_after:
                yield info


def test_of_a_long_history_only_the_two_ends_are_listed_when_it_is_opened() -> None:
    store = Sends()
    table(store, Naming.V2, *range(1, 301))
    assert PutVersions(store, runtime=Runtime.seeded(1)).newest() == 300
    assert store.sent < 10
    table(store, Naming.V1, 301)
    with pytest.raises(Corrupt, match="both naming schemes"):
        PutVersions(store, runtime=Runtime.seeded(1)).newest()


@pytest.mark.parametrize("kind", [Nearby, Remote])
def test_a_gap_left_by_a_cleanup_is_not_taken_for_the_end(kind: type[DictStore]) -> None:
    """Version 2 kept by a tag, 3 to 8 cleaned up, 9 the newest: a handle at 2 must not claim 3."""
    clock = SimulatedClock()
    runtime = Runtime(clock, Runtime.seeded(1).random)
    store = table(kind(), Naming.V2, 1, 2)
    versions = PutVersions(store, runtime=runtime)
    assert versions.newest() == 2
    table(store, Naming.V2, 9)
    store.put(hint.PATH, b'{"version":9}')
    assert versions.newest(2) == 9
    store.delete(hint.PATH)
    clock.advance(61)
    assert versions.newest(2) == 9


@pytest.mark.parametrize("kind", [Nearby, Remote])
def test_who_has_just_claimed_does_not_count_on_over_a_gap_either(kind: type[DictStore]) -> None:
    """The look for the next name is saved then, never what tells that versions were cleaned up."""
    store = table(kind(), Naming.V2, 1)
    versions = PutVersions(store, runtime=Runtime.seeded(1))
    assert versions.presumed(1) == 1
    versions.claim(2, b"ours")
    versions.announce(2)
    assert versions.presumed(2) == 2
    table(store, Naming.V2, 9)
    hint.write(store, 9)
    assert versions.presumed(2) == 9


def test_a_claim_that_was_lost_ends_the_presuming() -> None:
    store = table(Nearby(), Naming.V2, 1)
    versions = PutVersions(store, runtime=Runtime.seeded(1))
    versions.claim(versions.presumed(1) + 1, b"ours")
    versions.announce(2)
    table(store, Naming.V2, 3, 4)  # by somebody who leaves no hint
    assert versions.newest(2) == 4
    assert versions.presumed(1) == 4, "presumed of a version that was not made here"
    with pytest.raises(AlreadyExists):
        versions.claim(versions.presumed(2) + 1, b"ours")
    assert versions.presumed(2) == 4


def test_requests_to_find_the_newest() -> None:
    near = CountingStore(table(Nearby(), Naming.V2, *range(1, 1001)))
    versions = PutVersions(near, runtime=Runtime.seeded(1))
    assert versions.newest() == 1000
    assert near.requests == 1
    versions.announce(1000)
    near.reset()
    assert versions.newest(1000) == 1000
    assert near.requests == 2
    near.reset()
    assert versions.presumed(1000) == 1000
    assert near.requests == 1
    remote = CountingStore(table(Remote(), Naming.V2, *range(1, 1001)))
    versions = PutVersions(remote, runtime=Runtime.seeded(1))
    assert versions.newest() == 1000
    assert remote.requests == 2
    remote.reset()
    assert versions.newest(1000) == 1000
    assert remote.requests == 1


@pytest.mark.parametrize("naming", ["V1", "V2"])
def test_nothing_is_built_on_a_table_that_was_removed(tmp_path: Path, naming: str) -> None:
    """Nor on the one that somebody made there instead: the version would name files that are gone."""
    schema = pa.schema([("id", pa.int64())])
    old = Table.create(tmp_path / "t", schema, naming=naming)
    for number in range(3):
        old.append([{"id": number}])
    rmtree(tmp_path / "t")
    for act in (lambda: old.append([{"id": 5}]), lambda: old.version, old.to_arrow):
        with pytest.raises(NotFound, match="no table"):
            act()
    assert not (tmp_path / "t" / "_versions").exists()
    Table.create(tmp_path / "t", schema, naming=naming).append([{"id": 7}])
    assert old.append([{"id": 8}]).version == 3
    assert old.to_arrow()["id"].to_pylist() == [7, 8]
    assert [one.version for one in old.versions()] == [1, 2, 3]


def test_a_hint_that_comes_late_costs_one_look() -> None:
    near = CountingStore(table(Nearby(), Naming.V2, *range(1, 1001)))
    versions = PutVersions(near, runtime=Runtime.seeded(1))
    versions.announce(versions.newest())
    hint.write(near, 998)
    near.reset()
    assert versions.newest(1000) == 1000
    assert near.requests == 3


@pytest.mark.parametrize("kind", [Nearby, Remote])
@pytest.mark.parametrize("stray", [1, 2, 3, 12, 500])
def test_a_stray_v1_manifest_is_found_when_the_table_is_opened(kind: type[DictStore], stray: int) -> None:
    store = table(kind(), Naming.V2, *range(1, 11))
    table(store, Naming.V1, stray)
    with pytest.raises(Corrupt, match="both naming schemes"):
        PutVersions(store).newest()


@pytest.mark.parametrize("kind", [PutVersions, RenameVersions])
def test_a_version_is_claimed_once(kind: type[StoredVersions]) -> None:
    store = table(DictStore(), Naming.V2, 1)
    versions = kind(store)
    versions.claim(2, b"first")
    with pytest.raises(AlreadyExists):
        versions.claim(2, b"second")
    assert store.get(Naming.V2.path(2)) == b"first"
    assert versions.newest() == 2


def test_no_table() -> None:
    with pytest.raises(NotFound, match="no table"):
        PutVersions(DictStore()).newest()


def test_detached_versions_are_left_alone() -> None:
    store = table(DictStore(), Naming.V2, 1, 2)
    store.put_if_absent(f"_versions/d{DETACHED + 9}.manifest", b"detached")
    assert PutVersions(store).all() == [1, 2]


def test_migration_renames_everything_and_is_repeatable() -> None:
    store = table(DictStore(), Naming.V1, *range(1, 6))
    assert migrate_to_v2(store) == 5
    assert PutVersions(store).all() == [1, 2, 3, 4, 5]
    assert PutVersions(store).naming is Naming.V2
    assert store.get(Naming.V2.path(3)) == b"manifest 3"
    assert hint.read(store) == 5
    assert migrate_to_v2(store) == 0


@pytest.mark.parametrize("fault", ["lost", "after", "before"])
def test_a_migration_goes_on_where_the_storage_gives_no_answer(fault: Fault) -> None:
    """Given up halfway, the table could not be opened until somebody migrates it again."""
    rehearsal = SimulatedStore(table(DictStore(), Naming.V1, 1, 2))
    assert migrate_to_v2(rehearsal) == 2
    for number, call in enumerate(rehearsal.calls, 1):
        if applies(fault, call.verb) and call.verb not in ("list", "get_range"):
            store = SimulatedStore(table(DictStore(), Naming.V1, 1, 2), plan={number: fault})
            assert migrate_to_v2(store) == 2, call
            assert store.injected == [(number, fault)]
            assert PutVersions(store).all() == [1, 2]
            assert not any(store.exists(Naming.V1.path(version)) for version in (1, 2, 3))


def test_two_different_commits_of_one_version_are_never_made_one_by_a_migration() -> None:
    """Who opened the table with pylance before it was migrated goes on with old names, and is told that it is done."""
    store = table(DictStore(), Naming.V1, 1, 2)
    migrate_to_v2(store)
    table(store, Naming.V2, 3)
    store.put_if_absent(Naming.V1.path(3), b"manifest 3, another")
    before = {info.path: store.get(info.path) for info in store.list()}
    with pytest.raises(Corrupt, match="two different commits of version 3"):
        migrate_to_v2(store)
    assert {info.path: store.get(info.path) for info in store.list()} == before
    store.put(Naming.V1.path(3), b"manifest 3")  # what a crash amid a renaming leaves
    migrate_to_v2(store)
    assert PutVersions(store).all() == [1, 2, 3]
    assert store.get(Naming.V2.path(3)) == b"manifest 3"


def test_a_migration_that_renames_what_was_just_claimed_takes_nothing_away() -> None:
    """It comes between the claim under the old name and the look for new ones: the version is the writer's."""

    class Overtaken(DictStore):
        def put_if_absent(self, path: str, data: Data, *, durable: bool = True) -> None:
            super().put_if_absent(path, data, durable=durable)
            if path == Naming.V1.path(3):
                migrate_to_v2(self)

    store = Overtaken()
    table(store, Naming.V1, 1, 2)
    writer = PutVersions(store, naming=Naming.V1)
    writer.claim(3, b"manifest 3, ours")
    assert PutVersions(store).all() == [1, 2, 3]
    assert store.get(Naming.V2.path(3)) == b"manifest 3, ours"


@pytest.mark.parametrize("number", [2, 4])
def test_a_manifest_under_the_name_of_another_version_is_not_taken_for_it(tmp_path: Path, number: int) -> None:
    made = Table.create(str(tmp_path / "t"), pa.schema([("a", pa.int64())]))
    for value in range(3):
        made.append([{"a": value}])
    folder = tmp_path / "t"
    (folder / Naming.V2.path(3)).write_bytes((folder / Naming.V2.path(number)).read_bytes())
    with pytest.raises(Corrupt, match=f"calls itself version {number}, not 3"):
        made.checkout(3)


@pytest.mark.parametrize("number", ["-5", "0", str(1 << 63), "1.5", '"3"', "null", "[3]"])
def test_a_hint_that_can_be_no_version_is_none(number: str) -> None:
    store = DictStore()
    store.put(hint.PATH, b'{"version": %s}' % number.encode())
    assert hint.read(store) == 0


def test_an_interrupted_migration_can_be_finished_and_nobody_writes_meanwhile() -> None:
    stops: tuple[Fault, ...] = ("stop_before", "stop_after")
    calls = CountingStore(table(DictStore(), Naming.V1, 1, 2, 3))
    migrate_to_v2(calls)
    for stop in range(1, calls.requests + 1):
        for fault in stops:
            inner = table(DictStore(), Naming.V1, 1, 2, 3)
            with pytest.raises(Stopped):
                migrate_to_v2(SimulatedStore(inner, plan={stop: fault}))
            begun = inner.exists(Naming.V1.path(4))
            if begun:
                with pytest.raises(AlreadyExists):
                    PutVersions(inner, naming=Naming.V1).claim(4, b"manifest 4")
            migrate_to_v2(inner)
            assert PutVersions(inner).all() == [1, 2, 3]
            assert PutVersions(inner).naming is Naming.V2
            assert [inner.get(Naming.V2.path(version)) for version in (1, 2, 3)] == [
                b"manifest %d" % v for v in (1, 2, 3)
            ]


def test_the_barrier_is_no_manifest(tmp_path: Path) -> None:
    store = table(LocalStore(str(tmp_path)), Naming.V1, 1)
    store.put_if_absent(Naming.V1.path(2), BARRIER)
    with pytest.raises(Corrupt):
        PutVersions(store).read(2)


def test_a_migration_that_only_began_says_how_it_is_finished() -> None:
    """No manifest has its new name yet, so the directory looks as before, and its latest version damaged."""
    store = DictStore()
    table = Table.create(store, pa.schema([("id", pa.int64())]), naming="V1")
    store.put_if_absent(Naming.V1.path(2), BARRIER)
    acts: list[Callable[[], object]] = [
        lambda: Table.open(store),
        lambda: table.update_config({"a": "1"}),
        table.count_rows,
        table.versions,
        table.cleanup,
        lambda: table.tag("now"),
    ]
    for act in acts:
        with pytest.raises(Corrupt, match="being migrated to V2 names") as refused:
            act()
        assert "Table.migrate_naming" in refused.value.remedy
    assert Table.migrate_naming(store) == 1
    assert Table.open(store).version == 1


def test_names_that_a_manifest_store_has_recorded_are_not_migrated() -> None:
    store, records = DictStore(), MemoryManifestStore()
    table = Table.create(store, pa.schema([("id", pa.int64())]), naming="V1", manifest_store=records)
    table.update_config({"a": "1"})
    before = {info.path for info in store.list("")}
    with pytest.raises(InvalidInput, match="manifest store"):
        Table.migrate_naming(store, manifest_store=records)
    with pytest.raises(InvalidInput, match="manifest store"):
        Table.migrate_naming("s3+ddb://bucket/table?ddbTableName=records", region="eu-west-1")
    assert {info.path for info in store.list("")} == before
    assert Table.open(store, manifest_store=records).version == 2
    clone = table.clone(DictStore("elsewhere"), manifest_store=MemoryManifestStore())
    assert [info.path for info in clone.store.list("_versions")] == [Naming.V2.path(2)]
