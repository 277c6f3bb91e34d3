"""What is new in a source: each file and row once, whatever files are called, and whichever steps are run."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import seiche
from seiche.errors import InvalidInput
from seiche.spark.pipeline.definition import Definition
from seiche.spark.pipeline.run import Run, run
from seiche.spark.pipeline.yaml_file import load

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Runs = Callable[..., Run]

COPY = """\
lake: lake
sources: {raw: {format: FORMAT, path: "PATH", SCHEMA new: true}}
steps: [{table: s.copy, mode: append, sql: SELECT * FROM raw}]
"""
# Each is something else than itself to whoever takes a name for an address or a pattern.
NAMES = [
    "a b",
    "a%20b",
    "a+b",
    "e[1]",
    "e1",
    "f{g,h}",
    "fg",
    "j?k",
    "jxk",
    "n#1",
    "100%",
    "é",
    "qu'ote",
    "st*r",
    "sem;i",
]


@pytest.fixture
def runs(tmp_path: Path, spark: "SparkSession") -> Runs:
    """Runs the pipeline of this text in a folder of its own."""

    def done(text: str, **options: Any) -> Run:
        (tmp_path / "shop.yaml").write_text(text)
        definition: Definition = load(tmp_path / "shop.yaml")
        return run(definition, spark, **options)

    return done


def values(folder: Path, table: str, *columns: str) -> list[Any]:
    rows = seiche.open(str(folder / "lake")).table(table).to_arrow().select(list(columns)).to_pylist()
    return sorted(tuple(row.values()) if len(columns) > 1 else row[columns[0]] for row in rows)


def test_files_of_any_name(runs: Runs, tmp_path: Path) -> None:
    text = COPY.replace("FORMAT", "csv").replace("PATH", "in/*.csv").replace("SCHEMA", "schema: id INT,")
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "first.csv").write_text("-1\n")
    runs(text)
    for half in (0, 1):  # what is new lies beside what was read, under names that could mean it
        for number, name in list(enumerate(NAMES))[half::2]:
            (tmp_path / "in" / f"{name}.csv").write_text(f"{number}\n")
        runs(text)
    runs(text)
    assert values(tmp_path, "s.copy", "id") == list(range(-1, len(NAMES)))


def test_what_folders_say_is_kept(runs: Runs, tmp_path: Path, spark: "SparkSession") -> None:
    """A frame of single files knows nothing of the folders around them: their column would be null."""
    text = COPY.replace("FORMAT", "parquet").replace("PATH", "in").replace("SCHEMA", "")
    for day in (1, 2, 3):
        spark.range(day, day + 1).coalesce(1).write.parquet(str(tmp_path / "in" / f"day={day}"))
        if day != 2:
            runs(text)
    runs(text)
    assert values(tmp_path, "s.copy", "id", "day") == [(1, 1), (2, 2), (3, 3)]


def test_of_what_has_no_files_nothing_is_new(runs: Runs, tmp_path: Path) -> None:
    """To read all of it each time would double rows, to read none would lose them."""
    other = seiche.create(str(tmp_path / "other"))
    other.create_namespace("s")
    other.create_table("s.t", pa.schema([("id", pa.int64())]))
    text = COPY.replace("FORMAT", "seiche").replace("PATH", "other").replace("SCHEMA", "options: {table: s.t},")
    with pytest.raises(InvalidInput, match=r"shop\.yaml:2: source raw: .*seiche.* no files"):
        runs(text)


def test_two_sources_of_the_same_files_are_two(runs: Runs, tmp_path: Path) -> None:
    """How far one was read says nothing of the other."""
    text = """\
lake: lake
sources:
  one: {format: csv, path: "in/*.csv", schema: id INT, new: true}
  two: {format: csv, path: "in/*.csv", schema: id INT, new: true}
steps:
  - {table: s.one, mode: append, sql: SELECT * FROM one}
  - {table: s.two, mode: append, sql: SELECT * FROM two}
"""
    (tmp_path / "in").mkdir()
    for number in (1, 2):
        (tmp_path / "in" / f"{number}.csv").write_text(f"{number}\n")
        runs(text, select=["s.one"])
        if number == 2:
            runs(text)
    runs(text)
    assert values(tmp_path, "s.one", "id") == values(tmp_path, "s.two", "id") == [1, 2]


TWO = """\
lake: lake
sources: {raw: {format: csv, path: "in/*.csv", schema: id INT, new: true}}
steps:
  - {table: s.one, mode: append, sql: SELECT * FROM raw}
  - {table: s.two, mode: append, sql: SELECT * FROM raw}
  - {table: s.other, sql: SELECT 1 AS id}
checks:
  - {name: known, sql: SELECT count(*) FROM raw WHERE id < 0}
"""


def test_what_steps_share_is_not_read_past_those_that_do_not_run(runs: Runs, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "1.csv").write_text("1\n")
    for select in (["s.one"], ["s.other", "s.two"]):
        with pytest.raises(InvalidInput, match=r"--select: .*s\.(one|two) .*raw"):
            runs(TWO, select=select)
        with pytest.raises(InvalidInput, match=r"--select: .*s\.(one|two) .*raw"):
            runs(TWO, select=select, full_refresh=True)
    runs(TWO, select=["s.other"])  # the check looks at what is new, which is new to the steps after that too
    runs(TWO, select=["s.other"], full_refresh=True)
    runs(TWO, select=["s.one", "s.two"])
    (tmp_path / "in" / "2.csv").write_text("2\n")
    runs(TWO, select=["s.other"], full_refresh=True)
    runs(TWO)
    assert values(tmp_path, "s.one", "id") == values(tmp_path, "s.two", "id") == [1, 2]
