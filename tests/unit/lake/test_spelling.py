"""Clean-up and check where storage does not tell capital letters from small ones, as on Macs and on Windows."""

from collections.abc import Iterator

import pyarrow as pa
import pytest

import seiche
from seiche import Lake
from seiche.core.runtime import Runtime
from seiche.lake.care.path_set import KeptPaths
from seiche.store.base import ObjectInfo
from seiche.table.versions.naming import Naming
from seiche.testing import DictStore
from tests.unit.lake.conftest import SCHEMA, rows

PLACES = pa.schema([("id", pa.int64()), ("country", pa.string())])


class CarelessStore(DictStore):
    """Finds a file under any spelling, and lists it in folders as those were spelt by whoever made them."""

    def __init__(self) -> None:
        super().__init__(runtime=Runtime.seeded(0))
        self._spelt: dict[str, str] = {}

    def list(self, prefix: str = "", *, start_after: str = "", recursive: bool = True) -> Iterator[ObjectInfo]:
        there = self._as_made(prefix) if prefix else ""
        for info in super().list(there, start_after=start_after, recursive=recursive):
            yield ObjectInfo(prefix + info.path[len(prefix) :], info.size, info.modified, info.etag)

    def delete(self, path: str) -> None:
        super().delete(self._as_made(path))

    def _find(self, path: str) -> tuple[bytes, ObjectInfo]:
        return super()._find(self._as_made(path))

    def _write(self, path: str, data: bytes, *, replace: bool) -> None:
        for end in (at for at, letter in enumerate(f"{path}/") if letter == "/"):
            self._spelt.setdefault(path[:end].lower(), path[:end].rpartition("/")[2])
        super()._write(self._as_made(path), data, replace=replace)

    def _as_made(self, path: str) -> str:
        parts = path.split("/")
        folded = ["/".join(parts[: number + 1]).lower() for number in range(len(parts))]
        return "/".join(self._spelt.get(key, part) for key, part in zip(folded, parts, strict=True))


@pytest.fixture
def lake() -> Lake:
    lake = seiche.create(CarelessStore(), runtime=Runtime.seeded(1))
    for name in ("Shop", "shop"):
        lake.create_namespace(name)
    lake.create_table("Shop.first", SCHEMA)
    return lake


def cleaned(lake: Lake) -> list[str]:
    """What is wrong with the lake after a clean-up of everything that nothing needs."""
    lake.gc(dry_run=False, grace=0, window=0)
    return [one.message for one in lake.fsck().problems]


@pytest.mark.parametrize("format", ["lance", "iceberg"])
def test_a_clean_up_leaves_tables_of_a_namespace_that_another_one_has_spelt_differently(
    lake: Lake, format: str
) -> None:
    lake.create_table("shop.a", SCHEMA, format=format).append(rows(1))
    where = lake.table("shop.a").row.location
    assert any(info.path.startswith(where.replace("/shop/", "/Shop/")) for info in lake.store.list())
    assert not lake.gc().unneeded
    assert cleaned(lake) == []


def test_a_clean_up_leaves_rows_of_values_that_are_spelt_differently(lake: Lake) -> None:
    from pyiceberg.partitioning import PartitionField, PartitionSpec
    from pyiceberg.transforms import IdentityTransform

    by_country = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "country"))
    table = lake.create_table("Shop.places", PLACES, format="iceberg", partition_spec=by_country)
    for number, country in enumerate(("US", "us")):
        table.append(pa.table({"id": [number], "country": [country]}, schema=PLACES))
    assert not any("country=us" in info.path for info in lake.store.list())
    assert cleaned(lake) == []
    assert table.to_arrow().num_rows == 2


def test_what_others_committed_is_left_for_who_adopts_it(lake: Lake) -> None:
    table = lake.create_table("shop.a", SCHEMA)
    table.append(rows(1))
    where = table.row.location
    foreign = f"{where}/{Naming.V2.path(3)}"
    lake.store.put(foreign, lake.store.get(f"{where}/{Naming.V2.path(2)}"))
    assert lake.gc(dry_run=False, grace=0, window=0).foreign == (foreign,)
    assert lake.store.exists(foreign)


def test_what_was_given_to_others_is_left_alone(lake: Lake) -> None:
    table = lake.create_table("shop.a", SCHEMA)
    table.append(rows(1))
    where = table.row.location
    lake.release("shop.a", drop=True)
    lake.expire(older_than=0, keep=1)
    before = {info.path for info in lake.store.list(where)}
    lake.gc(dry_run=False, grace=0, window=0)
    assert {info.path for info in lake.store.list(where)} == before


def test_a_table_that_nobody_needs_goes_under_any_spelling(lake: Lake) -> None:
    where = lake.create_table("shop.a", SCHEMA).row.location
    lake.drop_table("shop.a")
    lake.expire(older_than=0, keep=1)
    for _ in range(2):
        lake.gc(dry_run=False, grace=0, window=0)
    assert not list(lake.store.list(where))


def test_kept_paths_are_known_by_any_spelling() -> None:
    kept = KeptPaths()
    kept.add("tables/Café/a.lance")
    assert "tables/cafe\N{COMBINING ACUTE ACCENT}/A.lance" in kept
    assert "tables/cafe/a.lance" not in kept
