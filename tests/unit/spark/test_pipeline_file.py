"""Pipelines in YAML: what they say, in which order they run, and mistakes by file and line. No Spark is needed."""

import re
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from seiche.cli import main
from seiche.errors import InvalidInput, NotFound
from seiche.spark.pipeline.definition import Definition
from seiche.spark.pipeline.plan import plan
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
    "unknown word": ("mode: append", "moode: append", "shop.yaml:13: steps.2: unknown 'moode'; known here: format"),
    "no steps": (GOOD[GOOD.index("steps") :], "", "shop.yaml:1: the pipeline: 'steps' is missing"),
    "said twice": ("lake: lake\n", "lake: lake\nlake: lake\n", "shop.yaml:2: 'lake' is said twice"),
    "not YAML": ("lake: lake", "lake: [", "shop.yaml:3: this is not YAML"),
    "a list": (GOOD, "- a\n", "shop.yaml:1: a pipeline is a mapping"),
    "table and files": ("table: shop.visits", "table: a.b, path: x", "shop.yaml:4: sources.seen: exactly one of"),
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
    "no columns": ("columns: id}", "columns: []}", "shop.yaml:20: checks.1.unique.columns: []"),
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


def test_the_published_schema_is_one() -> None:
    Draft202012Validator.check_schema(schema())
