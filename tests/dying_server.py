"""A server that dies with -9 at named steps, one after the other, and comes back each time.

    python -m tests.dying_server PORT LAKE STATE step:nth ...

Everything is loaded once; each life of the server is a fork. When all steps were died at it lives on until terminated.
"""

import itertools
import os
import signal
import sys
import time
from collections.abc import Callable
from typing import Any, Final

import grpc_health.v1.health
import grpc_reflection.v1alpha.reflection
import opentelemetry.trace
import prometheus_client
import psycopg
import pyarrow
import uvloop

import seiche.lake.commit.committer as lake_commit
from seiche.cli import main
from seiche.errors import Unavailable
from seiche.lake.commit.committer import Committer
from seiche.service import host
from seiche.service.blobs import Blobs
from seiche.service.state import keys
from seiche.service.state.keys import KeyStore
from seiche.service.state.transactions import TransactionStore
from seiche.service.wire import handlers, server

LOADED: Final = (grpc_health, grpc_reflection, opentelemetry, prometheus_client, psycopg, pyarrow, uvloop)
LOADED_OURS: Final = (handlers, host, server)

# Every step of begin, prepare, commit and abort that leaves something behind.
PLACES: Final[dict[str, tuple[Any, str]]] = {
    "insert": (TransactionStore, "insert"),
    "claim": (KeyStore, "claim"),
    "blob": (Blobs, "put"),
    "prepare": (TransactionStore, "prepare"),
    "done": (KeyStore, "done"),
    "known": (TransactionStore, "known"),
    "start": (TransactionStore, "start"),
    "stage": (lake_commit, "stage"),
    "root": (lake_commit, "publish"),
    "publish": (Committer, "_follow_up"),
    "note": (TransactionStore, "note"),
    "finish": (TransactionStore, "finish"),
    "abandon": (TransactionStore, "abandon"),
    "settle": (Committer, "abort"),
}
STEPS: Final = tuple(f"{when}-{place}" for place in PLACES for when in ("before", "after"))


def arm(step: str, nth: int) -> None:
    """Die at the `nth` time that the step is reached."""
    when, place = step.split("-")
    owner, name = PLACES[place]
    plain: Callable[..., Any] = getattr(owner, name)
    seen = 0

    def deadly(*args: Any, **kwargs: Any) -> Any:
        nonlocal seen
        seen += 1
        if when == "before" and seen >= nth:
            os.kill(os.getpid(), signal.SIGKILL)
        done = plain(*args, **kwargs)
        if when == "after" and seen >= nth:
            os.kill(os.getpid(), signal.SIGKILL)
        return done

    setattr(owner, name, deadly)
    if place == "settle":
        trouble()


def trouble() -> None:
    """Every other commit fails for now: only of one that was begun and is not decided must an abort be a root."""
    plain, calls = Committer.commit_group, itertools.count()

    def failing(self: Committer, *args: Any) -> Any:
        if next(calls) % 2:
            raise Unavailable("the storage is away for a moment")
        return plain(self, *args)

    setattr(Committer, "commit_group", failing)  # noqa: B010 - a method is not to be assigned to


def live(step: str, port: str, lake: str, state: str) -> int:
    """One life, in a process of its own; returns how it ended."""
    child = os.fork()
    if child == 0:
        if step:
            name, _, nth = step.partition(":")
            arm(name, int(nth or 1))
        # Who died at work on a request keeps others from it for a moment only: there are many deaths to come. Not where
        # this is imported for its names.
        keys.LEASE_MILLIS = 300  # type: ignore[misc]
        sys.argv = ["seiche", "serve", lake, "--state", state, "--no-auth", "--port", port]
        os._exit(main() or 0)
    until = time.monotonic() + 30
    while True:
        pid, status = os.waitpid(child, os.WNOHANG if step else 0)
        if pid:
            return status
        if time.monotonic() > until:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return -1
        time.sleep(0.01)


def lives(port: str, lake: str, state: str, *steps: str) -> None:
    for step in steps:
        print(f"{time.time():.1f} until {step}", file=sys.stderr, flush=True)
        status = live(step, port, lake, state)
        died = status != -1 and os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
        print(f"died {step}" if died else f"never came to {step}: {status}", flush=True)
    live("", port, lake, state)


if __name__ == "__main__":
    lives(*sys.argv[1:])
