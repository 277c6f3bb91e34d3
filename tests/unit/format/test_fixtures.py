"""The tables that pylance 14.0.2 wrote, kept in the repository, read for ever."""

from collections import Counter
from pathlib import Path

import pytest

from seiche.table.format import file, flags
from tests.unit.format.whole_tables import check_table

FIXTURES = Path(__file__).parents[2] / "fixtures" / "lance"
TABLES = sorted(path.name for path in FIXTURES.iterdir() if path.is_dir() and not path.name.startswith("__"))

# Everything that pylance can do to a table without an experimental switch.
SEEN = [
    *["append", "delete", "overwrite", "create_index", "rewrite", "merge", "restore", "reserve_fragments", "update"],
    *["project", "update_config", "data_replacement", "clone", "update_bases"],
    *["update mode 0", "update mode 1", "updated offsets", "inserted rows", "row ids", "row versions"],
    *["deletions .arrow", "deletions .bin", "tag", "branch", "transaction file equals inline"],
    *["/lance.table.FragmentReuseIndexDetails", "/lance.table.MemWalIndexDetails", "/lance.table.BTreeIndexDetails"],
]


@pytest.mark.parametrize("name", TABLES)
def test_each_file_of_a_kept_table_is_read_whole(name: str) -> None:
    assert check_table(FIXTURES / name)["manifest"] > 0


def test_the_kept_tables_hold_everything() -> None:
    seen = sum((check_table(FIXTURES / name) for name in TABLES), Counter())
    assert [what for what in SEEN if not seen[what]] == []


@pytest.mark.parametrize("name", TABLES)
def test_flags_are_recomputed_to_what_pylance_set(name: str) -> None:
    for path in (FIXTURES / name).rglob("*.manifest"):
        manifest = file.decode(path.read_bytes(), path=path.name).manifest
        flags.require_writable(manifest.header)
        header = manifest.copy_header()
        has_deletions = any(fragment.HasField("deletion_file") for fragment in manifest.fragments)
        assert manifest.fragments.has_deletions == has_deletions
        flags.recompute(header, has_deletions=has_deletions)
        assert header == manifest.header
