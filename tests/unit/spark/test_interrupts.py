"""Ctrl-C while Spark works for a command."""

import logging
import os
import signal

import pytest

from seiche.cli.quiet import quiet_start


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
