"""Tables made of CSV files by commands: nothing is lost or changed in silence."""

from pathlib import Path

import pytest

import seiche
from seiche import Lake
from tests.e2e.test_cli_lake import Command


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lake:
    """A folder to work in, with a lake."""
    monkeypatch.chdir(tmp_path)
    made = seiche.create("lake", durability="os")
    made.create_namespace("shop")
    return made


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Command:
    return Command(capsys)


def test_values_of_several_lines_are_taken_whole_wherever_a_large_file_is_cut(made: Lake, run: Command) -> None:
    said = "\n".join(["a line, of several"] * 5000)
    Path("letters.csv").write_text("id,said\n" + "".join(f'{number},"{number}\n{said}"\n' for number in range(100)))
    run("create-table", "lake", "shop.letters", "--from", "letters.csv")
    assert run.json("append", "lake", "shop.letters", "letters.csv")["rows"] == 100
    found = made.table("shop.letters").to_arrow().sort_by("id").to_pylist()
    assert [row["said"] for row in found] == [f"{number // 2}\n{said}" for number in range(200)]


def test_a_line_of_a_csv_may_be_some_megabytes_long(made: Lake, run: Command) -> None:
    Path("long.csv").write_text(f"id,said\n1,short\n2,{'x' * 5_000_000}\n3,short\n")
    run("create-table", "lake", "shop.long", "--from", "long.csv")
    assert [len(row["said"]) for row in made.table("shop.long").to_arrow().to_pylist()] == [5, 5_000_000, 5]
