"""Stores in memory: shared by name, gone with the process, whichever way it ends."""

import os
import signal
import subprocess
import sys
import textwrap
import uuid
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from seiche.errors import NotFound
from seiche.store import open_store


@pytest.fixture
def name() -> str:
    return f"memory://{uuid.uuid4().hex}"


def run(script: str, *, wait: bool = True) -> "subprocess.Popen[str]":
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(script)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    if wait:
        assert process.wait(60) == 0
    return process


OPEN = """
    from seiche.store import open_store
    store = open_store("memory://mine")
    store.put("f", b"x")
    print(store.native_uri(), flush=True)
"""


def test_everybody_in_the_process_sees_the_same_files(name: str) -> None:
    open_store(name).put("a/f", b"x")
    assert open_store(name).get("a/f") == b"x"
    assert open_store(name + "/a").get("f") == b"x"
    assert open_store(name + "/a/").uri == name + "/a"
    with pytest.raises(NotFound):
        open_store("memory://" + uuid.uuid4().hex).get("a/f")


def test_files_lie_where_native_readers_find_them(name: str) -> None:
    store = open_store(name)
    store.put("a/f", b"x")
    assert Path(store.native_uri("a/f")).read_bytes() == b"x"
    assert Path(store.native_uri()).parent.stat().st_mode & 0o077 == 0, "nobody else may look in"


@pytest.mark.parametrize("seconds", [2**38, 2**50, -(2**38), -(2**50)])
def test_a_time_that_no_calendar_has_does_not_stop_a_listing(name: str, seconds: int) -> None:
    """A RAM disk keeps such times, as some other file systems do."""
    store = open_store(name)
    store.put("f", b"x")
    os.utime(store.native_uri("f"), (seconds, seconds))
    (listed,) = store.list()
    assert listed == store.head("f")
    assert (listed.modified > datetime.now(UTC)) == (seconds > 0)
    assert listed.modified + timedelta(days=365_000) > listed.modified - timedelta(days=300_000)


def test_nothing_is_left_when_the_process_ends() -> None:
    with run(OPEN) as process:
        assert process.stdout is not None
        where = Path(process.stdout.readline().strip())
    assert not where.exists()
    assert not where.parent.exists()
    assert not Path(f"{where.parent}.lock").exists()


def test_what_a_killed_process_left_is_removed_by_the_next() -> None:
    with run(OPEN + "\n    input()", wait=False) as victim:
        assert victim.stdout is not None
        where = Path(victim.stdout.readline().strip())
        with run(OPEN) as bystander:
            assert bystander.wait() == 0
        assert (where / "f").read_bytes() == b"x", "the owner was still alive"
        victim.send_signal(signal.SIGKILL)
        victim.wait()
    assert (where / "f").exists()
    with run(OPEN) as next_one:
        assert next_one.wait() == 0
    assert not where.parent.exists()
    assert not Path(f"{where.parent}.lock").exists()


def test_a_child_that_ends_leaves_the_files_to_its_parent() -> None:
    script = """
        import os
        from seiche.store import open_store
        store = open_store("memory://mine")
        store.put("f", b"parent")
        child = os.fork()
        if child == 0:
            store.put("g", b"child")
            raise SystemExit(0)
        os.waitpid(child, 0)
        print(store.get("f") + store.get("g"), flush=True)
    """
    with run(script) as process:
        assert process.stdout is not None
        assert process.stdout.readline().strip() == "b'parentchild'"


def test_two_processes_do_not_share() -> None:
    with run(OPEN + "\n    input()", wait=False) as one:
        assert one.stdout is not None
        where = Path(one.stdout.readline().strip())
        assert where.exists()
        assert os.path.commonpath([where, open_store("memory://mine").native_uri()]) == str(where.parent.parent)
        assert not open_store("memory://mine").exists("f")
        one.communicate("\n")
