"""Files of JSON and of Arrow, of which commands make tables."""

import json
import os
from pathlib import Path

import pyarrow as pa
import pytest

from seiche import Lake
from tests.commands import Command


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


@pytest.mark.parametrize("text", ["null\n", '\ufeffnull\n{"id": 1}\n', '{"id": 1}\n  null\n'])
def test_a_null_in_the_place_of_an_object_of_json_is_refused(made: Lake, run: Command, text: str) -> None:
    Path("rows.jsonl").write_text(text)
    assert "has a line with null" in run("create-table", "lake", "shop.t", "--from", "rows.jsonl", code=2)
    made.create_table("shop.t", pa.schema([("id", pa.int64())]))
    assert "has a line with null" in run("append", "lake", "shop.t", "rows.jsonl", code=2)


@pytest.mark.parametrize("value", [b'{"\xfc": 1}', b'[{"a": {"\xfc": 1}}]'])
@pytest.mark.usefixtures("made")
def test_names_inside_of_a_column_of_json_that_are_not_utf_8_are_refused(run: Command, value: bytes) -> None:
    Path("rows.jsonl").write_bytes(b'{"id": 1, "inside": ' + value + b"}\n")
    said = run("create-table", "lake", "shop.t", "--from", "rows.jsonl", code=2)
    assert r"rows.jsonl: a column, or something inside of one, is called b'\xfc', which is not UTF-8" in said


def test_json_of_a_thousand_levels_is_refused(made: Lake, run: Command) -> None:
    Path("deep.json").write_text(f'{{"n": 0.5, "id": {2**53 + 1}, "d": {"[" * 1000}1{"]" * 1000}}}\n')
    assert "a column of deep.json is nested too deep" in run(
        "create-table", "lake", "shop.deep", "--from", "deep.json", code=2
    )


def test_whole_numbers_of_json_beside_fractions_are_not_rounded(made: Lake, run: Command) -> None:
    big = 9007199254740993
    rows = [{"id": big, "n": 0.30000000000000004, "o": {"id": big, "n": [[1.5, 2]]}, "say": f'"{big}'}]
    rows.append({"id": -big, "n": big - 1, "o": {"id": 1, "n": [None, []]}, "say": None})
    Path("rows.json").write_text("\n".join(map(json.dumps, rows)))
    run("create-table", "lake", "shop.rows", "--from", "rows.json")
    assert made.table("shop.rows").to_arrow().to_pylist() == rows
    for line in ({"id": 1, "n": big}, {"o": {"id": 1, "n": [[1, big]]}}):
        name = list(line)[-1]
        Path("rows.json").write_text("\n".join(map(json.dumps, [*rows, line])) + "\n")
        said = run("create-table", "lake", "shop.lost", "--from", "rows.json", code=2)
        assert f"column '{name}' of rows.json has the whole number {big}" in said


@pytest.mark.parametrize("ending", ["arrow", "feather"])
def test_arrow_in_the_format_for_streams_is_read(made: Lake, run: Command, ending: str) -> None:
    name = f"rows.{ending}"
    batches = [pa.record_batch({"id": [1, 2], "name": ["a", None]}), pa.record_batch({"id": [3], "name": ["c"]})]
    with pa.OSFile(name, "wb") as file, pa.ipc.new_stream(file, batches[0].schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
    run("create-table", "lake", "shop.t", "--from", name)
    run("append", "lake", "shop.t", name)
    table = made.table("shop.t")
    assert table.schema == batches[0].schema
    assert table.to_arrow()["id"].to_pylist() == [1, 2, 3, 1, 2, 3]


def test_a_stream_of_arrow_that_was_cut_adds_nothing(made: Lake, run: Command) -> None:
    batch = pa.record_batch({"id": list(range(1000))})
    with pa.OSFile("rows.arrow", "wb") as file, pa.ipc.new_stream(file, batch.schema) as writer:
        writer.write_batch(batch)
        writer.write_batch(batch)
    whole = Path("rows.arrow").read_bytes()
    Path("rows.arrow").write_bytes(whole[:-1000])
    run("create-table", "lake", "shop.t", "--schema", "id:int64")
    assert "cannot be read" in run("append", "lake", "shop.t", "rows.arrow", code=2)
    assert made.table("shop.t").count_rows() == 0


@pytest.mark.parametrize("kind", ["csv", "json", "parquet", "arrow"])
def test_files_whose_names_are_not_utf_8_are_refused_by_their_names(made: Lake, run: Command, kind: str) -> None:
    made.create_table("shop.t", pa.schema([("id", pa.int64())]))
    name = os.fsdecode(b"\xfcber." + kind.encode())
    Path(name).touch()
    Path(f"folder.{kind}").mkdir()
    Path(f"folder.{kind}", name).touch()
    said = run("append", "lake", "shop.t", name, code=2)
    assert rf"'\udcfcber.{kind}' is a name that is not UTF-8. Give the file another name" in said
    assert "has a file with a name that is not UTF-8" in run("append", "lake", "shop.t", f"folder.{kind}", code=2)


@pytest.mark.parametrize(("kind", "text"), [("csv", "id\n1\n"), ("json", '{"id": 1}\n')])
def test_a_file_of_no_bytes_among_others_has_no_rows(made: Lake, run: Command, kind: str, text: str) -> None:
    folder = Path(f"rows.{kind}")
    folder.mkdir()
    (folder / f"part-0.{kind}").touch()  # as Spark writes a first partition without rows
    assert "has no columns" in run("create-table", "lake", "shop.t", "--from", str(folder), code=2)
    (folder / f"part-1.{kind}").write_text(text)
    run("create-table", "lake", "shop.t", "--from", str(folder))
    run("append", "lake", "shop.t", str(folder))
    assert made.table("shop.t").to_arrow()["id"].to_pylist() == [1, 1]
