"""`seiche run` and `seiche runs`, as one types them: what they print, for people and for programs, and exit codes."""

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import seiche
from seiche.cli import main
from tests.spark.quick import QUICK_COMMAND
from tests.terminals import COMMAND

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SHOP = """\
lake: lake
sources:
  raw: {format: csv, path: "orders/*.csv", schema: "id BIGINT, amount DOUBLE", new: true}
steps:
  - {table: shop.orders, mode: append, sql: SELECT * FROM raw}
  - {table: shop.total, sql: SELECT sum(amount) AS amount FROM shop.orders}
checks:
  - {name: positive, sql: SELECT count(*) FROM shop.orders WHERE amount <= 0}
"""

Command = Callable[..., str]


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """A folder with a pipeline and an order; runs a command there and gives what it prints."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "orders").mkdir()
    (tmp_path / "orders" / "one.csv").write_text("1,10.5\n2,3.0\n")
    (tmp_path / "shop.yaml").write_text(SHOP)

    def ran(*arguments: str, code: int = 0) -> str:
        capsys.readouterr()
        assert main(list(arguments)) == code
        return capsys.readouterr().out

    return ran


def lines(text: str) -> list[str]:
    return [" ".join(line.split()) for line in text.splitlines() if line.strip("─ ")]


def loaded(text: str) -> Any:
    return json.loads(text)


def test_a_run_and_what_is_kept_of_it(command: Command, spark: "SparkSession", tmp_path: Path) -> None:
    plan = loaded(command("run", "shop.yaml", "--dry-run", "--json"))
    assert [(one["stage"], one["table"], one["reads"]) for one in plan["steps"]] == [
        (1, "shop.orders", ["raw"]),
        (2, "shop.total", ["shop.orders"]),
    ]
    assert not (tmp_path / "lake").exists()
    first = lines(command("run", "shop.yaml", "--run-id", "monday"))
    assert first[0] == "table mode from rows files seconds"
    assert first[1].startswith("shop.orders append raw 2 ")
    assert first[3:] == [
        "check result found expected",
        "positive passed 0 0",
        f"Published as version 1 of {tmp_path}/lake.",
    ]
    again = "Run monday was published before, as version 1. Nothing was done."
    assert lines(command("run", "shop.yaml", "--run-id", "monday")) == [again]
    shown = lines(command("runs", "lake", "monday"))
    assert shown[0] == "shop, run monday: published as version 1 of the lake, from version 0"
    assert shown[-2:] == ["shop.orders@1 raw", "shop.total@1 shop.orders@1"]
    told = loaded(command("runs", "lake", "monday", "--json"))
    assert (told["version"], told["lineage"][1]["inputs"]) == (1, {"shop.orders": 1})
    assert command("runs", "lake", "no_such_run", code=2) == ""
    for old in (["show", "monday", "--lake", "lake"], ["--lake", "lake", "show", "monday"], ["show", "monday"]):
        assert lines(command("runs", *old)) == shown


def test_a_run_that_is_rejected(command: Command, spark: "SparkSession", tmp_path: Path) -> None:
    command("run", "shop.yaml")
    (tmp_path / "orders" / "two.csv").write_text("3,-1.0\n")
    told = lines(command("run", "shop.yaml", "--run-id", "bad", "--keep", "look", code=1))
    assert "positive failed 1 0" in told
    assert told[-2:] == [
        "positive: id 3, amount -1.0",
        "Nothing was published. What was rejected is kept under the tag look.",
    ]
    kept = seiche.open("lake", version="look").table(("rejected", "look", "shop_orders")).to_arrow()
    assert sorted(kept["id"].to_pylist()) == [1, 2, 3]
    lake = seiche.open("lake")  # where nobody meets it who does not ask for the tag
    assert ("rejected",) not in lake.namespaces()
    assert sorted(lake.table("shop.orders").to_arrow()["id"].to_pylist()) == [1, 2]
    assert loaded(command("run", "shop.yaml", "--json", code=1))["outcome"] == "rejected"
    assert "bad: failed: positive" in lines(command("runs", "lake"))
    listed = loaded(command("runs", "lake", "--json"))
    assert [one["status"] for one in listed] == ["rejected", "rejected", "published"]
    assert loaded(command("runs", "--lake", "lake", "--json")) == listed  # as it was written before


def test_some_steps_and_everything_again(command: Command, spark: "SparkSession", tmp_path: Path) -> None:
    (tmp_path / "shop.yaml").write_text(SHOP[: SHOP.index("checks")])
    command("run", "shop.yaml", "--select", "shop.orders")
    assert seiche.open("lake").tables("shop") == [("shop", "orders")]
    seiche.open("lake").table("shop.orders").append([{"id": 9, "amount": 1.0}])
    some = loaded(command("run", "shop.yaml", "--select", "shop.total", "--json"))
    assert [one["table"] for one in some["record"]["steps"]] == ["shop.total"]
    assert seiche.open("lake").table("shop.total").to_arrow()["amount"].to_pylist() == [14.5]
    command("run", "shop.yaml", "--full-refresh")
    assert seiche.open("lake").table("shop.total").to_arrow()["amount"].to_pylist() == [13.5]


@pytest.mark.parametrize("words", [("run", "shop.yaml"), ("sql", "lake", "SELECT 1")])
@pytest.mark.parametrize(
    ("master", "said"),
    [("lcl", "'lcl' is no place where Spark runs"), ("local[x]", "Spark does not start at local[x]: ")],
)
def test_a_spark_that_does_not_start(
    java: None, command: Command, words: tuple[str, ...], master: str, said: str
) -> None:
    seiche.create("lake")
    typed = [str(COMMAND), *words, "--master", master]
    ended = subprocess.run(typed, capture_output=True, text=True, check=False, env=os.environ | QUICK_COMMAND)
    assert ended.returncode == 2
    assert ended.stderr.splitlines()[-1].startswith(f"seiche: invalid_input: {said}")
    assert "Traceback" not in ended.stderr
    assert seiche.open("lake").version == 0
