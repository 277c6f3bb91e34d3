"""Ctrl-C while Spark works for a command."""

import logging
import os
import signal
from contextlib import nullcontext
from types import SimpleNamespace

import pytest
from py4j.protocol import Py4JNetworkError

from seiche.cli import commands, sql
from seiche.cli.failures import ExitCode
from seiche.cli.quiet import quiet_start
from seiche.errors import CommitUnknown, Unavailable
from seiche.spark.sql.failures import as_errors


def test_it_is_an_interrupt_and_nothing_else_is_said_of_it(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """A session of Spark has a way of its own, which fails in the midst of an answer and says so with traces."""
    root, ours = logging.getLogger(), signal.getsignal(signal.SIGINT)
    monkeypatch.setattr(root, "handlers", [])
    try:
        with quiet_start():
            signal.signal(signal.SIGINT, lambda *_: pytest.fail("as Spark would have it"))
        logging.error("KeyboardInterrupt while sending command.")  # noqa: LOG015 - as py4j does
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, ours)
    assert capfd.readouterr().err == ""


def test_one_that_comes_while_spark_starts_shows_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    def start() -> None:
        os.write(2, b"WARNING: Using incubator modules")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), quiet_start():
        start()
    assert capfd.readouterr().err == ""


def interrupted() -> None:
    """As pyspark: what it does on its way out meets the connection that the interrupt broke."""
    try:
        raise KeyboardInterrupt
    finally:
        raise Py4JNetworkError("Answer from Java side is empty")


def test_what_fails_on_the_way_out_is_the_interrupt_too(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(commands, "app", lambda **_: interrupted())
    assert commands.run_command([]) == ExitCode.INTERRUPTED
    assert capsys.readouterr() == ("", "")


def test_a_commit_that_may_have_happened_is_told_also_after_an_interrupt(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def commit(**_: object) -> None:
        try:
            raise KeyboardInterrupt
        finally:
            raise CommitUnknown("it may have happened")

    monkeypatch.setattr(commands, "app", commit)
    assert commands.run_command([]) == ExitCode.UNKNOWN
    assert "it may have happened" in capsys.readouterr().err


def test_at_the_prompt_the_next_statement_is_awaited(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    stopped: list[int] = []

    class Context:
        def cancelAllJobs(self) -> None:
            stopped.append(len(stopped))
            if len(stopped) == 1:
                raise Py4JNetworkError("Answer from Java side is empty")

    lake = SimpleNamespace(session=SimpleNamespace(sparkContext=Context()))
    session = SimpleNamespace(lake=lake, transaction=None, execute=lambda _: interrupted())
    typed = iter(["SELECT 1;", "SELECT 2;", "exit"])
    monkeypatch.setattr("builtins.input", lambda _: next(typed))
    monkeypatch.setattr(sql, "_history", nullcontext)
    sql._prompt(session, as_json=False)  # type: ignore[arg-type]
    said = capsys.readouterr()
    assert said.out.splitlines()[1:] == ["interrupted", "interrupted"]
    assert said.err == ""
    assert len(stopped) == 3


def test_at_the_prompt_a_commit_that_may_have_happened_is_told_too(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def insert(_: str) -> None:
        interrupt = KeyboardInterrupt()
        interrupt.add_note("It may have happened.")
        raise interrupt

    typed = iter(["INSERT INTO shop.orders VALUES (1);", "exit"])
    monkeypatch.setattr("builtins.input", lambda _: next(typed))
    monkeypatch.setattr(sql, "_history", nullcontext)
    monkeypatch.setattr(sql, "_stop_jobs", lambda _: None)
    sql._prompt(SimpleNamespace(transaction=None, execute=insert), as_json=False)  # type: ignore[arg-type]
    assert capsys.readouterr().err == "seiche: commit_unknown: interrupted. It may have happened.\n"


@pytest.mark.parametrize("gone", [Py4JNetworkError("its answer is empty"), ConnectionRefusedError(111, "no")])
def test_a_spark_that_has_ended_is_an_error_of_ours(gone: Exception) -> None:
    with pytest.raises(Unavailable, match="Spark does not answer"), as_errors():
        raise gone
