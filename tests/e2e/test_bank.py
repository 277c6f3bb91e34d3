"""Money moves between tables, by many processes, some of which are killed: the total is right at every version."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.bank import Bank
from tests.servers import S3Server

BANK = Bank(
    {"bank.a": "lance", "bank.b": "lance", "bank.c": "lance", "bank.d": "lance"},
    accounts=25,
    attempts=200,
    seconds=120,
)


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_the_total_is_right_at_every_version_on_local_disk(
    tmp_path: Path, effort: Callable[[int, int], int], record_property: Callable[[str, object], None]
) -> None:
    lake, moved, killed = BANK.run(str(tmp_path / "lake"), {"durability": "os"}, effort(4, 60), 8)
    record_property("transfers", moved)
    record_property("killed", killed)
    assert moved >= effort(12, 200)
    assert killed >= 1
    assert BANK.held(lake) == BANK.total


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_the_total_is_right_at_every_version_on_s3(
    seaweedfs: S3Server, effort: Callable[[int, int], int], record_property: Callable[[str, object], None]
) -> None:
    _, moved, killed = BANK.run(seaweedfs.uri(), seaweedfs.options, effort(4, 60), effort(4, 8))
    record_property("transfers", moved)
    record_property("killed", killed)
    assert moved >= effort(2, 50)
    assert killed >= 1
