"""The local store against obstore's, side by side: small files created, read and listed per second."""

import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import obstore
from obstore.store import LocalStore as Obstore

from bench.report import Table
from seiche.store import Store, open_store

FILES = 1000
ROUNDS = 3
SIZE = 2000


@dataclass(frozen=True)
class Contender:
    """One store, as functions of a name."""

    title: str
    put: Callable[[str, bytes], object]
    get: Callable[[str], object]
    names: Callable[[str], Iterable[str]]


def ours(title: str, store: Store) -> Contender:
    return Contender(title, store.put_if_absent, store.get, lambda path: [info.path for info in store.list(path)])


def theirs(title: str, store: Obstore) -> Contender:
    return Contender(
        title,
        lambda path, data: store.put(path, data, mode="create"),
        lambda path: bytes(store.get(path).bytes()),
        lambda path: [meta["path"] for meta in obstore.list(store, path, chunk_size=1000).collect()],
    )


def per_second(work: Callable[[], int]) -> float:
    """How many things `work` does in a second; it returns how many it did."""
    start = time.perf_counter()
    done = work()
    return done / (time.perf_counter() - start)


def measure(contender: Contender, folder: str, data: bytes) -> tuple[float, float, float]:
    """Files created, read and listed per second in a new folder."""
    paths = [f"{folder}/{number:020d}.manifest" for number in range(FILES)]

    def put() -> int:
        for path in paths:
            contender.put(path, data)
        return len(paths)

    def get() -> int:
        for path in paths:
            contender.get(path)
        return len(paths)

    def names() -> int:
        found = sum(1 for _ in contender.names(folder))
        assert found == len(paths)
        return found

    return per_second(put), per_second(get), per_second(names)


def compare(contenders: Sequence[Contender], title: str, note: str) -> Table:
    """The last contender is what the others are compared with."""
    data = bytes(SIZE)
    rounds: dict[str, list[tuple[float, float, float]]] = {contender.title: [] for contender in contenders}
    for number in range(ROUNDS):
        # In turns, so that a slow moment of the machine hits everybody.
        for contender in contenders:
            rounds[contender.title].append(measure(contender, f"{title}-{number}", data))
    rates = {name: [median(column) for column in zip(*measured, strict=True)] for name, measured in rounds.items()}
    base = rates[contenders[-1].title]
    rows = [
        (name, *(cell for rate, other in zip(rate_of, base, strict=True) for cell in (round(rate), rate / other)))
        for name, rate_of in rates.items()
    ]
    columns = ("store", "put/s", "ratio", "get/s", "ratio", "list/s", "ratio")
    return Table(title, columns, rows, note)


def run() -> Iterable[Table]:
    root = Path(tempfile.mkdtemp(prefix="seiche-bench-"))
    try:
        contenders = [
            ours("ours, fsync", open_store(root / "fsync")),
            ours("ours, os", open_store(root / "os", durability="os")),
            theirs("obstore", Obstore(root / "obstore", mkdir=True)),
        ]
        note = f"{FILES} files of {SIZE} bytes, median of {ROUNDS} rounds; ratios to obstore, which does not fsync."
        yield compare(contenders, "local files", note)
    finally:
        shutil.rmtree(root)
