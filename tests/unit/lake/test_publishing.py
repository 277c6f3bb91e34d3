"""Manifests come under their plain names in order, each under its own, also if they come late or without an answer."""

from contextlib import suppress
from pathlib import Path

import pytest

import seiche
from seiche import Lake
from seiche.core.runtime import SYSTEM
from seiche.lake.manifest_cache import ManifestCache
from seiche.lake.objects.rows import TableRow
from seiche.lake.publish import Publisher
from seiche.lake.versions import LakeVersions, manifests
from seiche.store.local import LocalStore
from seiche.store.paths import join
from seiche.table.format import file
from seiche.table.versions.naming import Naming
from seiche.testing import SimulatedStore
from seiche.testing.simulated import Fault, Stopped
from tests.unit.lake.conftest import ids, rows


@pytest.fixture
def row(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> TableRow:
    """A table that got two versions in one transaction, whose committer died before he published them."""
    with monkeypatch.context() as patch:
        patch.setattr(Publisher, "publish", lambda *_, **__: None)
        with lake.transaction() as tx:
            tx.append("shop.a", rows(1, 2))
            tx.table("shop.a").create_index("id")
    found = lake.table("shop.a").row
    assert [version for version, _ in manifests(found)] == [2, 3]
    return found


def published(lake: Lake, row: TableRow) -> list[int]:
    """The versions of the table under plain names: each must be the one that its name says."""
    standing = [version for version in range(1, 9) if lake.store.exists(join(row.location, Naming.V2.path(version)))]
    for version in standing:
        path = join(row.location, Naming.V2.path(version))
        assert file.decode(lake.store.get(path), path=path).manifest.version == version
    return standing


def test_an_earlier_version_comes_first(lake: Lake, row: TableRow, tmp_path: Path) -> None:
    """Who dies in between leaves no gap for plain readers."""
    reached = set()
    for call in range(1, 12):
        store = SimulatedStore(LocalStore(tmp_path / "lake"), plan={call: "stop_after"})
        with suppress(Stopped):
            Publisher(store, SYSTEM).publish(row)
        standing = published(lake, row)
        assert standing == list(range(1, len(standing) + 1))
        reached.add(len(standing))
        for version in standing[1:]:
            lake.store.delete(join(row.location, Naming.V2.path(version)))
    assert reached == {1, 2, 3}


@pytest.mark.parametrize("held", [0, 1])
def test_what_is_at_hand_of_some_versions_is_not_taken_for_others(lake: Lake, row: TableRow, held: int) -> None:
    cache = ManifestCache()
    version, ref = manifests(row)[held]
    cache.keep(ref, LakeVersions(lake.store, row).read(version))
    Publisher(lake.store, SYSTEM).check(row, cache)
    assert published(lake, row) == [1, 2, 3]
    assert lake.fsck().problems == ()


@pytest.mark.parametrize("fault", ["before", "lost", "after"])
def test_a_version_whose_publishing_was_not_answered_is_published(
    lake: Lake, row: TableRow, tmp_path: Path, fault: Fault
) -> None:
    store = SimulatedStore(LocalStore(tmp_path / "lake"), plan={2: fault})
    Publisher(store, SYSTEM).publish(row)
    assert store.calls[1].verb == "put_if_absent"
    assert published(lake, row) == [1, 2, 3]
    seiche.open(lake.store).table("shop.a").append(rows(3))
    assert ids(lake, "shop.a") == [1, 2, 3]
