"""The commands that keep a lake in order: their examples run, they speak JSON, and end with the code they promise."""

import json
import shlex
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

import seiche
from seiche import Lake
from seiche.cli import care, health
from seiche.cli.commands import app
from tests.commands import Command
from tests.e2e.test_cli_lake import examples
from tests.terminals import COMMAND, on_a_terminal

COMMANDS: list[Callable[..., None]] = [care.expire, care.gc, care.trash, care.fsck, health.health]
SCHEMA = pa.schema([("id", pa.int64())])


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lake:
    """A folder to work in, with a lake of some versions that is what the examples speak of."""
    monkeypatch.chdir(tmp_path)
    made = seiche.create("lake", durability="os")
    made.create_namespace("shop")
    made.create_table("shop.orders", SCHEMA)
    for number in range(4):
        made.table("shop.orders").overwrite(pa.table({"id": [number]}, schema=SCHEMA))
    made.tag("kept", 6)
    return made


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.__name__)
def test_every_example_runs_and_is_shown(command: Callable[..., None], made: Lake, run: Command) -> None:
    found = examples(command)
    assert found
    shown = " ".join(run(command.__name__, "--help").split())
    for example in found:
        words = shlex.split(example)
        assert words[:2] == ["seiche", command.__name__]
        assert " ".join(words) in shown
        assert run(*words[1:])


def test_all_commands_are_there() -> None:
    assert set(COMMANDS) <= {one.callback for one in app.registered_commands}


def test_from_old_versions_to_an_empty_trash(made: Lake, run: Command) -> None:
    would = run.json("expire", "lake", "--older-than", "0s", "--keep", "1", "--dry-run")
    assert would["expired"] == [0, 1, 2, 3, 4, 5]
    assert would["done"] is False
    assert {"versions": "6", "reason": "tag kept needs it"} in would["kept"]
    assert run.json("expire", "lake", "--older-than", "0s", "--keep", "1")["expired"] == would["expired"]
    plan = run.json("gc", "lake", "--grace", "0s")
    files = [one["path"] for one in plan["unneeded"]]
    assert len(files) >= 6
    assert all(Path("lake", path).exists() for path in files), "by default it is a dry run"
    assert {one["fate"] for one in plan["unneeded"]} == {"moved"}
    assert {one["fate"] for one in run.json("gc", "lake", "--dry-run")["unneeded"]} == {"waits"}
    done = run.json("gc", "lake", "--grace", "0s", "--run")
    assert not any(Path("lake", path).exists() for path in files)
    (trashed,) = run.json("trash", "lake")
    assert trashed["run"] == done["run"]
    assert sorted(one["path"] for one in trashed["files"]) == sorted(files)
    assert "1" in run("trash", "lake", "--restore", done["run"], "--path", files[0])
    assert Path("lake", files[0]).exists()
    assert run.json("trash", "lake", "--restore", done["run"])["restored"]
    assert all(Path("lake", path).exists() for path in files)
    assert "empty" in run("trash", "lake")
    run("gc", "lake", "--grace", "0s", "--window", "0s", "--run")
    assert not any(Path("lake", path).exists() for path in files)
    assert "sound" in run("fsck", "lake", "--deep")
    assert seiche.open("lake").table("shop.orders").to_arrow()["id"].to_pylist() == [3]


def test_plain_output(made: Lake, run: Command) -> None:
    shown = run("expire", "lake", "--older-than", "0s", "--keep", "1")
    assert "tag kept needs it" in shown
    assert "6 versions (0-5) have been given up." in shown
    Path("lake", "notes.txt").write_text("mine")
    shown = run("gc", "lake")
    assert "manifest" in shown
    assert "1 unknown file was left alone: notes.txt" in shown
    assert "1 day" in shown
    assert Path("lake", "notes.txt").exists()
    shown = run("health", "lake")
    assert "shop.orders" in shown
    assert "Nothing needs to be done." in shown or "Try: seiche gc" in shown
    assert "not looked for" not in shown
    assert "not looked for" in run("health", "lake", "--quick")


def test_a_file_that_had_to_be_put_back_is_a_failure(made: Lake, run: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was taken although it is needed: whoever runs it every night must hear of it."""
    real = Lake.gc
    monkeypatch.setattr(Lake, "gc", lambda *args, **more: replace(real(*args, **more), restored=("a/file",)))
    assert "a/file had been taken although it is needed" in run("gc", "lake", code=1)


def test_damage_ends_with_code_1_and_mending_with_0(made: Lake, run: Command) -> None:
    location = Path("lake", made.table("shop.orders").row.location)
    newest = min((location / "_versions").glob("*.manifest"))
    newest.write_bytes(b"torn")
    shown = run("fsck", "lake", code=1)
    assert "published.damaged" in shown
    found = run.json("fsck", "lake", "--repair")
    assert [one["repaired"] for one in found["problems"]] == [True]
    assert run.json("fsck", "lake") | {"problems": []} == run.json("fsck", "lake")
    next((location / "data").iterdir()).unlink()
    found = run.json("fsck", "lake", code=1)
    assert [one["kind"] for one in found["problems"]] == ["data.missing"]
    assert found["ok"] is False


def test_a_foreign_commit_to_a_dropped_table_comes_with_commands_that_help(made: Lake, run: Command) -> None:
    location = Path("lake", made.table("shop.orders").row.location)
    newest = min((location / "_versions").glob("*.manifest"))
    foreign = f"{int(newest.stem) - 1:020}.manifest"
    (location / "_versions" / foreign).write_bytes(newest.read_bytes())
    run("drop-table", "lake", "shop.orders")
    shown = run("fsck", "lake", code=1)
    assert "'seiche table adopt'" in shown
    assert "'seiche rollback --table'" in shown
    assert "`" not in shown


def test_what_is_no_lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Command) -> None:
    monkeypatch.chdir(tmp_path)
    for command in ("expire", "gc", "trash", "health"):
        assert "holds no lake" in run(command, "nothing", code=2)
    assert "holds no lake" in run("fsck", "nothing", code=2)
    Path("something").mkdir()
    Path("something", "file").touch()
    assert "root.missing" in run("fsck", "something", code=1)


@pytest.mark.parametrize(
    "arguments",
    [
        ["expire", "lake", "--older-than", "soon"],
        ["expire", "lake", "--keep", "0"],
        ["gc", "lake", "--grace", "a while"],
        ["trash", "lake", "--restore", "nonsense"],
        ["trash", "lake", "--path", "tables/x"],
    ],
    ids=" ".join,
)
def test_mistakes_end_with_code_2(arguments: list[str], made: Lake, run: Command) -> None:
    run(*arguments, code=2)


def test_progress_is_shown_on_a_terminal_only(made: Lake) -> None:
    silent = subprocess.run([COMMAND, "gc", "lake", "--json"], capture_output=True, text=True, check=True)
    assert silent.stderr == ""
    json.loads(silent.stdout)
    code, shown = on_a_terminal("fsck", "lake")
    assert code == 0
    assert "checking" in shown
