"""A process that reads damaged files of Lance tables, and may take only so much memory while it does.

    MALLOC_ARENA_MAX=1 python -m tests.damaged_tables SEED FILES TABLES

Files are read by themselves, tables by what a user calls. Each read must give a value or one of our errors. One that
asks for more memory than the process may have gives neither: `MemoryError`, or the end of the process.
"""

import gc
import random
import resource
import shutil
import sys
import tempfile
import threading
import traceback
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path

import seiche
from seiche.core.runtime import SYSTEM
from seiche.errors import SeicheError
from seiche.store.local import LocalStore
from seiche.table import affected
from seiche.table.bases import deletion_files
from seiche.table.data.rewrite.row_marks import RowMarks
from seiche.table.format import deletions, file, index_details, refs, roaring
from seiche.table.format import manifest_pb2 as pb
from seiche.table.format.manifest import Manifest
from seiche.table.format.row_ids import RowIds, RowVersions
from seiche.table.format.schema import to_arrow
from seiche.table.reachable import Reach
from seiche.table.transaction import Transaction

FIXTURES = Path(__file__).parent / "fixtures" / "lance"
# Over what the process has when it begins, stacks of threads included. The largest file is a thousandth of it.
MORE_MEMORY = 512 << 20
# What a length or an offset becomes: the largest numbers of each width, fixed and variable.
LARGE = (
    *(b"\xff" * 4, b"\xff\xff\xff\x7f", b"\xff" * 8, b"\xff" * 7 + b"\x7f", b"\x00\x00\x00\x80", b"\x00" * 4),
    *(b"\xff" * 9 + b"\x01", b"\xff\xff\xff\xff\x0f", b"\xff\xff\x7f", b"\x80\x80\x80\x80\x80\x01", b"\x00" * 8),
)


def flipped(data: bytes, at: int, chance: random.Random) -> bytes:
    return data[:at] + bytes([data[at] ^ 1 << chance.randrange(8)]) + data[at + 1 :]


def large(data: bytes, at: int, chance: random.Random) -> bytes:
    number = chance.choice(LARGE)
    return (data[:at] + number + data[at + len(number) :])[: max(len(data), at + 1)]


def inserted(data: bytes, at: int, chance: random.Random) -> bytes:
    return data[:at] + chance.choice(LARGE) + data[at:]


def other(data: bytes, at: int, chance: random.Random) -> bytes:
    return data[:at] + chance.randbytes(1) + data[at + 1 :]


def cut(data: bytes, at: int, chance: random.Random) -> bytes:
    return data[:at]


def without(data: bytes, at: int, chance: random.Random) -> bytes:
    return data[:at] + data[at + chance.randrange(1, 9) :]


DAMAGES = (flipped, flipped, large, large, inserted, other, cut, without)


def damaged(data: bytes, chance: random.Random) -> bytes:
    """With one damage, or with two or three that may fit together; often near the end, where the lengths are."""
    for _ in range(chance.choice((1, 1, 2, 3))):
        if data:
            at = chance.randrange(len(data)) if chance.random() < 0.7 else max(0, len(data) - chance.randrange(1, 40))
            data = chance.choice(DAMAGES)(data, at, chance)
    return data


def read_manifest(path: Path, data: bytes) -> None:
    read = file.decode(data, path=path.name)
    manifest = read.manifest
    str((manifest.header, manifest.timestamp, manifest.max_fragment_id))
    to_arrow(manifest.header.fields, manifest.header.schema_metadata)
    store = LocalStore(str(path.parent.parent))
    vectors = deletion_files(manifest, store, SYSTEM)
    for fragment in manifest.fragments:
        rows = fragment.physical_rows
        if fragment.HasField("inline_row_ids"):
            RowIds.decode(fragment.inline_row_ids, rows=rows).to_array()
        for versions in (fragment.inline_created, fragment.inline_last_updated):
            if versions:
                RowVersions.decode(versions, rows=rows).to_array()
        vectors.read(fragment)
    if manifest.has_stable_row_ids:
        RowMarks.of(manifest.fragments.decoded())
    Reach().add_manifest(manifest)
    read_indices(manifest, store)
    if read.transaction is not None:
        Transaction.from_proto(read.transaction)


def read_indices(manifest: Manifest, store: LocalStore) -> None:
    for index in manifest.indices:
        if index.fragment_bitmap:
            roaring.decode(index.fragment_bitmap)
        if index.name == index_details.FRAGMENT_REUSE:
            for version in index_details.ReuseIndexFiles(store).read(index).versions:
                for group in version.groups:
                    roaring.decode64(group.changed_row_addrs)
        elif index.name == index_details.MEM_WAL:
            index_details.mem_wal_details(index)


def read_transaction(path: Path, data: bytes) -> None:
    transaction = Transaction.decode(data, path=path.name)
    transaction.encode()
    affected.unpack(transaction.properties)


def read_part(path: Path, data: bytes) -> None:
    """As a commit does, which reads only the transaction out of a manifest."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / path.name).write_bytes(data)
        file.read_transaction(LocalStore(folder), path.name)


def read_deletions(path: Path, data: bytes) -> None:
    kind = pb.DeletionFile.BITMAP if path.suffix == ".bin" else pb.DeletionFile.ARROW
    deletions.decode(data, kind, what=path.name)


def read_ref(path: Path, data: bytes) -> None:
    (refs.Tag if path.parent.name == "tags" else refs.Branch).decode(data, path=path.name)


READERS: dict[str, list[Callable[[Path, bytes], None]]] = {
    ".manifest": [read_manifest, read_manifest, read_part],
    ".txn": [read_transaction],
    ".arrow": [read_deletions],
    ".bin": [read_deletions],
    ".json": [read_ref],
}


def read_table(folder: Path) -> None:
    """What a user asks of a table, as far as no data files are needed."""
    table = seiche.Table.open(str(folder))
    table.versions()
    table.transactions()
    str((table.tags(), table.branches(), table.schema, table))
    first, last = table.versions()[0].version, table.version
    str(table.changes(first, last))
    table.cleanup(older_than=0, dry_run=True)


def files(chance: random.Random, count: int, outcomes: Counter[str]) -> None:
    found = sorted(path for path in FIXTURES.rglob("*") if path.suffix in READERS and path.is_file())
    by_kind = {suffix: [path for path in found if path.suffix == suffix] for suffix in READERS}
    for number in range(count):
        suffix = list(READERS)[number % len(READERS)]
        path = chance.choice(by_kind[suffix])
        reader = chance.choice(READERS[suffix])
        data = damaged(path.read_bytes(), chance)
        what = f"{reader.__name__}({path.relative_to(FIXTURES)}), trial {number}"
        attempt(what, partial(reader, path, data), outcomes)


def tables(chance: random.Random, count: int, outcomes: Counter[str]) -> None:
    folders = sorted(path.parent for path in FIXTURES.rglob("_versions") if "tree" not in path.parts)
    with tempfile.TemporaryDirectory() as home:
        for number in range(count):
            source, copy = chance.choice(folders), Path(home) / str(number)
            shutil.copytree(source, copy)
            victim = chance.choice(sorted(path for path in copy.rglob("*") if path.is_file()))
            victim.write_bytes(damaged(victim.read_bytes(), chance))
            what = f"{source.relative_to(FIXTURES)}, {victim.relative_to(copy)}, trial {number}"
            attempt(what, partial(read_table, copy), outcomes)
            shutil.rmtree(copy)


def attempt(what: str, act: Callable[[], object], outcomes: Counter[str]) -> None:
    try:
        act()
    except SeicheError as error:
        outcomes[error.kind] += 1
    except Exception:
        print(f"{what}:", traceback.format_exc(), flush=True)
        outcomes["failed"] += 1
    else:
        outcomes["read"] += 1


def main(seed: int, file_count: int, table_count: int) -> None:
    chance, outcomes = random.Random(seed), Counter[str]()
    threading.stack_size(1 << 20)
    read_table(FIXTURES / "deletes")  # whatever is loaded late
    gc.collect()
    held = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (held + MORE_MEMORY, resource.RLIM_INFINITY))
    attempt("too much memory, to see that it is noticed", lambda: str(len(bytearray(2 * MORE_MEMORY))), outcomes)
    assert outcomes.pop("failed") == 1
    files(chance, file_count, outcomes)
    tables(chance, table_count, outcomes)
    print(dict(outcomes))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
