"""Indices of every kind, and whether what they answer is what a look at every row gives."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa

from seiche.store import open_store
from seiche.table.table import Table
from tests.copies import copied

DIMENSIONS = 8
SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("k", pa.int32()),
        ("s", pa.string()),
        ("tags", pa.list_(pa.string())),
        ("v", pa.list_(pa.float32(), DIMENSIONS)),
    ]
)


@dataclass(frozen=True)
class Kind:
    """A kind of index: on which column, with which options, and whether rows that move take their coverage along."""

    name: str
    column: str
    options: dict[str, Any] = field(default_factory=dict)
    # By address, in a table without stable row ids; and by row id, in one that has them.
    remapped: bool = True
    kept: bool = True


VECTOR = {"num_partitions": 2}
KINDS = [
    Kind("BTREE", "id", kept=False),
    Kind("BITMAP", "k"),
    Kind("LABEL_LIST", "tags"),
    Kind("INVERTED", "s"),
    Kind("NGRAM", "s"),
    Kind("ZONEMAP", "id", remapped=False, kept=False),
    Kind("BLOOMFILTER", "id", remapped=False, kept=False),
    Kind("IVF_FLAT", "v", VECTOR),
    Kind("IVF_SQ", "v", VECTOR),
    Kind("IVF_PQ", "v", {**VECTOR, "num_sub_vectors": 4}),
    Kind("IVF_RQ", "v", VECTOR),
    Kind("IVF_HNSW_SQ", "v", VECTOR),
    Kind("IVF_HNSW_FLAT", "v", VECTOR),
]
BY_NAME = {kind.name: kind for kind in KINDS}
FILTERS = {
    "BTREE": ["id = 77", "id >= 150 and id < 260", "id in (1, 2, 3, 180, 401, 1001, 5000, 5003)"],
    "ZONEMAP": ["id = 77", "id >= 150 and id < 260"],
    "BLOOMFILTER": ["id = 77", "id in (1, 180, 5003)"],
    "BITMAP": ["k = 5", "k in (1, 2)", "k > 8"],
    "LABEL_LIST": ["array_has_any(tags, ['t1'])", "array_has_all(tags, ['t1', 'u2'])"],
    "NGRAM": ["contains(s, 'word11')", "contains(s, 'item77')"],
}
WORDS = ("word11", "item77", "item1001", "common")


def indexed_rows(start: int, stop: int) -> pa.Table:
    """Rows whose every value follows from their number."""
    numbers = np.arange(start, stop)
    vectors = np.stack([np.sin(numbers * (one + 1) * 0.37) for one in range(DIMENSIONS)], axis=1).astype(np.float32)
    return pa.table(
        {
            "id": numbers,
            "k": (numbers % 13).astype(np.int32),
            "s": [f"word{one % 17} item{one} common" for one in numbers],
            "tags": [[f"t{one % 5}", f"u{one % 3}"] for one in numbers],
            "v": pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), DIMENSIONS),
        },
        schema=SCHEMA,
    )


def indexed_table(path: Path, *, fragments: int = 4, rows: int = 120, **options: Any) -> Table:
    """Fragments of which some rows are deleted, without an index yet."""

    def make(place: Path) -> None:
        table = Table.create(open_store(str(place), durability="os"), SCHEMA, **options)
        for number in range(fragments):
            table.append(indexed_rows(number * rows, (number + 1) * rows))
        table.delete("id % 11 = 3")

    copied(make, path, key=f"indexed table {fragments} {rows} {options}")
    return Table.open(open_store(str(path), durability="os"))


def unindexed_rows(table: Table, name: str = "ix") -> int:
    """How many rows the index does not speak for."""
    stats = lance.dataset(table.store.native_uri()).stats.index_stats(name)
    return int(stats["num_unindexed_rows"])


def check_answers(table: Table, kind: str) -> None:
    """Assert that the index, if there is one, answers as a full scan does; pylance finds nothing wrong."""
    dataset: Any = lance.dataset(table.store.native_uri())
    dataset.validate()
    rows = dataset.to_table(columns=["id", "s", "v"], use_scalar_index=False)
    if kind == "INVERTED":
        _check_words(dataset, rows)
    elif kind.startswith("IVF"):
        _check_vectors(dataset, rows)
    for condition in FILTERS.get(kind, ()):
        scanned = dataset.to_table(columns=["id"], filter=condition, use_scalar_index=False)["id"].to_pylist()
        answered = dataset.to_table(columns=["id"], filter=condition)["id"].to_pylist()
        assert sorted(answered) == sorted(scanned), (kind, condition)


def _check_words(dataset: Any, rows: pa.Table) -> None:
    texts = list(zip(rows["id"].to_pylist(), rows["s"].to_pylist(), strict=True))
    for word in WORDS:
        found = dataset.to_table(columns=["id", "_score"], full_text_query=word)["id"].to_pylist()
        assert sorted(found) == [one for one, text in sorted(texts) if word in text.split()], word


def _check_vectors(dataset: Any, rows: pa.Table) -> None:
    """All rows are asked for: which ones come back does not depend on how exact the index is."""
    count = rows.num_rows
    query = {"column": "v", "q": rows["v"][0].as_py(), "k": count, "nprobes": 10, "ef": count * 2}
    found = dataset.to_table(columns=["id", "_distance"], nearest=query)["id"].to_pylist()
    assert sorted(found) == sorted(rows["id"].to_pylist())
