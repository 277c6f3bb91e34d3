"""The command `seiche`: what it prints, how it ends, and that no mistake of a user shows a traceback."""

import json
import math
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from io import BytesIO, TextIOWrapper
from pathlib import Path
from typing import Any, NoReturn

import pytest
import typer

import seiche
from seiche import cli, errors
from seiche.cli import demo, failures, output, store
from seiche.cli.commands import app
from seiche.cli.failures import ExitCode, describe, exit_code
from seiche.cli.output import print_json, print_table
from seiche.core.runtime import SYSTEM
from seiche.lake.commit import committer as commit
from seiche.lake.tree.swap import asking
from seiche.store.base import Data
from seiche.store.memory import MemoryStore
from tests.terminals import COMMAND, on_a_terminal


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [COMMAND, *arguments], capture_output=True, text=True, check=False, env=os.environ | environment
    )


def called(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """The same without a process of its own: a traceback would come out here."""
    code = cli.main(arguments)
    return (code, *capsys.readouterr())


def fails_with(error: BaseException) -> Callable[..., NoReturn]:
    def fail(*_: Any, **__: Any) -> NoReturn:
        raise error

    return fail


def test_version() -> None:
    done = run("--version")
    assert (done.returncode, done.stdout, done.stderr) == (0, f"seiche {seiche.__version__}\n", "")


@pytest.mark.parametrize("arguments", [[], ["--help"], ["-h"]])
def test_help_lists_the_commands(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(arguments) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert all(" ".join(path) in shown for path in commands(app) if len(path) == 1)
    told = re.search(r"Exit codes: (.+?)\.", shown)
    assert told is not None
    assert [int(code) for code in re.findall(r"\d+", told[1])] == list(ExitCode)


def commands(group: typer.Typer, *path: str) -> Iterator[tuple[str, ...]]:
    for command in group.registered_commands:
        assert command.callback is not None
        yield (*path, command.name or command.callback.__name__)
    for inner in group.registered_groups:
        assert inner.typer_instance is not None
        yield (*path, str(inner.name))
        yield from commands(inner.typer_instance, *path, str(inner.name))


@pytest.mark.parametrize("path", list(commands(app)), ids=" ".join)
def test_every_command_explains_itself(path: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([*path, "--help"]) == 0
    shown = capsys.readouterr().out.split("\n", 3)
    assert f"Usage: seiche {' '.join(path)}" in shown[1]
    assert re.search(r"\w+ \w+", shown[3])


@pytest.mark.parametrize(
    "arguments",
    [
        ["nonsense"],
        ["--nonsense"],
        ["store"],
        ["store", "nonsense"],
        ["store", "probe"],
        ["store", "probe", "one", "two"],
        ["store", "probe", "memory://x", "--nonsense"],
        ["log", "memory://x", "--limit", "many"],
        ["serve", "memory://x", "--no-auth", "--port", "99999"],
        ["serve", "memory://x", "--no-auth", "--iceberg-port", "-1"],
        ["demo", "--keep"],
    ],
    ids=" ".join,
)
def test_wrong_usage_is_one_line_and_code_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    code, shown, said = called(capsys, *arguments)
    assert (code, shown) == (2, "")
    assert re.fullmatch(r"seiche: usage: .+ See 'seiche.* --help'\.\n", said)


@pytest.mark.parametrize("command", ["demo --keep", "table changes lake --to", "trash lake --restore"])
def test_an_option_without_its_value_leads_to_the_help_of_its_command(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = " ".join(word for word in command.split()[:-1] if word != "lake")
    assert f"See 'seiche {path} --help'." in called(capsys, *command.split())[2]


def test_a_mistake_ends_the_process_as_it_ends_the_function() -> None:
    done = run("nonsense")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "seiche: usage: No such command 'nonsense'. See 'seiche --help'.\n"


def test_what_is_no_id_of_a_transaction_is_not_undecided(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lake = seiche.create(str(tmp_path / "lake"))
    code, _, shown = called(capsys, "status", str(tmp_path / "lake"), "x")
    assert code == 2
    assert "'x' is not the id of a transaction. Give the id of a transaction, a UUID; 'seiche log' has those" in shown
    for ask in (lake.status, lake.settle):
        with pytest.raises(errors.InvalidInput, match="is not the id of a transaction"):
            ask("x")


@pytest.mark.parametrize("uri", ["ftp://host/x", "", "file://relative", "memory://a/../b"])
def test_a_bad_address_is_one_line_and_code_2(uri: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, shown, said = called(capsys, "store", "probe", uri)
    assert (code, shown) == (2, "")
    assert re.fullmatch(r"seiche: invalid_input: .+\.\n", said)


def test_a_file_in_place_of_a_folder_is_one_line_and_code_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("not a folder")
    code, shown, said = called(capsys, "store", "probe", str(tmp_path / "file"))
    assert (code, shown) == (2, "")
    assert re.fullmatch(rf"seiche: \w+: .+{tmp_path}/file.+\.\n", said), "it is said which one"


CODES = {
    "AlreadyExists": 2,
    "CommitUnknown": 4,
    "ConflictError": 3,
    "Corrupt": 1,
    "IncompatibleConflict": 3,
    "InvalidInput": 2,
    "NotFound": 2,
    "PermissionDenied": 2,
    "RetryableConflict": 3,
    "SeicheError": 1,
    "Unavailable": 5,
}


def test_every_error_has_a_code() -> None:
    assert sorted(CODES) == errors.__all__


@pytest.mark.parametrize("name", errors.__all__)
def test_an_error_ends_the_command_with_its_code(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    error = getattr(errors, name)("shop.stock: version 9 won", remedy="Look at version 9.")
    monkeypatch.setattr(seiche.store, "open_store", fails_with(error))
    assert cli.main(["store", "probe", "memory://x"]) == CODES[name]
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err == f"seiche: {error.kind}: shop.stock: version 9 won. Look at version 9.\n"


def test_codes_are_documented() -> None:
    documented = re.findall(r"^ {4}(\d+) ", cli.__doc__ or "", re.MULTILINE)
    assert [int(code) for code in documented] == list(ExitCode)


def test_a_new_kind_of_error_has_the_code_of_its_parent() -> None:
    class Special(errors.RetryableConflict):
        pass

    assert exit_code(Special("x")) == ExitCode.CONFLICT


def test_a_message_stays_one_line_and_cannot_drive_the_terminal() -> None:
    line = describe(errors.NotFound("no table 'a\nb\x1b[2Jc\r'\n  really.", remedy="Look.\n"))
    assert line == "seiche: not_found: no table 'a b [2Jc ' really. Look."


def test_of_a_commit_that_may_have_happened_the_line_says_which_it_is() -> None:
    (one,) = ids = ["00000000-0000-4000-8000-000000000000"]
    line = describe(errors.CommitUnknown("no answer came", remedy=asking(ids), transaction_id=one))
    assert line == (f"seiche: commit_unknown: no answer came. Ask 'seiche status URI {one}' before doing it again.")


def test_a_bug_is_not_disguised(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seiche.store, "open_store", fails_with(ZeroDivisionError("bug")))
    with pytest.raises(ZeroDivisionError):
        cli.main(["store", "probe", "memory://x"])


def test_an_interrupt_ends_with_130(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(seiche.store, "open_store", fails_with(KeyboardInterrupt()))
    assert cli.main(["store", "probe", "memory://x"]) == 130
    assert "Traceback" not in capsys.readouterr().err


def test_an_interrupt_that_came_into_a_commit_says_that_it_may_have_happened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lake = seiche.create(tmp_path / "lake")
    monkeypatch.setattr(commit, "write_hint", fails_with(KeyboardInterrupt()))
    code, shown, said = called(capsys, "create-namespace", str(tmp_path / "lake"), "shop")
    ((transaction,),) = (one.transactions for one in lake.log(1))
    assert (code, shown) == (ExitCode.UNKNOWN, "")
    assert said == (
        f"seiche: commit_unknown: interrupted. Transaction {transaction.id} was being committed, and may have happened."
        f" Ask 'seiche status URI {transaction.id}' before doing it again.\n"
    )


# Loaded in place of a library that commands need: Ctrl-C comes while it is being loaded.
INTERRUPTED = "import os, signal\nos.kill(os.getpid(), signal.SIGINT)\nfor _ in range(1000): pass\n"


def test_an_interrupt_in_the_first_moment_ends_with_130_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "typer.py").write_text(INTERRUPTED)
    done = run("--version", PYTHONPATH=str(tmp_path))
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


def test_where_interrupts_are_ignored_they_stay_so(tmp_path: Path) -> None:
    """As in the background of a shell script."""
    (tmp_path / "typer.py").write_text(f"{INTERRUPTED}raise SystemExit('went on')")
    script = "import signal, sys; signal.signal(signal.SIGINT, signal.SIG_IGN); from seiche.cli import main; main()"
    environment = os.environ | {"PYTHONPATH": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=False)
    assert done.stderr == "went on\n"


def test_probe_prints_a_table_and_leaves_nothing(tmp_path: Path) -> None:
    done = run("store", "probe", str(tmp_path / "lake"))
    assert (done.returncode, done.stderr) == (0, "")
    assert "\x1b" not in done.stdout
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_probe_prints_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, shown, said = called(capsys, "store", "probe", str(tmp_path), "--json")
    assert (code, said) == (0, "")
    assert json.loads(shown)["trusted"] is True


class Careless(MemoryStore):
    """A store as some S3 servers are: it accepts the condition and ignores it."""

    def put_if_absent(self, path: str, data: Data, *, durable: bool = True) -> None:
        self.put(path, data)


def test_probe_of_a_store_that_lets_everybody_win_ends_with_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(seiche.store, "open_store", lambda _: Careless("careless", runtime=SYSTEM))
    assert cli.main(["store", "probe", "memory://careless"]) == 1
    assert "memory://careless must not be trusted" in capsys.readouterr().out
    assert cli.main(["store", "probe", "memory://careless", "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["trusted"] is False


def test_commands_are_functions(capsys: pytest.CaptureFixture[str]) -> None:
    store.probe("memory://called", as_json=True)
    assert json.loads(capsys.readouterr().out)["trusted"] is True


def test_colours_only_on_a_terminal() -> None:
    assert "\x1b" not in run("store", "probe", "memory://colours", TERM="xterm-256color").stdout
    code, shown = on_a_terminal("store", "probe", "memory://colours")
    assert code == 0
    assert "\x1b[" in shown


def test_what_an_output_cannot_show_is_written_in_its_letters() -> None:
    """As over a connection, or in a job, that knows ASCII only."""
    script = "import seiche; seiche.create('memory://x').create_namespace('\u65e5'); from seiche.cli import main; {}"
    command = [sys.executable, "-c", script.format("main(['ls', 'memory://x'])")]
    environment = os.environ | {"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert (done.returncode, done.stderr) == (0, "")
    assert re.search(r"namespace .*\\u65e5", done.stdout)


def test_a_closed_pipe_is_no_traceback() -> None:
    command = [str(COMMAND), "store", "probe", "memory://pipe"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert b"Traceback" not in process.stderr.read()


def test_a_full_disk_is_one_line_and_code_1() -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run([COMMAND, "--version"], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 1
    assert re.fullmatch(
        r"seiche: output: the output could not be written: No space left on device\. .+\.\n", done.stderr
    )


def test_without_an_output_there_is_nothing_to_say() -> None:
    done = subprocess.run(["sh", "-c", f"{COMMAND} --version >&-"], capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")


def test_a_command_that_is_started_without_streams_has_streams_to_nowhere(tmp_path: Path) -> None:
    """Otherwise files of tables would have their numbers, and native code would print into them."""
    seiche.create(tmp_path / "lake").create_namespace("shop")
    # What has the numbers of the streams when the commands are loaded, and so before a file of the lake is opened.
    script = (
        "import os, sys; from seiche.cli import main; code = main(['rollback', sys.argv[1], '0']);"
        " open(sys.argv[2], 'w').write(f'{code} {[os.readlink(f\"/proc/self/fd/{n}\") for n in range(3)]}')"
    )
    for closed in ("<&-", "2>&-", "<&- >&- 2>&-"):
        command = f'"$0" -c "$1" "$2" "$3" {closed}'
        arguments = [sys.executable, script, str(tmp_path / "lake"), str(tmp_path / "said")]
        done = subprocess.run(
            ["sh", "-c", command, *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
        )
        assert (done.returncode, done.stdout) == (0, "")
        assert "Traceback" not in done.stderr
        code, _, streams = (tmp_path / "said").read_text().partition(" ")
        assert code == "2"
        assert str(tmp_path) not in streams
        assert len(streams.split(",")) == 3


def test_what_is_no_text_is_a_mistake_on_the_command_line_and_in_the_input(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    seiche.create(tmp_path / "lake").create_namespace("shop")
    lake, other = str(tmp_path / "lake"), os.fsdecode(b"\xff")
    for arguments in (
        ["create-table", lake, "shop.a", "--schema", f"{other}:int64"],
        ["sql", lake, f"SELECT '{other}'"],
    ):
        code, out, err = called(capsys, *arguments)
        assert (code, out) == (2, "")
        assert "not valid Unicode" in err
    monkeypatch.setattr(sys, "stdin", TextIOWrapper(BytesIO(b"SELECT '\xff'"), encoding="utf-8"))
    code, out, err = called(capsys, "sql", lake)
    assert (code, out) == (2, "")
    assert "not valid Unicode" in err


def test_the_interpreter_runs_the_command_as_well() -> None:
    done = subprocess.run([sys.executable, "-m", "seiche", "--version"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, f"seiche {seiche.__version__}\n")


def test_json_is_what_every_parser_reads(capsys: pytest.CaptureFixture[str]) -> None:
    def refuse(constant: str) -> NoReturn:
        raise AssertionError(constant)

    moment = datetime(2030, 12, 31, 23, 59, tzinfo=UTC)
    given = {"t": moment, "d": moment.date(), "b": b"\x00\xff", "n": [math.nan, {"i": -math.inf}], "x": (1.5, None)}
    print_json(given)
    assert json.loads(capsys.readouterr().out, parse_constant=refuse) == {
        "t": "2030-12-31T23:59:00+00:00",
        "d": "2030-12-31",
        "b": "00ff",
        "n": ["nan", {"i": "-inf"}],
        "x": [1.5, None],
    }


def test_remedies_are_said_in_words_of_the_command_line() -> None:
    shown = describe(errors.NotFound("no tag", remedy="`lake.tags()` lists them. Give `version=` or `as_of=`."))
    assert shown == "seiche: not_found: no tag. 'seiche tags' lists them. Give --version or --as-of."
    assert describe(errors.InvalidInput("no", remedy='Use mode="partial".')).endswith("Use --mode partial.")
    moved = errors.IncompatibleConflict(
        "the lake moved", remedy="Look at `lake.diff(1, 9)`; `seiche fsck --deep` helps."
    )
    assert describe(moved).endswith("Look at 'seiche diff URI 1 9'; 'seiche fsck --deep' helps.")
    told = re.findall(r"'seiche ([\w -]+?)(?: --\w+)?'", " ".join(failures._COMMANDS.values()))
    assert {tuple(one.split()) for one in told} <= set(commands(app))


def test_the_demo_goes_into_no_folder_that_is_in_use(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    for folder in (tmp_path, tmp_path / "notes.txt"):
        code, shown, said = called(capsys, "demo", "--keep", str(folder))
        assert (code, shown) == (2, "")
        assert f"{folder} is there already, and not an empty folder" in said
    assert [one.name for one in tmp_path.iterdir()] == ["notes.txt"]


def test_what_the_demo_says_to_try_next_can_be_pasted(capsys: pytest.CaptureFixture[str]) -> None:
    demo._what_next(Path("my demo"))
    assert "log 'my demo/lake'" in capsys.readouterr().out


def test_a_folder_is_no_pipeline_and_a_setting_has_a_value(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, said = called(capsys, "run", str(tmp_path))
    assert code == 2
    assert "Name the YAML file of a pipeline." in said
    (tmp_path / "p.yaml").write_text("lake: lake\nsteps: [{table: a.b, sql: SELECT 1 AS x}]\n")
    code, _, said = called(capsys, "run", str(tmp_path / "p.yaml"), "--dry-run", "--conf", "spark.task.cpus")
    assert (code, "'spark.task.cpus' is not a setting" in said) == (2, True)


@pytest.mark.parametrize("terminal", [False, True])
def test_a_table_is_laid_out_as_rich_does_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, terminal: bool
) -> None:
    """Which is slow where there are many rows, and so does only those that have to be wrapped."""
    if terminal:
        monkeypatch.setenv("FORCE_COLOR", "1")
        monkeypatch.setenv("COLUMNS", "80")
    columns, rows = ("name", "a longer one", ""), [("日本語", 1, "NULL"), ("öl", None, ""), ("\x1b[3m", "x", "bad")]

    def shown() -> str:
        print_table(columns, rows, styles={"NULL": "dim", "bad": "red"})
        return re.sub(
            r"\x1b\[[0-9;]*m",
            lambda found: found[0] if found[0] in ("\x1b[2m", "\x1b[31m") else "",
            capsys.readouterr().out,
        )

    quick = shown()
    assert ("\x1b[31m" in quick) == terminal
    monkeypatch.setattr(output, "_laid_out", lambda *_: None)
    assert quick == shown()
