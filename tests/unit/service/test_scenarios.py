"""Every scenario of the protocol has a test that is named in the notes, and that exists."""

import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[2]
PAGE = TESTS.parent / "docs/design/018-service-scenarios.md"
ROWS = re.findall(r"^\| (W?)(\d+) \|.*\| ([^|]+) \|$", PAGE.read_text(), re.MULTILINE)


def test_every_number_is_there_once() -> None:
    assert [int(number) for weakness, number, _ in ROWS if not weakness] == list(range(1, 64))
    assert [int(number) for weakness, number, _ in ROWS if weakness] == list(range(1, 23))


@pytest.mark.parametrize("named", [cell for _, _, cell in ROWS], ids=[f"{kind}{number}" for kind, number, _ in ROWS])
def test_its_tests_exist(named: str) -> None:
    for part in named.split("; "):
        file, *tests = re.findall(r"`([^`]+)`", part)
        written = (TESTS / file).read_text()
        defined = set(re.findall(r"^def (test_\w+)\(", written, re.MULTILINE))
        assert defined
        assert set(tests) <= defined, file
