"""Processes that write to a store until they are done or killed (`python -m tests.store_writers ...`)."""

import json
import os
import sys
import time
from itertools import count
from pathlib import Path
from typing import Any

from seiche.errors import AlreadyExists
from seiche.store import Store, open_store
from seiche.store.base import Data
from seiche.store.files import joined
from seiche.store.local import LocalStore
from seiche.store.paths import check

SIZE = 4000


class CheckThenRenameStore(LocalStore):
    """What must not be done: look whether the name is free, and then rename, which replaces."""

    def put_if_absent(self, path: str, data: Data, *, durable: bool = True) -> None:
        if self.exists(check(path)):
            raise AlreadyExists(f"{path}: exists already", path=path)
        self.put(path, data, durable=durable)


class WriteInPlaceStore(LocalStore):
    """What must not be done either: take the name first, and then write the bytes."""

    def put_if_absent(self, path: str, data: Data, *, durable: bool = True) -> None:
        target = Path(self.native_uri(check(path)))
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("xb", buffering=0) as file:
            for position in range(0, len(joined(data)), 512):
                file.write(joined(data)[position : position + 512])
                time.sleep(0.0005)  # on a machine with nothing else to do, all of it would be there at once


def opened(opener: str, uri: str, options: dict[str, Any]) -> Store:
    match opener:
        case "check_then_rename":
            return CheckThenRenameStore(uri)
        case "write_in_place":
            return WriteInPlaceStore(uri, durability="os")
    return open_store(uri, **options)


def content(writer: int) -> bytes:
    return str(writer).encode() * SIZE


def race(writer: int, store: Store, names: int) -> None:
    """Try to create every name, all in the same order; print which ones this process created."""
    mine = content(writer)
    won = []
    print("ready", flush=True)
    start = float(sys.stdin.readline())
    for number in range(names):
        if number % 50 == 0:
            # All begin anew together: who is ahead meets free names only, and would stay ahead to the end.
            time.sleep(max(0.0, start + number * 0.0004 - time.monotonic()))
        name = f"race/{number:04d}"
        try:
            store.put_if_absent(name, mine)
            won.append(name)
        except AlreadyExists:
            pass
    print(json.dumps(won), flush=True)


def write_forever(writer: int, store: Store) -> None:
    """Create and overwrite files of many sizes until killed."""
    print("ready", flush=True)
    for number in count():
        body = f"{writer}-{number}".encode() * (1 + number * 7919 % 5000)
        whole = [b"%010d" % (10 + len(body) + 3), body, b"END"]
        store.put_if_absent(f"new/{writer}/{os.getpid()}-{number}", whole, durable=number % 2 == 0)
        store.put(f"over/{writer}", whole, durable=False)
        store.copy(f"over/{writer}", f"over/copy-{writer}")


def is_whole(data: bytes) -> bool:
    """Whether a file of `write_forever` is one that it meant to write."""
    return data[:10].isdigit() and int(data[:10]) == len(data) and data.endswith(b"END")


if __name__ == "__main__":
    task, who, opener, uri, options = sys.argv[1:6]
    target = opened(opener, uri, json.loads(options))
    if task == "race":
        race(int(who), target, int(sys.argv[6]))
    else:
        write_forever(int(who), target)
