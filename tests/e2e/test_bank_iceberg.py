"""Money moves between Lance and Iceberg tables, by processes some of which are killed: the total is always right."""

from collections.abc import Callable
from pathlib import Path

import pytest

from seiche import Lake
from tests.bank import Bank
from tests.servers import S3Server

BANK = Bank(
    {"bank.a": "lance", "bank.b": "lance", "bank.c": "iceberg", "bank.d": "iceberg"},
    accounts=10,
    attempts=500,
    seconds=240,
)


def check_left(lake: Lake, killed: int) -> None:
    """Tellers were killed, and a clean-up takes what they left behind and nothing else."""
    assert killed >= 1
    lake.gc(dry_run=False, grace=0, window=0)
    assert BANK.held(lake) == BANK.total
    assert lake.fsck().ok


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_the_total_is_right_at_every_version_on_local_disk(
    tmp_path: Path, effort: Callable[[int, int], int], record_property: Callable[[str, object], None]
) -> None:
    lake, moved, killed = BANK.run(str(tmp_path / "lake"), {"durability": "os"}, effort(3, 60), effort(2, 6))
    record_property("transfers", moved)
    record_property("killed", killed)
    assert moved >= effort(3, 40)
    check_left(lake, killed)


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_the_total_is_right_at_every_version_on_s3(
    seaweedfs: S3Server, effort: Callable[[int, int], int], record_property: Callable[[str, object], None]
) -> None:
    lake, moved, killed = BANK.run(seaweedfs.uri(), seaweedfs.options, effort(3, 60), effort(2, 4))
    record_property("transfers", moved)
    record_property("killed", killed)
    assert moved >= effort(2, 20)
    check_left(lake, killed)
