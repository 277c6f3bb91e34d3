"""Names with dots inside a part: what a command shows can be given to another."""

import shlex
from pathlib import Path

import pyarrow as pa
import pytest

import seiche
from seiche import Lake
from seiche.cli.arguments import named
from tests.commands import Command

TABLE = '"v1.2"."a.b"'


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lake:
    monkeypatch.chdir(tmp_path)
    made = seiche.create("a lake", durability="os")
    made.create_namespace(("v1.2",))
    made.create_table(("v1.2", "a.b"), pa.schema([("id", pa.int64())])).append([{"id": 1}])
    return made


def test_a_name_as_it_is_listed_is_taken_by_every_command(made: Lake, run: Command) -> None:
    assert [one["name"] for one in run.json("ls", "a lake")] == ['"v1.2"', TABLE]
    assert [one["name"] for one in run.json("ls", "a lake", '"v1.2"')] == [TABLE]
    assert run.json("head", "a lake", TABLE) == [{"id": 1}]
    assert run.json("show", "a lake", TABLE)["rows"] == 1
    Path("more.csv").write_text("id\n2\n")
    assert run.json("append", "a lake", TABLE, "more.csv") == {"name": TABLE, "rows": 1, "version": 4}
    assert [one["version"] for one in run.json("table", "history", "a lake", TABLE)] == [3, 2, 1]
    assert run.json("table", "adopt", "a lake", TABLE) == []
    run("rollback", "a lake", "3", "--table", TABLE, "--yes")
    run("export", "a lake", "copied", "copy", "--table", TABLE)
    assert seiche.open("copy").tables() == [("v1.2", "a.b")]
    run("create-table", "a lake", '"v1.2".like', "--like", TABLE)
    run("rename-table", "a lake", TABLE, '"v1.2"."c.d"')
    run("create-namespace", "a lake", '"v1.2"."v3.4"')
    run("drop-namespace", "a lake", '"v1.2"."v3.4"')
    run("drop-table", "a lake", '"v1.2"."c.d"')
    assert made.tables() == [("v1.2", "like")]


def test_the_command_that_is_advised_works_as_it_is_shown(made: Lake, run: Command) -> None:
    table = made.table(("v1.2", "a.b"))
    table.append([{"id": number} for number in range(9)])
    table.delete("id < 8")
    advised = run("health", "a lake", "--quick").partition("Try: seiche ")[2].strip()
    assert advised == "table compact 'a lake' '\"v1.2\".\"a.b\"'"
    run(*shlex.split(advised))
    assert "Nothing needs to be done" in run("health", "a lake", "--quick")


def test_quotes_belong_to_a_name_unless_they_are_around_a_dot() -> None:
    assert named("shop.orders") == "shop.orders"
    assert named('shop."v1.2".orders') == ("shop", "v1.2", "orders")
    for unlike in ("", ".", '"shop".orders', 'shop."a', 'shop."a.b', '"a.b"c', '"a.b".'):
        assert named(unlike) == unlike
