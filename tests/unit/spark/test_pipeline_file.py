"""Pipelines in YAML: what they say, in which order they run, and mistakes by file and line. No Spark is needed."""

import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from jsonschema import Draft202012Validator

import seiche
from seiche.cli import main
from seiche.errors import InvalidInput, NotFound
from seiche.spark.pipeline.definition import Definition
from seiche.spark.pipeline.plan import plan
from seiche.spark.pipeline.run import run
from seiche.spark.pipeline.yaml_file import load, schema

GOOD = """\
lake: lake
sources:
  raw: {format: csv, path: "orders/*.csv", options: {header: true}}
  seen: {table: shop.visits, new: true}
steps:
  - table: shop.customers
    mode: overwrite
    sql: SELECT customer, count(*) AS orders FROM shop.orders GROUP BY customer
  - table: shop.orders
    mode: merge
    key: id
    sql: WITH own AS (SELECT * FROM raw) SELECT id, customer, amount FROM own
  - table: shop.calls
    mode: append
    sql: SELECT * FROM seen
checks:
  - name: positive
    sql: SELECT count(*) FROM shop.orders WHERE amount <= 0
    expect: 0
  - unique: {table: shop.orders, columns: id}
  - foreign_key: {table: shop.orders, columns: [customer], references: shop.customers}
"""


def loaded(folder: Path, text: str) -> Definition:
    (folder / "shop.yaml").write_text(text)
    return load(folder / "shop.yaml")


def refused(folder: Path, text: str) -> str:
    """What is said of a pipeline that cannot be right."""
    with pytest.raises(InvalidInput) as raised:
        plan(loaded(folder, text))
    return str(raised.value).replace(f"{folder}/", "")


def test_a_pipeline_as_it_is_written(tmp_path: Path) -> None:
    found = loaded(tmp_path, GOOD)
    assert (found.name, found.lake) == ("shop", str(tmp_path / "lake"))
    assert [source.name for source in found.sources] == ["raw", "seen"]
    assert found.sources[0].options == {"header": "true"}  # as Spark writes it
    assert found.steps[1].key == ("id",)
    assert found.steps[1].place.line == 9
    assert [check.name for check in found.checks] == [
        "positive",
        "shop.orders: id unique",
        "shop.orders: customer in shop.customers",
    ]


def test_the_order_comes_from_the_queries(tmp_path: Path) -> None:
    planned = plan(loaded(tmp_path, GOOD))
    assert [[step.table for step in stage] for stage in planned.stages] == [
        ["shop.orders", "shop.calls"],
        ["shop.customers"],
    ]
    assert planned.reads["shop.orders"] == {"raw"}
    assert set(planned.tables_needed) == {"shop.visits"}


def test_a_step_may_read_what_its_own_table_was(tmp_path: Path) -> None:
    planned = plan(loaded(tmp_path, GOOD.replace("SELECT * FROM seen", "SELECT * FROM shop.calls")))
    assert len(planned.stages) == 2


@pytest.mark.parametrize(
    ("select", "steps"),
    [
        (["shop.orders"], ["shop.orders"]),
        (["shop.orders+"], ["shop.orders", "shop.customers"]),
        (["+shop.customers"], ["shop.orders", "shop.customers"]),
        (["shop.customers", "shop.calls"], ["shop.calls", "shop.customers"]),
    ],
)
def test_some_steps(tmp_path: Path, select: list[str], steps: list[str]) -> None:
    planned = plan(loaded(tmp_path, GOOD), select)
    assert [step.table for step in planned.steps] == steps


def test_a_step_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"--select shop\.carts\+: there is no step shop\.carts"):
        plan(loaded(tmp_path, GOOD), ["shop.carts+"])


MISTAKES = {
    "unknown mode": ("mode: merge", "mode: upsert", "shop.yaml:10: steps.1.mode: 'upsert' is not one of"),
    "merge without key": ("    key: id\n", "", "shop.yaml:9: steps.1: 'key' is missing"),
    "key without merge": (
        "mode: append",
        "mode: append\n    key: id",
        "shop.yaml:13: steps.2: 'key' is not for this mode",
    ),
    "unknown word": ("mode: append", "moode: append", "shop.yaml:14: steps.2: unknown 'moode'; known here: format"),
    "no steps": (GOOD[GOOD.index("steps") :], "", "shop.yaml:1: the pipeline: 'steps' is missing"),
    "said twice": ("lake: lake\n", "lake: lake\nlake: lake\n", "shop.yaml:2: 'lake' is said twice"),
    "not YAML": ("lake: lake", "lake: [", "shop.yaml:3: this is not YAML"),
    "a list": (GOOD, "- a\n", "shop.yaml:1: a pipeline is a mapping"),
    "table and files": (
        "table: shop.visits",
        "table: a.b, path: x",
        "shop.yaml:4: sources.seen: 'table' does not go with 'path'",
    ),
    "unknown source": (
        "FROM raw",
        "FROM rows",
        "shop.yaml:9: 'rows' is not a source of this pipeline (there are: raw, seen)",
    ),
    "no query": (
        "SELECT * FROM seen",
        "DELETE FROM shop.calls",
        "shop.yaml:13: the query of shop.calls: Delete (DELETE FROM shop.calls) is not a query",
    ),
    "two queries": (
        "SELECT * FROM seen",
        "SELECT 1; SELECT 2",
        "shop.yaml:13: the query of shop.calls: one query was expected",
    ),
    "bad SQL": ("FROM seen", "FROM FROM (", "shop.yaml:13: the query of shop.calls: the query is not understood"),
    "bad check": ("WHERE amount <= 0", "WHERE (", "shop.yaml:17: check 'positive': the query is not understood"),
    "a circle": ("FROM raw", "FROM shop.customers", "steps wait for each other: shop.customers <- shop.orders"),
    "made twice": ("table: shop.calls", "table: shop.orders", "shop.yaml:13: shop.orders is made by another step too"),
    "no such index": (
        "mode: append",
        "mode: append\n    index: {id: QUANTUM}",
        "shop.yaml:13: shop.calls: index: there is no kind 'QUANTUM' (for id)",
    ),
    "index of Iceberg": (
        "mode: append",
        "mode: append\n    format: iceberg\n    index: {id: BTREE}",
        "shop.yaml:13: shop.calls is an Iceberg table",
    ),
    "no namespace": ("table: shop.calls", "table: calls", "shop.yaml:13: 'calls' is not the name of a table"),
    "two kinds of check": (
        "    expect: 0",
        "    expect: 0\n    unique: {table: a.b, columns: c}",
        "checks.0: exactly one of",
    ),
    "no columns": ("columns: id}", "columns: []}", "shop.yaml:20: checks.1.unique.columns: it is empty"),
    "keys of two lengths": (
        "columns: [customer]",
        "columns: [customer, id], to: id",
        "shop.yaml:21: foreign_key: 2 columns",
    ),
    "bad duration": (
        "unique: {table: shop.orders, columns: id}",
        "fresh: {table: shop.orders, column: at, within: soon}",
        "shop.yaml:20: within cannot be 'soon'",
    ),
    "unknown word of the pipeline": (
        "checks:",
        "schedule: daily\nchecks:",
        "shop.yaml:16: the pipeline: unknown 'schedule'; known here: checks, lake, name, sources, steps",
    ),
    "nothing said": (
        "steps:",
        "name:\nsteps:",
        "shop.yaml:5: name: nothing is said here, and a text was expected",
    ),
    "a list for a text": ("lake: lake", "lake: [lake]", "shop.yaml:1: lake: this is a list, and a text was expected"),
    "a mapping for a list": (
        GOOD[GOOD.index("checks") :],
        "checks: {name: a}",
        "shop.yaml:16: checks: this is a mapping, and a list was expected",
    ),
    "a number for a text": (
        "- name: positive",
        "- name: 5",
        "shop.yaml:17: checks.0.name: this is the number 5, and a text was expected: write it in quotes",
    ),
    "a column that YAML takes for no": (
        "columns: id}",
        "columns: [id, no]}",
        "shop.yaml:20: checks.1.unique.columns.1: YAML takes this for true or false, and a text was expected: write it",
    ),
    "a day without quotes": (
        "expect: 0",
        "expect: 2030-01-31",
        "shop.yaml:19: checks.0.expect: YAML takes this for a date, and a text, a number or true or false was expected",
    ),
    "a word that is no text": ("raw: {", "1: {", "shop.yaml:3: sources: 1 is no text: write it in quotes"),
    "a source of two words": (
        "raw: {",
        "raw-orders: {",
        "shop.yaml:3: sources: 'raw-orders' cannot be the name of a source: letters, digits and _ only",
    ),
    "an empty text": ("lake: lake", "lake: ''", "shop.yaml:1: lake: it is empty"),
    "an empty key": ("key: id", "key: []", "shop.yaml:11: steps.1.key: it is empty"),
    "two documents": ("checks:", "---\nchecks:", "shop.yaml:16: this is not YAML: expected a single document in the"),
    "itself": ("lake: lake", "lake: &a [*a]", "shop.yaml:1: this repeats itself without end"),
    "rows without a bound": (
        "unique: {table: shop.orders, columns: id}",
        "rows: {table: shop.orders}",
        "shop.yaml:20: checks.1.rows: 'at_least' or 'at_most' is missing",
    ),
    "a word for another": (
        "mode: append",
        "mode: append\n    reads: [seen]",
        "shop.yaml:13: steps.2: 'reads' goes with 'python' only",
    ),
    "a value and bounds": (
        "expect: 0",
        "expect: 0\n    at_least: 0",
        "shop.yaml:17: checks.0: 'expect' does not go with 'at_least' and 'at_most'",
    ),
    "bounds that nothing meets": (
        "expect: 0",
        "at_least: 5\n    at_most: 1",
        "shop.yaml:17: check 'positive': no value is at least 5 and at most 1",
    ),
    "a name with a hole": ("table: shop.calls", "table: shop..calls", "shop.yaml:13: 'shop..calls' is not the name of"),
    "a source that is no table": (
        "table: shop.visits",
        "table: visits",
        "shop.yaml:4: source seen: 'visits' is not the name of a table",
    ),
    "the records of runs": (
        "table: shop.calls",
        "table: seiche.runs",
        "shop.yaml:13: seiche.runs is where runs are kept: no step makes it",
    ),
    "offsets": (
        "table: shop.calls",
        "table: seiche.offsets.shop",
        "shop.yaml:13: seiche.offsets.shop is where runs are kept: no step makes it",
    ),
    "new of what has no files": (
        "table: shop.visits",
        "format: jdbc",
        "shop.yaml:4: source seen: what is new in it is known of files under a `path` and of tables only",
    ),
    "a pipeline whose offsets have no name": (
        "lake: lake",
        "name: a shop\nlake: lake",
        "shop.yaml:5: source seen: how far it was read is kept under the name of the pipeline, and 'a shop' cannot be",
    ),
    "bad condition": (
        "mode: append",
        "mode: replace_where\n    where: id = = 1",
        "shop.yaml:13: `where` of shop.calls: the query is not understood",
    ),
    "a condition with an open quote": (
        "mode: append",
        "mode: replace_where\n    where: id = 'x",
        "`where` of shop.calls: the statement cannot be read: what opens here is never closed, at line 1, column 6",
    ),
    "a query as condition": (
        "mode: append",
        "mode: replace_where\n    where: id IN (SELECT id FROM seen)",
        "shop.yaml:13: `where` of shop.calls reads seen",
    ),
    "a key twice": ("key: id", "key: [id, id]", "shop.yaml:9: shop.orders: `key` names id twice"),
    "which line of the query": (
        "sql: SELECT * FROM seen",
        "sql: |\n      SELECT a,\n        b c d\n      FROM seen",
        "the query is not understood: d was not expected, at line 2, column 7 of the query",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_are_named(tmp_path: Path, mistake: str) -> None:
    wrong, instead, said = MISTAKES[mistake]
    assert wrong in GOOD
    assert said in refused(tmp_path, GOOD.replace(wrong, instead, 1))


@pytest.mark.parametrize(
    ("wrong", "instead", "said"),
    [
        ("FROM raw", "FROM rows", "shop.yaml:9: 'rows' is not a source"),
        ("FROM raw", "FROM shop.customers", "steps wait for each other"),
        ("SELECT * FROM seen", "SELECT FROM WHERE", "shop.yaml:13: the query of shop.calls"),
        ("WHERE amount <= 0", "WHERE (", "shop.yaml:17: check 'positive'"),
        ("orders/*.csv", "nowhere/*.csv", "shop.yaml:3: source raw: there is no"),
        ("", "", "shop.yaml:4: source seen: there is no table shop.visits"),
        ("table: shop.visits", "table: shop.orders", "shop.yaml:4: source seen: there is no table shop.orders yet"),
    ],
)
def test_the_command_names_mistakes_before_spark_starts(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    wrong: str,
    instead: str,
    said: str,
) -> None:
    def started(*_: object) -> None:
        raise AssertionError("Spark was started")

    monkeypatch.setattr("seiche.cli.run._session", started)
    (tmp_path / "orders").mkdir()
    (tmp_path / "orders" / "first.csv").touch()
    (tmp_path / "shop.yaml").write_text(GOOD.replace(wrong, instead, 1) if wrong else GOOD)
    assert main(["run", str(tmp_path / "shop.yaml")]) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("wrong", "instead", "said"),
    [
        ("orders/*.csv", "nowhere/*.csv", "shop.yaml:3: source raw: there is no"),
        ("", "", "shop.yaml:4: source seen: there is no table shop.visits"),
        ("seen: {table: shop.visits, new: true}", "seen: {format: csv, path: orders}", ""),
    ],
)
def test_a_plan_is_shown_only_if_what_it_reads_is_there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], wrong: str, instead: str, said: str
) -> None:
    (tmp_path / "orders").mkdir()
    (tmp_path / "orders" / "first.csv").touch()
    (tmp_path / "shop.yaml").write_text(GOOD.replace(wrong, instead, 1) if wrong else GOOD)
    code = main(["run", str(tmp_path / "shop.yaml"), "--dry-run"])
    shown = capsys.readouterr()
    assert code == (2 if said else 0)
    assert said in shown.err if said else "shop.calls" in shown.out
    assert not (tmp_path / "lake").exists()


def test_a_plan_on_a_lake(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lake = seiche.create(str(tmp_path / "lake"))
    (tmp_path / "orders").mkdir()
    (tmp_path / "orders" / "first.csv").touch()
    (tmp_path / "shop.yaml").write_text(GOOD)
    assert main(["run", str(tmp_path / "shop.yaml"), "--dry-run"]) == 2
    assert "there is no table shop.visits" in capsys.readouterr().err
    lake.create_namespace("shop")
    lake.create_table("shop.visits", pa.schema([("id", pa.int64())]))
    assert main(["run", str(tmp_path / "shop.yaml"), "--dry-run"]) == 0
    assert "stage" in capsys.readouterr().out
    assert lake.version == 2
    (tmp_path / "shop.yaml").write_text(GOOD.replace("table: shop.visits", "table: shop.orders"))
    lake.create_table("shop.orders", pa.schema([("id", pa.int64())]), format="iceberg")
    assert main(["run", str(tmp_path / "shop.yaml"), "--dry-run"]) == 2
    assert "what is new in shop.orders, an Iceberg table, is not known" in capsys.readouterr().err


@pytest.mark.parametrize("run_id", ["", "  ", 20300131])
def test_a_run_id_that_was_forgotten_is_refused_before_anything_is_made(tmp_path: Path, run_id: Any) -> None:
    """As an id that is new each time, it would publish twice what is to be published once."""
    text = "lake: lake\nsteps:\n  - {table: shop.one, sql: SELECT 1 AS x}\n"

    def started() -> Any:
        raise AssertionError("Spark is not needed to see that")

    with pytest.raises(InvalidInput, match="run id"):
        run(loaded(tmp_path, text), started, run_id=run_id)
    assert not (tmp_path / "lake").exists()


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match=re.escape("there is no file")):
        load(tmp_path / "none.yaml")


def test_steps_in_python(tmp_path: Path) -> None:
    (tmp_path / "steps.py").write_text("def calls(seen):\n    return seen\n")
    text = GOOD.replace("sql: SELECT * FROM seen", "python: steps.py:calls\n    reads: [seen]")
    step = loaded(tmp_path, text).steps[2]
    assert step.make is not None
    rows: Any = object()
    assert step.make(rows) is rows
    assert "names no function" in refused(tmp_path, text.replace(":calls\n", ":others\n"))
    (tmp_path / "steps.py").write_text("1 / 0")
    assert "ZeroDivisionError" in refused(tmp_path, text)
    (tmp_path / "steps.py").write_text("raise SystemExit(3)")
    assert "cannot be imported: SystemExit: 3" in refused(tmp_path, text)


@pytest.mark.parametrize(("reads", "count"), [("", 0), ("\n    reads: [seen, raw]", 2)])
def test_a_step_in_python_that_wants_something_else(tmp_path: Path, reads: str, count: int) -> None:
    (tmp_path / "steps.py").write_text("def calls(seen):\n    return seen\n")
    text = GOOD.replace("sql: SELECT * FROM seen", f"python: steps.py:calls{reads}")
    said = f"shop.yaml:13: step shop.calls: calls(seen) cannot be called with {count} frames"
    assert said in refused(tmp_path, text)


def test_the_published_schema_is_one() -> None:
    Draft202012Validator.check_schema(schema())
