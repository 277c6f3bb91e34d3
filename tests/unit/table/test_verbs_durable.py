"""What a version names lasts before the version is there: no power failure leaves a table without its files."""

from collections.abc import Callable, Iterable
from pathlib import Path

import pyarrow as pa
import pytest
from lance.fragment import write_fragments

from seiche.store.base import Chunks, Data
from seiche.store.files import joined
from seiche.store.local import LocalStore
from seiche.table.data.fragments import fragment_from_lance
from seiche.table.format import deletions, file
from seiche.table.operations import Append
from seiche.table.reachable import index_folder
from seiche.table.table import Table

SCHEMA = pa.schema([("id", pa.int64()), ("text", pa.string()), ("vector", pa.list_(pa.float32(), 4))])


class Lasting(LocalStore):
    """Remembers what was flushed, and looks at each new version whether all that it names was."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.lasting: set[str] = set()
        self.missing: list[str] = []
        self.versions = 0

    def flush(self, paths: Iterable[str]) -> int:
        wanted = list(paths)
        done = super().flush(wanted)
        self.lasting.update(wanted)
        return done

    def put(self, path: str, data: Data, *, durable: bool = True) -> None:
        super().put(path, data, durable=durable)
        self._note(path, durable)

    def put_stream(self, path: str, chunks: Chunks) -> None:
        super().put_stream(path, chunks)
        self._note(path, durable=True)

    def put_if_absent(self, path: str, data: Data, *, durable: bool = True) -> None:
        if path.endswith(".manifest"):
            self._look(joined(data), path)
        super().put_if_absent(path, data, durable=durable)
        self._note(path, durable)

    def _note(self, path: str, durable: bool) -> None:
        if durable:
            self.lasting.add(path)

    def _look(self, data: bytes, path: str) -> None:
        self.versions += 1
        manifest = file.decode(data, path=path).manifest
        named = [f"data/{one.path}" for fragment in manifest.fragments for one in fragment.files]
        named += [
            deletions.path(one.id, one.deletion_file) for one in manifest.fragments if one.HasField("deletion_file")
        ]
        for index in manifest.indices:
            named += [info.path for info in self.list(index_folder(index.uuid.uuid))]
        self.missing += [one for one in named if one not in self.lasting]


def rows(start: int, count: int) -> pa.Table:
    numbers = range(start, start + count)
    values = {
        "id": numbers,
        "text": [f"text {one}" for one in numbers],
        "vector": [[float(one)] * 4 for one in numbers],
    }
    return pa.table({name: pa.array(values[name], SCHEMA.field(name).type) for name in SCHEMA.names})


def upsert(table: Table) -> object:
    return table.merge(rows(5, 700), "id").when_matched_update_all().when_not_matched_insert_all().execute()


def from_others(table: Table) -> Append:
    """Rows that pylance has written, which flushes nothing."""
    return Append(tuple(map(fragment_from_lance, write_fragments(rows(9000, 3), table.store.native_uri()))))


VERBS: dict[str, Callable[[Table], object]] = {
    "append, few": lambda table: table.append(rows(9000, 3)),
    "append, many": lambda table: table.append(rows(9000, 2000)),
    "overwrite": lambda table: table.overwrite(rows(0, 2000)),
    "delete": lambda table: table.delete("id % 3 = 0"),
    "update, rows": lambda table: table.update({"text": "'x'"}, "id < 20", mode="rows"),
    "update, columns": lambda table: table.update({"text": "'x'"}, "id < 900", mode="columns"),
    "merge": upsert,
    "add columns": lambda table: table.add_columns({"more": "id * 2"}),
    "alter columns": lambda table: table.alter_columns({"path": "id", "data_type": pa.int32()}),
    "replace a column": lambda table: table.replace_column("id", pa.array(range(1200), pa.int64())),
    "compact": lambda table: table.compact(),
    "reorder": lambda table: table.reorder(("id", "descending")),
    "create an index": lambda table: table.create_index("id", "BTREE"),
    "optimize indices": lambda table: table.optimize_indices(),
    "compact, indices remapped": lambda table: table.compact(index="remap"),
    "commit of others' files": lambda table: table.commit(from_others(table)),
    "commit of others' files, packed": lambda table: table.commit(table.pack(from_others(table))),
}


@pytest.mark.parametrize("verb", VERBS)
def test_what_a_version_names_lasts_before_it_is_there(tmp_path: Path, verb: str) -> None:
    store = Lasting(tmp_path / "t")
    table = Table.create(store, SCHEMA)
    table.append(rows(0, 600))
    table.append(rows(600, 600))
    if "indices" in verb:
        table.create_index("id", "BTREE")
        table.append(rows(1200, 10))
    before = store.versions
    assert VERBS[verb](table)
    assert store.versions > before
    assert store.missing == []
