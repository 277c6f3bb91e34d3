"""The commands about one table: their examples run, of a lake and of a plain table."""

import os
import re
import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import seiche
from seiche import Lake, cli
from seiche.cli import table
from tests.commands import Command
from tests.e2e.test_cli_lake import examples
from tests.terminals import COMMAND
from tests.unit.lake.test_foreign import unfence

COMMANDS: list[Callable[..., None]] = [table.history, table.adopt, table.compact, table.cleanup, table.changes]


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lake:
    """A folder with a lake and a plain table, each with three versions of a table."""
    monkeypatch.chdir(tmp_path)
    made = seiche.create("lake", durability="os")
    made.create_namespace("shop")
    schema = pa.schema([("id", pa.int64())])
    made.create_table("shop.orders", schema)
    plain = seiche.Table.create("plain.lance", schema)
    for one in (made.table("shop.orders"), plain):
        one.append(pa.table({"id": [1, 2]}))
        one.append(pa.table({"id": [3]}))
    return made


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.__name__)
def test_every_example_runs(command: Callable[..., None], made: Lake, run: Command) -> None:
    found = examples(command)
    assert found
    for example in found:
        words = shlex.split(example)
        assert words[:3] == ["seiche", "table", command.__name__]
        assert run(*words[1:])


def test_no_command_is_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    assert {one.callback for one in table.app.registered_commands} == set(COMMANDS)
    for command in COMMANDS:
        assert cli.main(["table", command.__name__, "--help"]) == 0
        shown = " ".join(capsys.readouterr().out.split())
        assert all(" ".join(example.split()) in shown for example in examples(command))


def test_a_compaction_that_others_did_first_says_so(made: Lake, run: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    commit: Callable[..., None] = seiche.Table._commit

    def late(*arguments: Any, **options: Any) -> None:
        monkeypatch.setattr(seiche.Table, "_commit", commit)
        seiche.Table.open("plain.lance").compact()
        commit(*arguments, **options)

    monkeypatch.setattr(seiche.Table, "_commit", late)
    said = run("table", "compact", "plain.lance")
    newest = seiche.Table.open("plain.lance").version
    assert said.strip() == f"There is nothing left to do: others came first, and the table is at version {newest}."


@pytest.mark.parametrize("where", [["lake", "shop.orders"], ["plain.lance"]], ids=["lake", "plain"])
def test_the_life_of_a_table(made: Lake, run: Command, where: list[str]) -> None:
    shown = run.json("table", "history", *where)
    assert [(one["version"], one["operation"]) for one in shown] == [(3, "Append"), (2, "Append"), (1, "Overwrite")]
    assert re.search(r"^3 +20\S+ \S+ +Append *$", run("table", "history", *where, "-n", "1"), re.MULTILINE)
    done = run.json("table", "compact", *where)
    assert (done["changed"], done["version"] > 3) == (True, True)
    assert run.json("table", "compact", *where)["changed"] is False
    assert "nothing to do" in run("table", "compact", *where)
    found = run.json("table", "changes", *where, "--from", "1")
    assert found["counts"] == {"2": {"insert": 2}, "3": {"insert": 1}}
    assert [row["id"] for row in found["rows"]] == [1, 2, 3]
    text = run("table", "changes", *where, "--from", "2")
    assert re.search(r"^3 +insert +3 *$", text, re.MULTILINE)
    assert "1 change from version 2" in text
    assert "3 changes" in run("table", "changes", *where, "--from", "1", "-n", "1")


def test_a_plain_table_is_cleaned_up(made: Lake, run: Command) -> None:
    seiche.Table.open("plain.lance").compact()
    would = run.json("table", "cleanup", "plain.lance", "--older-than", "0s", "--grace", "0s")
    assert (would["done"], bool(would["dropped"])) == (False, True)
    assert "would be removed" in run("table", "cleanup", "plain.lance", "--older-than", "0s", "--grace", "0s")
    done = run.json("table", "cleanup", "plain.lance", "--older-than", "0s", "--grace", "0s", "--run")
    assert (done["done"], done["dropped"]) == (True, would["dropped"])
    assert lance.dataset("plain.lance").count_rows() == 3
    assert len(run.json("table", "history", "plain.lance")) == len(done["kept"])


def test_a_table_of_a_lake_is_cleaned_up_with_its_lake(made: Lake, run: Command) -> None:
    before = sorted(info.path for info in made.store.list())
    for options in ([], ["--run"]):
        said = run("table", "cleanup", "lake", "shop.orders", *options, code=2)
        assert "seiche expire lake" in said
        assert "seiche gc lake" in said
        # By its address, as whoever does not know of the lake would do it.
        said = run("table", "cleanup", made.table("shop.orders").uri, *options, code=2)
        assert "lake" in said
    assert sorted(info.path for info in made.store.list()) == before


def test_a_foreign_commit_is_adopted(made: Lake, run: Command) -> None:
    assert "Nobody has committed" in run("table", "adopt", "lake", "shop.orders")
    orders = made.table("shop.orders")
    unfence(orders.uri, orders.version)
    lance.write_dataset(pa.table({"id": [9]}), orders.uri, mode="append")
    (found,) = run.json("table", "adopt", "lake", "shop.orders")
    assert (found["operation"], found["foreign_version"], found["lake_version"]) == ("Append", 4, made.version)
    assert run.json("table", "adopt", "lake", "shop.orders") == []


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("history nowhere", "nowhere. Check the address."),
        ("history lake", "is a lake"),
        ("history lake shop.nothing", "does not exist"),
        ("adopt lake shop.nothing", "does not exist"),
        ("adopt nowhere shop.orders", "holds no lake"),
        ("compact lake", "is a lake"),
        ("compact lake shop.orders --rows 0", "rows"),
        ("cleanup lake shop.nothing", "does not exist"),
        ("cleanup plain.lance --older-than soon", "soon"),
        ("changes plain.lance --from 99", "99"),
        ("changes plain.lance --from 1 --to 99", "99"),
        ("changes plain.lance -c nothing", "nothing"),
        ("changes plain.lance -c id -c id", "twice"),
    ],
)
def test_mistakes(made: Lake, run: Command, arguments: str, said: str) -> None:
    version = made.version
    assert said in run("table", *arguments.split(), code=2)
    assert made.version == version


def test_commands_complete_in_a_shell() -> None:
    asked = os.environ | {"_SEICHE_COMPLETE": "complete_bash", "COMP_WORDS": "seiche table c", "COMP_CWORD": "2"}
    done = subprocess.run([COMMAND], capture_output=True, text=True, check=False, env=asked)
    assert sorted(done.stdout.split()) == ["changes", "cleanup", "compact"]


def test_no_colours_without_a_terminal(made: Lake, run: Command) -> None:
    done = subprocess.run(
        [COMMAND, "table", "changes", "lake", "shop.orders"], capture_output=True, text=True, check=True
    )
    assert "\x1b" not in done.stdout + done.stderr
    assert run.json("table", "history", "lake", "shop.orders")
