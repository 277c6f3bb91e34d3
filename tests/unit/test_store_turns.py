"""Turns: one at a time while all goes well, and nobody is ever stopped by somebody else."""

import errno
import fcntl
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from seiche.store import open_store
from seiche.store.prefix import below
from seiche.store.turns import Turns

HOLDER = """
import sys
from seiche.store.turns import Turns
with Turns(sys.argv[1]).one():
    print("inside", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def holder(tmp_path: Path) -> "Iterator[subprocess.Popen[str]]":
    """A process that has the turn until it dies or its standard input ends."""
    command = [sys.executable, "-c", HOLDER, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "inside\n"
        yield process
        process.kill()


def test_one_at_a_time(tmp_path: Path) -> None:
    store = open_store(str(tmp_path))
    inside = most = entered = 0
    begin = threading.Barrier(8)

    def enter() -> None:
        nonlocal inside, most, entered
        begin.wait()
        for _ in range(20):
            with store.turn():
                inside += 1
                most = max(most, inside)
                entered += 1
                inside -= 1

    threads = [threading.Thread(target=enter) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (most, entered) == (1, 160)


def test_a_part_of_a_store_has_the_turns_of_the_whole(tmp_path: Path) -> None:
    (tmp_path / "part").mkdir()
    store = open_store(str(tmp_path))
    with store.turn() as waited:
        assert not waited
        with pytest.raises(BlockingIOError):
            raise_if_taken(tmp_path)
    with below(store, "part").turn(), pytest.raises(BlockingIOError):
        raise_if_taken(tmp_path)
    raise_if_taken(tmp_path)


def raise_if_taken(directory: Path) -> None:
    fd = os.open(directory, os.O_RDONLY)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    finally:
        os.close(fd)


def test_who_has_the_turn_does_not_wait_for_itself(tmp_path: Path) -> None:
    store = open_store(str(tmp_path))
    with Turns(str(tmp_path), patience=60).one():
        with below(store, "part").turn() as waited:
            assert not waited
        with pytest.raises(BlockingIOError):
            raise_if_taken(tmp_path)  # it is had until the outer one ends
    raise_if_taken(tmp_path)
    with store.turn(), pytest.raises(BlockingIOError):
        raise_if_taken(tmp_path)


def test_who_dies_inside_lets_the_next_one_in(tmp_path: Path, holder: "subprocess.Popen[str]") -> None:
    came = threading.Event()

    def enter() -> None:
        with Turns(str(tmp_path), patience=60).one():
            came.set()

    thread = threading.Thread(target=enter)
    thread.start()
    holder.send_signal(signal.SIGKILL)
    assert came.wait(60)
    thread.join()


def test_who_waits_can_do_something_meanwhile(tmp_path: Path, holder: "subprocess.Popen[str]") -> None:
    looks = 0

    def work() -> None:
        nonlocal looks
        looks += 1
        if looks == 3:
            holder.kill()

    with Turns(str(tmp_path), patience=60).one(work) as waited:
        assert waited
    assert looks >= 3
    before = looks
    with Turns(str(tmp_path)).one(work) as waited:
        assert not waited
    assert looks == before


def test_what_goes_wrong_meanwhile_ends_the_waiting(tmp_path: Path, holder: "subprocess.Popen[str]") -> None:
    def fail() -> None:
        raise RuntimeError("in the way")

    descriptors = len(os.listdir("/proc/self/fd"))
    with pytest.raises(RuntimeError, match="in the way"), Turns(str(tmp_path), patience=60).one(fail):
        pass
    assert len(os.listdir("/proc/self/fd")) == descriptors
    holder.kill()
    holder.wait()
    raise_if_taken(tmp_path)


def test_who_is_stopped_inside_stops_nobody(tmp_path: Path, holder: "subprocess.Popen[str]") -> None:
    holder.send_signal(signal.SIGSTOP)
    turns = Turns(str(tmp_path), patience=0.05)
    for _ in range(5):
        with turns.one() as waited:
            assert waited
    holder.kill()
    holder.wait()
    with turns.one() as waited:
        assert not waited
    raise_if_taken(tmp_path)


def test_as_long_as_something_moves_the_others_wait(tmp_path: Path, holder: "subprocess.Popen[str]") -> None:
    came = threading.Event()

    def enter() -> None:
        with Turns(str(tmp_path), patience=0.2).one():
            came.set()

    thread = threading.Thread(target=enter)
    thread.start()
    for number in range(40):
        (tmp_path / str(number)).touch()
        assert not came.wait(0.02)
    holder.kill()
    assert came.wait(60)
    thread.join()


FORKING = """
import os, sys
from seiche.store.turns import Turns
reading, writing = os.pipe()
with Turns(sys.argv[1]).one():
    child = os.fork()
    if not child:
        os.close(writing)
        os.read(reading, 1)
        os._exit(0)
with Turns(sys.argv[1], patience=0.05).one() as waited:
    print("waited" if waited else "free")
os.close(writing)
os.waitpid(child, 0)
"""


def test_a_forked_process_does_not_keep_the_turn(tmp_path: Path) -> None:
    told = subprocess.run([sys.executable, "-c", FORKING, str(tmp_path)], check=True, capture_output=True, text=True)
    assert told.stdout == "free\n"


def test_without_a_directory_everybody_is_let_in(tmp_path: Path) -> None:
    with Turns(str(tmp_path / "none")).one() as waited:
        assert not waited


def test_who_gets_the_turn_lets_the_others_see_that_it_has_passed_on(
    tmp_path: Path, holder: "subprocess.Popen[str]"
) -> None:
    os.utime(tmp_path, (1, 1))
    with Turns(str(tmp_path), patience=60).one(meanwhile=holder.kill) as waited:
        assert waited
        assert tmp_path.stat().st_mtime > 1


def test_where_there_are_no_locks_everybody_is_let_in_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def without_locks(*_: object) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", without_locks)
    with Turns(str(tmp_path)).one() as waited, Turns(str(tmp_path)).one() as again:
        assert not waited
        assert not again


def test_a_directory_that_its_network_file_system_has_lost_stops_nobody(
    tmp_path: Path, holder: "subprocess.Popen[str]", monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is wrong with it is told by what is done inside, not by the turn."""
    original = os.close

    def lost(fd: int) -> None:
        raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))

    def closed(fd: int) -> None:
        original(fd)
        lost(fd)

    turns = Turns(str(tmp_path), patience=0.05)
    done = []
    with monkeypatch.context() as patched:
        patched.setattr(os, "fstat", lost)
        patched.setattr(os, "close", closed)
        with turns.one() as waited:
            done.append(waited)
    assert done == [True]
