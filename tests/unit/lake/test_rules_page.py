"""Every rule and every hazard has code and a test that are named in the notes, and that exist."""

import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[2]
HOME = TESTS.parent
PAGE = HOME / "docs/design/023-lake-rules.md"
ROWS = re.findall(r"^\| (H?)(\d+) \|[^|]+\| ([^|]+) \| ([^|]+) \|$", PAGE.read_text(), re.MULTILINE)


def test_every_number_is_there_once() -> None:
    assert [int(number) for hazard, number, _, _ in ROWS if not hazard] == list(range(1, 28))
    assert [int(number) for hazard, number, _, _ in ROWS if hazard] == list(range(1, 24))


@pytest.mark.parametrize(("code", "tests"), [row[2:] for row in ROWS], ids=[f"{row[0]}{row[1]}" for row in ROWS])
def test_its_code_and_its_tests_exist(code: str, tests: str) -> None:
    for module, functions in re.findall(r"`([\w/]+\.py)`(?: \(([^)]+)\))?", code):
        file = HOME / "src" / (module if module.startswith("seiche/") else f"seiche/lake/{module}")
        defined = set(re.findall(r"^\s*def (\w+)\(", file.read_text(), re.MULTILINE))
        assert set(re.findall(r"\w+", functions)) <= defined, module
    for part in tests.split("; "):
        file_name, *names = re.findall(r"`([^`]+)`", part)
        defined = set(re.findall(r"^def (test_\w+)\(", (TESTS / file_name).read_text(), re.MULTILINE))
        assert names
        assert set(names) <= defined, file_name
