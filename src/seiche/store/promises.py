"""The promises of a store that a lake depends on, each as a check that tries it and says what was seen."""

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeAlias

from seiche.core.runtime import Runtime
from seiche.errors import AlreadyExists, CommitUnknown, NotFound, Unavailable
from seiche.store.base import Store

__all__ = ["ESSENTIAL", "FACTS", "THOROUGH", "Broken", "Check", "Trial"]


class Broken(Exception):
    """The store breaks a promise."""


@dataclass(frozen=True, slots=True)
class Trial:
    """The place in a store where things are tried, and how hard."""

    store: Store
    prefix: str
    rounds: int
    writers: int
    runtime: Runtime

    def path(self, name: str) -> str:
        """Where a file of the trial lies."""
        return f"{self.prefix}/{name}"

    def names(self, directory: str, **how: Any) -> list[str]:
        """What a listing gives, without the directories."""
        return [info.path.rpartition("/")[2] for info in self.store.list(self.path(directory), **how)]

    def clean_up(self) -> None:
        """Remove all of it."""
        for info in list(self.store.list(self.prefix)):
            self.store.delete(info.path)
        self.store.prune(self.prefix)


# Says what was seen; raises `Broken`, or what the store raises.
Check: TypeAlias = Callable[[Trial], str]


def _expect(kept: bool, otherwise: str) -> None:
    if not kept:
        raise Broken(otherwise)


@contextmanager
def _refused() -> Iterator[None]:
    """The block must raise `AlreadyExists`."""
    try:
        yield
    except AlreadyExists:
        return
    raise Broken("a name that was taken was given away again")


def _taken_name(trial: Trial) -> str:
    path = trial.path("taken")
    trial.store.put_if_absent(path, b"first")
    with _refused():
        trial.store.put_if_absent(path, b"second")
    _expect(trial.store.get(path) == b"first", "the second writer was refused, but its bytes are there")
    return "the second writer is refused, the first one's bytes stay"


# Lets a writer create a name: from its staged file, under the name that all want, with its bytes.
_Create: TypeAlias = Callable[[str, str, bytes], None]


def _race(trial: Trial, verb: str, create: _Create) -> str:
    undecided = 0
    for number in range(trial.rounds):
        target = trial.path(f"race-{verb}/{number}")
        contents = [f"writer {writer} of round {number}".encode() for writer in range(trial.writers)]
        if verb != "put":
            for writer, content in enumerate(contents):
                trial.store.put(_staged(target, writer), content, durable=False)
        outcomes = _raced(target, contents, create)
        _check_race(trial.store, target, contents, outcomes)
        undecided += sum(outcome not in ("won", "lost") for outcome in outcomes)
    answered = f", {undecided} answers left it open" if undecided else ""
    at_most = "at most " if undecided else ""
    return f"{at_most}one of {trial.writers} won, in each of {trial.rounds} rounds{answered}"


def _staged(target: str, writer: int) -> str:
    return f"{target}-staged-{writer}"


def _raced(target: str, contents: Sequence[bytes], create: _Create) -> list[str]:
    """Let one writer for each of the contents create `target`, all at once; what became of each."""
    start = threading.Barrier(len(contents))

    def attempt(writer: int) -> str:
        start.wait()
        try:
            create(_staged(target, writer), target, contents[writer])
            return "won"
        except AlreadyExists:
            return "lost"
        except (CommitUnknown, Unavailable) as error:
            return error.kind

    with ThreadPoolExecutor(len(contents)) as pool:
        return list(pool.map(attempt, range(len(contents))))


def _check_race(store: Store, target: str, contents: Sequence[bytes], outcomes: Sequence[str]) -> None:
    """At most one has won, somebody has if others have lost, and the bytes are those of the winner."""
    writers = len(contents)
    winners = [writer for writer, outcome in enumerate(outcomes) if outcome == "won"]
    unknown = [writer for writer, outcome in enumerate(outcomes) if outcome == CommitUnknown.kind]
    _expect(len(winners) < 2, f"{len(winners)} of {writers} writers that created the same name all won")
    there = store.get(target) if store.exists(target) else None
    nobody = f"none of {writers} writers that created the same name won"
    _expect(bool(winners or unknown) or "lost" not in outcomes, nobody)
    if winners or there is not None:
        owners = [contents[writer] for writer in winners or unknown]
        _expect(there in owners, "the bytes are not those of the writer that won")


def _race_put(trial: Trial) -> str:
    return _race(trial, "put", lambda _, target, content: trial.store.put_if_absent(target, content))


def _race_copy(trial: Trial) -> str:
    return _race(trial, "copy", lambda source, target, _: trial.store.copy_if_absent(source, target))


def _race_rename(trial: Trial) -> str:
    return _race(trial, "rename", lambda source, target, _: trial.store.rename_if_absent(source, target))


def _read_after_write(trial: Trial) -> str:
    for number in range(trial.rounds * 3):
        path = trial.path(f"read/{number}")
        _expect(not trial.store.exists(path), "a file is there that nobody wrote")
        trial.store.put_if_absent(path, b"new")
        _expect(trial.store.exists(path) and trial.store.get(path) == b"new", "a new file was not seen at once")
        trial.store.put(path, b"replaced")
        _expect(trial.store.get(path) == b"replaced", "a file that was replaced still showed its old bytes")
        _expect(trial.store.head(path).size == 8, "a file that was replaced still showed its old size")
        trial.store.delete(path)
        _expect(not trial.store.exists(path), "a file that was deleted was still seen")
    return "new, replaced and deleted files are seen as such at once"


def _list_after_write(trial: Trial) -> str:
    names = [f"{number:03}" for number in range(trial.rounds * 3)]
    for number, name in enumerate(names, start=1):
        trial.store.put_if_absent(trial.path(f"list/{name}"), b"")
        _expect(set(names[:number]) <= set(trial.names("list")), "a new file was not listed at once")
    trial.store.delete(trial.path(f"list/{names[0]}"))
    _expect(names[0] not in trial.names("list"), "a file that was deleted was still listed")
    return "new and deleted files show in the next listing"


def _list_order(trial: Trial) -> str:
    names = ["a", "a-1", "a.b", "b", "c"]
    for name in [*reversed(names), "a0/x", "d/y"]:
        trial.store.put_if_absent(trial.path(f"order/{name}"), b"")
    listed = trial.names("order", recursive=False)
    _expect(listed == names, f"a directory is listed as {listed} instead of {names}")
    later = trial.names("order", recursive=False, start_after=trial.path("order/a-1"))
    _expect(later == names[2:], f"a listing that starts after 'a-1' gives {later}")
    _expect(sorted(trial.names("order")) == sorted([*names, "x", "y"]), "a listing of everything below is not complete")
    return "files of a directory come in order, listings may start in the middle"


def _copies(trial: Trial) -> str:
    source, copied, target = trial.path("source"), trial.path("copied"), trial.path("target")
    trial.store.put(source, b"bytes")
    trial.store.put(copied, b"older and longer")
    trial.store.copy(source, copied)
    trial.store.copy(source, copied)
    trial.store.copy_if_absent(source, target)
    with _refused():
        trial.store.copy_if_absent(source, target)
    with _refused():
        trial.store.rename_if_absent(source, copied)
    trial.store.rename_if_absent(source, trial.path("renamed"))
    _expect(not trial.store.exists(source), "a renamed file still has its old name")
    for name in ("copied", "target", "renamed"):
        _expect(trial.store.get(trial.path(name)) == b"bytes", "a copy has other bytes than its source")
    return "copies are exact, and taken names are refused"


def _ranges(trial: Trial) -> str:
    path = trial.path("ten")
    trial.store.put(path, b"0123456789")
    for start, length, expected in ((2, 3, b"234"), (8, 9, b"89"), (10, 1, b""), (-3, 2, b"78")):
        found = trial.store.get_range(path, start, length)
        _expect(found == expected, f"{length} bytes from {start} of ten digits are {found!r}")
    return "parts of a file are what they should be, also at its end"


def _literal_names(trial: Trial) -> str:
    names = ["a b", "a%20b", "a+b", "a#b?c", "é", "e\u0301", "..a", "x" * 100]
    for name in names:
        trial.store.put_if_absent(trial.path(f"names/{name}"), name.encode())
    listed = trial.names("names")
    _expect(sorted(listed) == sorted(names), f"names come back as {sorted(listed)}")
    for name in names:
        _expect(trial.store.get(trial.path(f"names/{name}")) == name.encode(), f"{name!r} holds another file's bytes")
    return "spaces, percent signs and accents stay what they are"


def _missing_file(trial: Trial) -> str:
    for read in (trial.store.get, trial.store.head):
        try:
            read(trial.path("nothing"))
        except NotFound:
            continue
        raise Broken("a file that does not exist was read")
    trial.store.delete(trial.path("nothing"))
    return "reading one is an error, deleting one is not"


def _storage_time(trial: Trial) -> str:
    path = trial.path("time")
    trial.store.put(path, b"")
    ahead = (trial.store.head(path).modified - trial.runtime.clock.now()).total_seconds()
    return f"the storage's clock is {abs(ahead):.1f} s {'ahead of' if ahead > 0 else 'behind'} this machine's"


def _latency(trial: Trial) -> str:
    puts, gets, data = [], [], bytes(4096)
    for number in range(trial.rounds * 3):
        path = trial.path(f"speed/{number}")
        start = trial.runtime.clock.monotonic()
        trial.store.put_if_absent(path, data)
        written = trial.runtime.clock.monotonic()
        trial.store.get(path)
        puts.append(written - start)
        gets.append(trial.runtime.clock.monotonic() - written)
    put, get = (1000 * sorted(times)[len(times) // 2] for times in (puts, gets))
    return f"creating 4 kB takes {put:.2f} ms, reading it {get:.2f} ms"


# No promises: what these find is told, whatever it is.
FACTS: frozenset[Check] = frozenset({_storage_time, _latency})
# Without these, commits would be lost.
ESSENTIAL: tuple[tuple[str, Check], ...] = (
    ("taken names", _taken_name),
    ("racing creators", _race_put),
    ("read after write", _read_after_write),
    ("list after write", _list_after_write),
)
THOROUGH: tuple[tuple[str, Check], ...] = (
    ("racing copies", _race_copy),
    ("racing renames", _race_rename),
    ("copies and renames", _copies),
    ("order of listings", _list_order),
    ("parts of files", _ranges),
    ("literal names", _literal_names),
    ("missing files", _missing_file),
    ("clock", _storage_time),
    ("speed", _latency),
)
