"""Files of JSON, of which commands make tables."""

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


@pytest.mark.parametrize("value", ["null", "[]", "{}", "[null]", '{"a": null}', '[{"a": []}]'])
@pytest.mark.usefixtures("made")
def test_a_column_of_json_without_a_value_makes_no_table_that_could_never_have_one(run: Command, value: str) -> None:
    Path("rows.jsonl").write_text(f'{{"id": 1, "note": {value}}}\n{{"id": 2}}\n')
    said = run("create-table", "lake", "shop.t", "--from", "rows.jsonl", code=2)
    assert "does not tell the type of 'note'" in said
    assert "--schema" in said
    assert run.json("ls", "lake", "shop") == []


def test_the_way_out_that_is_told_of_a_column_without_a_value_works(made: Lake, run: Command) -> None:
    Path("rows.jsonl").write_text('{"id": 1, "note": null}\n')
    run("create-table", "lake", "shop.t", "--schema", "id:int64,note:string")
    run("append", "lake", "shop.t", "rows.jsonl")
    Path("rows.jsonl").write_text('{"id": 2, "note": "later"}\n')
    run("append", "lake", "shop.t", "rows.jsonl")
    assert made.table("shop.t").to_arrow().to_pylist() == [{"id": 1, "note": None}, {"id": 2, "note": "later"}]


def test_a_column_of_json_with_a_value_in_one_line_is_of_its_type(made: Lake, run: Command) -> None:
    Path("rows.jsonl").write_text('{"id": 1, "note": []}\n{"id": 2, "note": ["x"]}\n{"id": 3, "note": null}\n')
    run("create-table", "lake", "shop.t", "--from", "rows.jsonl")
    assert made.table("shop.t").to_arrow()["note"].to_pylist() == [[], ["x"], None]
