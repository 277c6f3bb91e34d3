"""The commands about lakes: their examples run, they speak JSON, and they end with the code that they promise."""

import inspect
import io
import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import csv, feather

import seiche
from seiche import InvalidInput, Lake, cli
from seiche.cli import exports, history, lake, objects, rows
from seiche.cli.columns import parse_columns
from seiche.cli.commands import app
from seiche.cli.values import plain, shown
from tests.commands import Command
from tests.terminals import COMMAND, on_a_terminal

COMMANDS: list[Callable[..., None]] = [
    lake.init,
    lake.ls,
    lake.show,
    rows.head,
    objects.create_namespace,
    objects.create_table,
    rows.append,
    objects.rename_table,
    objects.drop_table,
    objects.drop_namespace,
    lake.status,
    history.log,
    history.diff,
    history.tag,
    history.untag,
    history.tags,
    history.rollback,
    exports.export,
    exports.exports,
    exports.unexport,
]


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lake:
    """A folder to work in, with a lake of five versions and a file that are what the examples speak of."""
    monkeypatch.chdir(tmp_path)
    made = seiche.create("lake", durability="os")
    made.create_namespace("shop")
    made.create_table("shop.orders", pa.schema([("id", pa.int64()), ("total", pa.float64())]))
    made.table("shop.orders").append(pa.table({"id": [1, 2, 3], "total": [0.5, 1.5, 2.5]}))
    made.tag("nightly")
    made.table("shop.orders").delete("id = 2")
    Path("prices.csv").write_text("sku,price\na,1.5\nb,2\n")
    Path("more.csv").write_text("total,id\n4.5,4\n5.5,5\n")
    Path("german.csv").write_text("id;total\n6;6.5\n")
    return made


TYPED = "zip,small,total,price,day,at\n"


def examples(command: Callable[..., None]) -> list[str]:
    return re.findall(r"^(seiche .+)$", inspect.getdoc(command) or "", re.MULTILINE)


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.__name__)
def test_every_example_runs(command: Callable[..., None], made: Lake, run: Command) -> None:
    """In the order in which they stand, as a reader would try them."""
    found = examples(command)
    name = command.__name__.replace("_", "-")
    assert found
    if command is exports.unexport:
        made.export("linked", "links", mode="minimal")
    if command is objects.drop_namespace:
        made.create_namespace("spare")
    for example in found:
        words = shlex.split(example)
        assert words[:2] == ["seiche", name]
        assert run(*words[1:], code=4 if name == "status" else 0)


def test_no_command_about_lakes_is_left_out() -> None:
    registered = {one.callback for one in app.registered_commands}
    assert set(COMMANDS) <= registered
    for one in registered - set(COMMANDS):
        assert one is not None
        assert one.__module__ not in {one.__module__ for one in COMMANDS}


def test_help_shows_the_examples_whole(capsys: pytest.CaptureFixture[str]) -> None:
    for command in COMMANDS:
        assert cli.main([command.__name__.replace("_", "-"), "--help"]) == 0
        shown = " ".join(capsys.readouterr().out.split())
        for example in examples(command):
            assert " ".join(example.split()) in shown


def test_a_table_is_made_in_either_format(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Command) -> None:
    monkeypatch.chdir(tmp_path)
    run("init", "lake")
    run("create-namespace", "lake", "shop")
    Path("rows.jsonl").write_text('{"id": 1, "name": "x"}\n{"id": 2, "name": "y"}\n')
    run("create-table", "lake", "shop.i", "--from", "rows.jsonl", "--format", "iceberg", "-p", "a=b")
    run("create-table", "lake", "shop.l", "--like", "shop.i", "--format", "lance")
    shown = run.json("show", "lake", "shop.i")
    assert (shown["rows"], [one["name"] for one in shown["columns"]]) == (2, ["id", "name"])
    assert [(one["name"], one.get("format")) for one in run.json("ls", "lake", "shop")] == [
        ("shop.i", "iceberg"),
        ("shop.l", "lance"),
    ]
    assert seiche.open("lake").table("shop.i").to_arrow().to_pydict() == {"id": [1, 2], "name": ["x", "y"]}


def test_from_nothing_to_a_rolled_back_lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Command) -> None:
    monkeypatch.chdir(tmp_path)
    assert run.json("init", "lake") == {"uri": f"file://{tmp_path}/lake", "version": 0}
    assert "seiche create-namespace" in run("ls", "lake")
    assert run.json("create-namespace", "lake", "shop", "-p", "owner=me") == {"name": "shop", "version": 1}
    made = run.json(
        "create-table", "lake", "shop.t", "--schema", "id:int64!,v:float32[2]", "-p", "a=b", "--stable-row-ids"
    )
    assert made == {"name": "shop.t", "version": 2}
    Path("rows.jsonl").write_text('{"id": 1, "name": "x"}\n{"id": 2, "name": "y"}\n')
    run("create-table", "lake", "shop.u", "--from", "rows.jsonl")
    run("create-table", "lake", "shop.w", "--like", "shop.t")
    assert run.json("ls", "lake") == [
        {"kind": "namespace", "name": "shop"},
        {"kind": "table", "name": "shop.t", "format": "lance", "version": 1},
        {"kind": "table", "name": "shop.u", "format": "lance", "version": 1},
        {"kind": "table", "name": "shop.w", "format": "lance", "version": 1},
    ]
    assert [one["name"] for one in run.json("ls", "lake", "shop", "--version", "2")] == ["shop.t"]
    shown = run.json("show", "lake", "shop.t")
    assert shown["properties"] == {"a": "b"}
    assert shown["columns"][0] == {"name": "id", "type": "int64", "nullable": False}
    assert run.json("show", "lake", "shop.w")["columns"] == shown["columns"]
    assert run.json("show", "lake", "shop.u")["rows"] == 2
    assert seiche.open("lake").table("shop.u").to_arrow().to_pydict() == {"id": [1, 2], "name": ["x", "y"]}
    assert run.json("tag", "lake", "two", "2") == {"name": "two", "version": 2}
    assert [(one["name"], one["version"]) for one in run.json("tags", "lake")] == [("two", 2)]
    would = run.json("rollback", "lake", "two", "--dry-run")
    assert [(one["action"], one["name"]) for one in would["objects"]] == [("dropped", "shop.u"), ("dropped", "shop.w")]
    assert run.json("rollback", "lake", "two", "--yes") == {"version": 6}
    assert [one["name"] for one in run.json("ls", "lake")] == ["shop", "shop.t"]
    assert run.json("diff", "lake", "2") == {"before": 2, "after": 6, "objects": [], "tables": []}
    assert "hold the same" in run("diff", "lake", "2")
    newest, *_, oldest = run.json("log", "lake")
    assert (newest["version"], newest["rollback_to"], oldest["version"]) == (6, 2, 0)
    assert run.json("untag", "lake", "two") == {"name": "two", "version": None}
    assert run.json("tags", "lake") == []


def test_rows_are_shown_and_added_without_spark(made: Lake, run: Command) -> None:
    assert run("head", "lake", "shop.orders", "-c", "id", "-c", "total").splitlines()[2:] == [
        "1    0.5  ",
        "3    2.5  ",
        "2 rows",
    ]
    assert run.json("append", "lake", "shop.orders", "more.csv") == {"name": "shop.orders", "rows": 2, "version": 6}
    assert run.json("head", "lake", "shop.orders", "--where", "total > 3") == [
        {"id": 4, "total": 4.5},
        {"id": 5, "total": 5.5},
    ]
    assert run.json("head", "lake", "shop.orders", "-n", "2", "-c", "id", "--version", "nightly") == [
        {"id": 1},
        {"id": 2},
    ]
    assert run.json("head", "lake", "shop.orders", "-n", "0") == []
    run("create-table", "lake", "shop.ice", "--schema", "id:int64,at:timestamp[us]", "--format", "iceberg")
    assert run("head", "lake", "shop.ice").splitlines()[-1] == "0 rows"
    made.table("shop.ice").append([{"id": 1, "at": None}, {"id": 2, "at": None}, {"id": 3, "at": None}])
    assert run.json("head", "lake", "shop.ice", "-n", "1", "-c", "id", "--where", "id > 1") in (
        [{"id": 2}],
        [{"id": 3}],
    )
    assert "NULL" in run("head", "lake", "shop.ice")
    for words, said in {
        ("head", "lake", "shop.orders", "-c", "nope"): "shop.orders has no column 'nope'. It has id, total.",
        ("head", "lake", "shop.ice", "-c", "nope"): "shop.ice has no column 'nope'",
        ("head", "lake", "shop.orders", "--where", "nope = 1"): "the condition is refused",
        ("append", "lake", "shop.orders", "prices.csv"): "the table has no column 'sku'",
        ("append", "lake", "shop.orders", "none.csv"): "there is no file none.csv",
    }.items():
        assert said in run(*words, code=2)
    assert made.version == 8


@pytest.mark.parametrize("format", ["lance", "iceberg"])
def test_what_stands_in_a_csv_is_what_the_column_is(made: Lake, run: Command, format: str) -> None:
    schema = "zip:string,small:int32,total:float64,price:decimal(9, 2),day:date32,at:timestamp[us]"
    run("create-table", "lake", "shop.typed", "--schema", schema, "--format", format)
    Path("digits.csv").write_text(f"{TYPED}01234,7,3,1.5,2020-01-01,2020-01-01 10:00:00\n")
    # Whatever else there is in the file, a word is a word in a column of texts, and nothing in one of numbers.
    Path("words.csv").write_text(f"{TYPED}NA,,,,,\nnull,NA,,,,\n")
    assert run.json("append", "lake", "shop.typed", "digits.csv")["rows"] == 1
    assert run.json("append", "lake", "shop.typed", "words.csv")["rows"] == 2
    rows = made.table("shop.typed").to_arrow().sort_by("zip").to_pylist()
    assert [(row["zip"], row["small"]) for row in rows] == [("01234", 7), ("NA", None), ("null", None)]
    assert (rows[0]["total"], rows[0]["price"], rows[0]["day"]) == (3.0, Decimal("1.50"), date(2020, 1, 1))
    for value in ("1,2.5,,,,", "1,,,1.555,,", "1,3000000000,,,,", "1,x,,,,"):
        Path("bad.csv").write_text(f"{TYPED}{value}\n")
        assert "bad.csv cannot be read" in run("append", "lake", "shop.typed", "bad.csv", code=2)
    assert made.table("shop.typed").to_arrow().num_rows == 3


def test_a_column_of_a_csv_of_which_nothing_is_known_is_text(made: Lake, run: Command) -> None:
    Path("codes.csv").write_text("code,n,note\nNA,1,\nNULL,2,\n")
    run("create-table", "lake", "shop.codes", "--from", "codes.csv")
    assert run.json("head", "lake", "shop.codes") == [
        {"code": "NA", "n": 1, "note": ""},
        {"code": "NULL", "n": 2, "note": ""},
    ]
    Path("more.csv").write_text("code,n,note\nDE,3,said\n")
    assert run.json("append", "lake", "shop.codes", "more.csv")["rows"] == 1


def test_a_csv_whose_first_rows_mislead_is_refused_with_the_way_out(made: Lake, run: Command) -> None:
    Path("late.csv").write_text("id,price,note\n" + f"1,1,{'x' * 10_000}\n" * 1000 + "2,1.5,\n")
    said = run("create-table", "lake", "shop.late", "--from", "late.csv", code=2)
    assert "invalid value '1.5'" in said
    assert "'seiche create-table --schema', then add the file with 'seiche append'" in said
    run("create-table", "lake", "shop.late", "--schema", "id:int64,price:float64,note:string")
    run("append", "lake", "shop.late", "late.csv")
    assert made.table("shop.late").to_arrow(filter="id = 2")["price"].to_pylist() == [1.5]


def test_short_floats_take_the_numbers_of_a_csv_that_they_can_hold(made: Lake, run: Command) -> None:
    run("create-table", "lake", "shop.short", "--schema", "id:int64,f:float")
    Path("short.csv").write_text("id,f\n1,0.1\n2,3\n3,\n")
    assert run.json("append", "lake", "shop.short", "short.csv")["rows"] == 3
    Path("long.csv").write_text("id,f\n4,0.5\n5,1e300\n")
    assert "a number is too large for float" in run("append", "lake", "shop.short", "long.csv", code=2)
    assert made.table("shop.short").to_arrow()["f"].to_pylist() == [pytest.approx(0.1), 3.0, None]


def test_numbers_and_days_of_json_are_what_the_column_is(made: Lake, run: Command) -> None:
    columns = {
        "small": (pa.int32(), 7, 3_000_000_000),
        "short": (pa.float32(), 0.5, 1e300),
        "price": (pa.decimal128(9, 2), 1.25, 1.255),
        "day": (pa.date32(), "2020-01-01", "2020-01-01T10:00:00"),
        "at": (pa.timestamp("us", "UTC"), "2020-01-01T10:00:00Z", "soon"),
        "opens": (pa.time32("s"), "09:30:00", "09:30:00.5"),
        "closes": (pa.time64("us"), "18:00:00.250000", "18:00:00+02:00"),
        "vector": (pa.list_(pa.float32(), 2), [0.5, 1], [0.5, 1e300]),
        "inside": (pa.struct([("n", pa.int16())]), {"n": 3}, {"n": 3, "more": 1}),
    }
    made.create_table("shop.typed", pa.schema([(name, kind) for name, (kind, _, _) in columns.items()]))
    good = {name: value for name, (_, value, _) in columns.items()}
    Path("typed.jsonl").write_text(json.dumps(good))  # the last line has no end
    assert run.json("append", "lake", "shop.typed", "typed.jsonl")["rows"] == 1
    told = {"price": "1.25", "at": "2020-01-01T10:00:00+00:00"}
    assert run.json("head", "lake", "shop.typed") == [good | told]
    for name, (_, _, value) in columns.items():
        Path("bad.jsonl").write_text(json.dumps({name: value}))
        run("append", "lake", "shop.typed", "bad.jsonl", code=2)
    assert made.table("shop.typed").to_arrow().num_rows == 1


def test_columns_that_only_late_lines_of_json_have_are_there(made: Lake, run: Command) -> None:
    early = [{"id": number, "n": 3, "at": "2020-01-01", "in": {"a": None}} for number in range(60_000)]
    late = {"id": -1, "n": 1.5, "at": "soon", "in": {"a": "a", "b": [1]}, "note": "important"}
    with Path("late.jsonl").open("w") as file:
        file.writelines(f"{json.dumps(row | {'filling': 'x' * 100})}\n" for row in [*early, late])
    assert Path("late.jsonl").stat().st_size > 8 << 20
    run("create-table", "lake", "shop.late", "--from", "late.jsonl")
    assert run.json("append", "lake", "shop.late", "late.jsonl")["rows"] == len(early) + 1
    for row in run.json("head", "lake", "shop.late", "--where", "id = -1"):
        assert row == late | {"filling": "x" * 100}
    run("create-table", "lake", "shop.narrow", "--schema", "id:int64,n:float64,at:string,filling:string")
    assert "no column 'in'" in run("append", "lake", "shop.narrow", "late.jsonl", code=2)
    Path("parts.json").mkdir()  # as Spark writes
    for part, row in enumerate(({"id": -2}, {"id": -3, "at": "late"})):
        Path("parts.json", f"part-{part}.json").write_text(json.dumps(row))
    Path("parts.json", "_SUCCESS").touch()
    assert run.json("append", "lake", "shop.narrow", "parts.json")["rows"] == 2
    assert run.json("head", "lake", "shop.narrow", "-c", "at", "--where", "id = -3") == [{"at": "late"}]
    Path("empty.json").write_text("\n")
    assert "empty.json has no columns" in run("append", "lake", "shop.narrow", "empty.json", code=2)


def test_values_that_python_has_not_are_shown_all_the_same(made: Lake, run: Command) -> None:
    far, zone = pa.scalar(2**60, pa.timestamp("us")), pa.timestamp("us", "Nowhere/Land")
    names = pa.map_(pa.string(), far.type)
    columns: dict[str, tuple[pa.Array, list[Any]]] = {
        "at": (pa.array([far, None]), [f"{2**60} (timestamp[us])", None]),
        "there": (pa.array([1, None], zone), [f"1 ({zone})", None]),
        "day": (pa.array([2**30, 1], pa.date32()), [f"{2**30} (date32[day])", "1970-01-02"]),
        "inside": (pa.array([{"a": [far]}, {"a": []}]), [{"a": [f"{2**60} (timestamp[us])"]}, {"a": []}]),
        "named": (pa.array([[("x", far)], []], names), [{"x": f"{2**60} (timestamp[us])"}, {}]),
    }
    made.create_table("shop.far", pa.schema([(name, rows.type) for name, (rows, _) in columns.items()]))
    made.table("shop.far").append(pa.table({name: rows for name, (rows, _) in columns.items()}))
    expected = [{name: told[number] for name, (_, told) in columns.items()} for number in range(2)]
    assert run.json("head", "lake", "shop.far") == expected
    assert str(2**60) in run("head", "lake", "shop.far")
    changes = run.json("table", "changes", "lake", "shop.far")["rows"]
    assert [{name: row[name] for name in columns} for row in changes] == expected


def test_what_pandas_alone_can_hold_is_shown_without_it() -> None:
    script = """
import sys
from importlib.abc import MetaPathFinder

class Missing(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name == "pandas":
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Missing())
import pyarrow as pa
from seiche.cli.values import rows_of, shown

[row] = rows_of(pa.table({"v": pa.array([1], pa.timestamp("ns"))}))
print(shown(row["v"]))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("1970-01-01 00:00:00.000000001\n", "")


def _write(path: Path, columns: dict[str, list[Any]]) -> None:
    rows = pa.table(columns)
    write: dict[str, Callable[[], Any]] = {
        ".parquet": lambda: pq.write_table(rows, path),
        ".arrow": lambda: feather.write_feather(rows, str(path)),
        ".csv": lambda: csv.write_csv(rows, path),
        ".json": lambda: path.write_text("".join(f"{json.dumps(row)}\n" for row in rows.to_pylist())),
    }
    write[path.suffix]()


@pytest.mark.parametrize("kind", ["parquet", "arrow", "csv", "json"])
def test_files_in_a_folder_have_each_its_own_columns(made: Lake, run: Command, kind: str) -> None:
    folder = Path(f"parts.{kind}")
    folder.mkdir()
    _write(folder / f"a.{kind}", {"id": [1]})
    _write(folder / f"b.{kind}", {"late": ["there"], "id": [2]})
    run("create-table", "lake", "shop.parts", "--from", str(folder))
    both: list[dict[str, Any]] = [{"id": 1, "late": None}, {"id": 2, "late": "there"}]
    nothing = [row | {"late": row["late"] or ""} for row in both]  # a CSV cannot tell
    assert run.json("head", "lake", "shop.parts") in (both, nothing)
    run("create-table", "lake", "shop.whole", "--like", "shop.parts")
    assert run.json("append", "lake", "shop.whole", str(folder))["rows"] == 2
    assert run.json("head", "lake", "shop.whole", "-c", "late", "--where", "id = 2") == [{"late": "there"}]
    (folder / "day=1").mkdir()  # what Spark writes by partitionBy
    _write(folder / "day=1" / f"c.{kind}", {"id": [3]})
    for words in (("append", "lake", "shop.whole", str(folder)), ("create-table", "lake", "shop.x", "--from", folder)):
        assert "such as day=1" in run(*map(str, words), code=2)
    assert made.table("shop.whole").to_arrow().num_rows == 2
    Path(f"empty.{kind}").mkdir()
    assert f"empty.{kind} has no columns" in run("create-table", "lake", "shop.x", "--from", f"empty.{kind}", code=2)


def test_whole_numbers_that_no_float_can_tell_apart_are_not_made_floats(made: Lake, run: Command) -> None:
    large, csv_, json_ = 2**64 - 1, Path("ids.csv"), Path("ids.json")
    csv_.write_text(f"id,size\n{large},1.5\n1,{10**22}\n")
    json_.write_text(f'{{"id": {large}, "size": {10**22}, "text": "\\"{large}"}}\n')
    for path in (csv_, json_):
        assert f"whole number {large}" in run("create-table", "lake", "shop.ids", "--from", str(path), code=2)
    run("create-table", "lake", "shop.ids", "--schema", "id:uint64,size:float64,text:string")
    for path in (csv_, json_):
        run("append", "lake", "shop.ids", str(path))
    assert sorted(row["id"] for row in made.table("shop.ids").to_arrow().to_pylist()) == [1, large, large]
    json_.write_text(f'{{"id": {2**63 - 1}, "size": {10**22}, "text": "{large}"}}\n')
    run("create-table", "lake", "shop.all", "--from", str(json_))
    assert run.json("head", "lake", "shop.all") == [{"id": 2**63 - 1, "size": 1e22, "text": str(large)}]
    csv_.write_text(f"id,size\n{large},1\n1.5,{10**22}\n")  # nor if others of the column have fractions
    assert f"whole number {large}" in run("create-table", "lake", "shop.floats", "--from", str(csv_), code=2)
    csv_.write_text(f"id,size\n{large}.0,1\n1.5,{10**22}\n")  # whoever writes fractions means floats
    run("create-table", "lake", "shop.floats", "--from", str(csv_))


def test_files_of_texts_that_are_not_utf_8_are_refused(made: Lake, run: Command) -> None:
    texts = {"name.csv": "Größe,id\na,1\n", "value.csv": "name,id\nGröße,1\n", "value.json": '{"name": "Größe"}\n'}
    for name, text in texts.items():
        Path(name).write_text(text, "latin-1")
        assert "UTF-8" in run("create-table", "lake", "shop.texts", "--from", name, code=2)
    Path("list.json").write_text('[{"id": 1}, {"id": 2}]')
    assert "one object in each line" in run("create-table", "lake", "shop.texts", "--from", "list.json", code=2)
    assert "shop.texts" not in run("ls", "lake")


def test_what_looks_like_a_time_in_json_stays_a_text_in_a_column_of_texts(made: Lake, run: Command) -> None:
    run("create-table", "lake", "shop.said", "--schema", "said:string,at:timestamp[us]")
    Path("said.jsonl").write_text('{"said": "2020-01-01", "at": "2020-01-01T10:00:00"}\n')
    run("append", "lake", "shop.said", "said.jsonl")
    assert run.json("head", "lake", "shop.said") == [{"said": "2020-01-01", "at": "2020-01-01T10:00:00"}]


def test_how_many_rows_were_taken_is_shown_on_a_terminal(made: Lake) -> None:
    code, shown = on_a_terminal("append", "lake", "shop.orders", "more.csv")
    assert code == 0
    assert "adding" in shown
    assert "2 rows came to shop.orders" in shown


def test_what_stands_in_a_row_cannot_drive_the_terminal(made: Lake, run: Command) -> None:
    told = "\x1b]0;mine\x07\x00\x9b31m\rred \U0001f468\u200d\U0001f469 \u65e5"
    made.create_table("shop.notes", pa.schema([("told", pa.string())])).append([{"told": told}])
    for words in (("head", "lake", "shop.notes"), ("table", "changes", "lake", "shop.notes")):
        shown = run(*words)
        assert r"\x1b]0;mine\x07\x00\x9b31m\x0dred" in shown
        assert not {"\x1b", "\x07", "\x00", "\x9b", "\r"} & set(shown)
    assert run.json("head", "lake", "shop.notes") == [{"told": told}]


def test_what_is_renamed_or_dropped_can_be_brought_back(made: Lake, run: Command) -> None:
    before = str(made.version)
    assert run.json("rename-table", "lake", "shop.orders", "shop.sales") == {"name": "shop.sales", "version": 6}
    assert run("drop-table", "lake", "shop.sales") == "shop.sales is gone, in version 7.\n"
    assert run("drop-namespace", "lake", "shop") == "shop is gone, in version 8.\n"
    assert "there is no namespace shop. 'seiche ls' lists" in run("drop-namespace", "lake", "shop", code=2)
    run("rollback", "lake", before, "--yes")
    assert len(run.json("head", "lake", "shop.orders")) == 2


def test_values_as_they_are_read() -> None:
    moment = datetime(2030, 1, 31, 12, 30, tzinfo=ZoneInfo("Europe/Berlin"))
    assert (shown(None), shown([])) == ("NULL", "[]")
    assert (shown(b"\x00\xff"), shown(moment), shown("é"), shown(1.5)) == ("00ff", "2030-01-31 12:30:00", "é", "1.5")
    assert shown([{"a": [1, None]}, moment]) == '[{"a": [1, null]}, "2030-01-31T12:30:00+01:00"]'
    assert shown([("k", b"\x01"), (moment, None)]) == '{"k": "01", "2030-01-31T12:30:00+01:00": null}'
    assert plain({1: [("k", {"x": ()})]}) == {"1": {"k": {"x": []}}}


def test_the_log_and_a_diff_as_people_read_them(made: Lake, run: Command) -> None:
    lines = run("log", "lake", "-n", "2").splitlines()
    assert re.fullmatch(r"version +time \(UTC\) +tags +what *", lines[0])
    assert re.fullmatch(r"5 +20\S+ \d\d:\d\d:\d\d +changed table shop\.orders *", lines[2])
    assert len(lines) == 4
    assert re.search(r"^3 .* nightly +changed table shop\.orders", run("log", "lake"), re.MULTILINE)
    shown = run("diff", "lake", "nightly", "5")
    assert re.search(r"changed +table +shop\.orders +version 2 to 3; Delete; rows \+0 -1 = 2", shown)
    made.run(lambda tx: tx.alter_namespace("shop", {"owner": "me"}))
    assert re.search(r"changed +namespace +shop +owner: None to me", run("diff", "lake", "5"))
    assert "\x1b" not in shown


def test_versions_and_times(made: Lake, run: Command) -> None:
    assert run.json("show", "lake", "shop.orders", "--version", "nightly")["rows"] == 3
    assert run.json("show", "lake", "shop.orders", "--as-of", "2999-01-01")["rows"] == 2
    assert "has no time" not in run("ls", "lake", "--as-of", "2999-01-01T10:00:00+01:00")
    assert "did not exist yet" in run("ls", "lake", "--as-of", "2001-01-01", code=2)
    assert "is not a time" in run("ls", "lake", "--as-of", "tomorrow", code=2)
    assert "not both" in run("ls", "lake", "--as-of", "2999-01-01", "--version", "1", code=2)


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        ("init lake", 2, "already holds a lake"),
        ("ls nowhere", 2, "holds no lake"),
        ("ls lake nowhere", 2, "no namespace nowhere"),
        ("ls lake --version 99", 2, "version 99"),
        ("show lake shop.nothing", 2, "does not exist"),
        ("show lake shop.orders --version weekly", 2, "no tag 'weekly'"),
        ("create-namespace lake shop", 2, "already"),
        ("create-namespace lake a.b", 2, "no namespace a"),
        ("create-namespace lake x -p nonsense", 2, "not a property"),
        ("create-table lake shop.orders --schema id:int64", 2, "already"),
        ("create-table lake shop.t", 2, "which columns"),
        ("create-table lake shop.t --schema id:int64 --format excel", 2, "excel"),
        ("create-table lake shop.t --schema id:int64 --format iceberg --stable-row-ids", 2, "stable row ids"),
        ("create-table lake shop.t --schema id:int64 --like shop.orders", 2, "which columns"),
        ("create-table lake shop.t --schema id:nonsense", 2, "no type"),
        ("create-table lake shop.t --schema id", 2, "not a column"),
        ("create-table lake shop.t --from missing.csv", 2, "no file missing.csv"),
        ("create-table lake shop.t --schema id:int64 --format excel", 2, "no format 'excel'"),
        ("create-table lake shop.t --from prices.doc", 2, "known kind"),
        ("create-table lake shop.t --from german.csv", 2, "seem to have ';' between them"),
        ("create-table lake shop.t --from german.csv --delimiter ab", 2, "'ab' cannot stand between values"),
        ('create-table lake shop.t --from german.csv --delimiter "', 2, "cannot stand between values"),
        ("create-table lake shop.t --from german.json --delimiter ;", 2, "is no CSV"),
        ("create-table lake shop.t --like shop.orders --delimiter ;", 2, "about a file"),
        ("append lake shop.orders german.csv", 2, "Say --delimiter ';'; or --delimiter ','"),
        ("head lake shop.orders -c id -c total -c id", 2, "column 'id' is asked for twice"),
        ("tag lake nightly", 2, "already"),
        ("tag lake 12", 2, "is a number"),
        ("tag lake later 99", 2, "99"),
        ("untag lake weekly", 2, "no tag"),
        ("diff lake 1 99", 2, "99"),
        ("log lake --since weekly", 2, "no tag"),
        ("rollback lake 99 --yes", 2, "99"),
        ("rollback lake 1 --yes --table shop.nothing", 2, "no table or view"),
        ("rollback lake 1 --yes --expected-version 2", 3, "at version 5, not at 2"),
        ("rollback lake 1", 2, "nobody is there to ask"),
        ("rollback lake 1 --json", 2, "nobody is there to ask"),
        ("export lake nightly copy", 2, "a tag 'nightly'"),
        ("export lake 12 copy", 2, "is a number"),
        ("export lake a/b copy", 2, "cannot be a name of an export"),
        ("export lake x copy --version 99", 2, "99"),
        ("export lake x copy --mode some", 2, "mode 'some'"),
        ("export lake x copy --mode partial", 2, "some tables"),
        ("export lake x copy --table shop.nothing", 2, "does not exist"),
        ("export lake x lake/copy", 2, "inside of each other"),
        ("export lake x . ", 2, "inside of each other"),
        ("export lake x copy --version 1 --as-of 2999-01-01", 2, "not both"),
        ("unexport lake x", 2, "no export"),
    ],
)
def test_mistakes(made: Lake, run: Command, arguments: str, code: int, said: str) -> None:
    assert said in run(*arguments.split(), code=code)
    assert made.version == 5, "nothing was written"


def test_a_file_that_turns_out_to_be_broken_makes_no_table(made: Lake, run: Command) -> None:
    Path("broken.csv").write_text("n,note\n" + f"1,{'x' * 10_000}\n" * 1000 + "x,\n")
    assert "broken.csv cannot be read" in run("create-table", "lake", "shop.broken", "--from", "broken.csv", code=2)
    assert made.tables("shop") == [("shop", "orders")]


def test_a_status_for_scripts(made: Lake, run: Command) -> None:
    with made.transaction() as done:
        done.create_namespace("x")
    assert run.json("status", "lake", done.id) == {"transaction": done.id, "outcome": "committed", "version": 6}
    other = made.transaction()
    assert run("status", "lake", other.id, code=4) == "undecided\n"
    made.settle(other.id)
    assert json.loads(cli_output("status", "lake", other.id, "--json", code=3))["outcome"] == "aborted"


def cli_output(*arguments: str, code: int) -> str:
    done = subprocess.run([COMMAND, *arguments], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (code, "")
    return done.stdout


def test_a_rollback_asks_first(made: Lake) -> None:
    code, shown = on_a_terminal("rollback", "lake", "nightly", answer="n\n")
    assert (code, made.version) == (1, 5)
    assert "rows +1 -0 = 3" in shown
    assert "Nothing was changed." in shown
    assert "\x1b[33mchanged" in shown, "in colours, on a terminal"
    code, shown = on_a_terminal("rollback", "lake", "nightly", answer="y\n")
    assert (code, made.version) == (0, 6)
    assert made.table("shop.orders").to_arrow().num_rows == 3


def test_what_was_shown_is_what_is_done_or_nothing(made: Lake, run: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    def agree(would: Any, as_json: bool) -> None:
        made.table("shop.orders").delete("id = 3")  # somebody else, while the user thinks

    monkeypatch.setattr(history, "_ask", agree)
    assert "at version 6, not at 5" in run("rollback", "lake", "nightly", code=3)
    assert made.version == 6


def test_names_are_shown_as_they_are(made: Lake, run: Command) -> None:
    made.create_namespace("[red]x:smile:")
    assert "[red]x:smile:" in run("ls", "lake")
    assert "[red]x:smile:" in run("log", "lake")


def test_commands_complete_in_a_shell() -> None:
    asked = os.environ | {"_SEICHE_COMPLETE": "complete_bash", "COMP_WORDS": "seiche roll", "COMP_CWORD": "1"}
    done = subprocess.run([COMMAND], capture_output=True, text=True, check=False, env=asked)
    assert done.stdout.split() == ["rollback"]


def test_columns_in_a_line() -> None:
    text = (
        "id:int64!, name: string ,at:timestamp[us],tags:list<list<string>>,v:float32[8],p:decimal(10,2),d:date32[day]"
    )
    assert parse_columns(text) == pa.schema(
        [
            pa.field("id", pa.int64(), nullable=False),
            ("name", pa.string()),
            ("at", pa.timestamp("us")),
            ("tags", pa.list_(pa.list_(pa.string()))),
            ("v", pa.list_(pa.float32(), 8)),
            ("p", pa.decimal128(10, 2)),
            ("d", pa.date32()),
        ]
    )
    for wrong in (
        "",
        "id",
        "id:",
        ":int64",
        "a:int64,,b:int64",
        "a:list<>",
        "a:list<nope>",
        "a:decimal(99,2)",
        f"a:float[{10**20}]",
        f"a:decimal({10**20},2)",
        "a:" + "list<" * 2000 + "int64" + ">" * 2000,
        "a:x[3]",
    ):
        with pytest.raises(InvalidInput):
            parse_columns(wrong)


def test_an_export_and_what_became_of_it(made: Lake, run: Command, tmp_path: Path) -> None:
    done = run.json("export", "lake", "x", "copy", "--version", "nightly", "--table", "shop.orders")
    assert (done["version"], done["mode"], done["tables"], done["done"]) == (3, "full", ["shop.orders"], True)
    assert done["location"] == f"file://{tmp_path}/copy"
    assert seiche.open("copy").table("shop.orders").to_arrow().num_rows == 3
    assert [one["name"] for one in run.json("exports", "lake")] == ["x"]
    assert re.search(r"^x +3 +full +yes +20", run("exports", "lake"), re.MULTILINE)
    assert "already" in run("export", "lake", "x", "copy", code=2)
    assert "copy is not empty" in run("export", "lake", "y", "copy", code=2)
    assert run.json("show", "lake", "shop.orders", "--version", "x")["rows"] == 3
    assert run.json("unexport", "lake", "x") == {"name": "x"}
    assert run.json("export", "lake", "z", "other", "--as-of", "2999-01-01")["tags"] == {"nightly": 3}


def test_an_export_shows_how_far_it_is_to_whoever_looks(made: Lake) -> None:
    code, shown = on_a_terminal("export", "lake", "x", "copy")
    assert code == 0
    assert "exporting" in shown
    assert "\x1b[32mVersion 5 is in" in shown


def test_an_address_that_is_empty_is_no_lake_of_another_name(
    made: Lake, run: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SEICHE_LAKE", made.uri)
    assert run.json("runs") == []
    assert "'' is not the address of a store" in run("runs", "", code=2)  # as "$LAKE" is, where nobody has set it


def test_limits_are_as_large_as_numbers_of_rows_can_be(made: Lake, run: Command) -> None:
    made.create_table("shop.some", [{"id": 1}]).append([{"id": 2}])
    for words in (("head", "lake", "shop.some"), ("table", "changes", "lake", "shop.some"), ("log", "lake")):
        run(*words, "-n", str((1 << 63) - 1))
        assert "Invalid value for '--limit'" in run(*words, "-n", str(1 << 63), code=2)


@pytest.mark.parametrize("words", [[""], ["-e", " ; "], ["-e", "-- nothing"]])
def test_sql_that_says_nothing_is_refused_before_anything_is_started(
    made: Lake, run: Command, monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    monkeypatch.setattr("seiche.cli.sql._session", None)
    assert "there is no statement" in run("sql", "lake", *words, code=2)


def test_a_pipe_without_a_statement_is_done_before_anything_is_started(
    made: Lake, run: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("seiche.cli.sql._session", None)
    monkeypatch.setattr("sys.stdin", io.StringIO("-- nothing yet\n"))
    assert run("sql", "lake") == ""
