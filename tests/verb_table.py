"""Tables for trying verbs on: several fragments with every kind of column, some rows of each deleted."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa

from seiche.store import open_store
from seiche.table.table import Table
from seiche.testing import CountingStore
from tests.copies import copied
from tests.row_table import SCHEMA, some_rows

DELETED = "id % 4 = 1"
PLAIN = pa.schema([field for field in SCHEMA if not pa.types.is_dictionary(field.type)])


def verb_table(
    path: Path,
    *,
    fragments: int = 3,
    rows: int = 10,
    delete: str | None = DELETED,
    dictionaries: bool = True,
    **options: Any,
) -> Table:
    """A table with so many fragments of so many rows, numbered by `id`.

    Without `dictionaries` it lacks the column with one: for those native code is sometimes gone round.
    """
    schema = SCHEMA if dictionaries else PLAIN

    def make(place: Path) -> None:
        table = Table.create(open_store(str(place), durability="os"), schema, **options)
        for number in range(fragments):
            table.append(some_rows(rows, number * rows).select(schema.names))
        if delete is not None:
            table.delete(delete)

    copied(make, path, key=f"verb table {fragments} {rows} {delete} {dictionaries} {options}")
    return Table.open(open_store(str(path), durability="os"))


def native(table: Table) -> Any:
    """What pylance opens there, after it has found nothing wrong with it. Untyped: its annotations say too little."""
    dataset: Any = lance.dataset(str(table.store.native_uri()))
    dataset.validate()
    return dataset


def operations(table: Table, since: int) -> list[str]:
    """The names of the operations that made the versions after `since`."""
    return [transaction.operation.name for _, transaction in table.transactions(since)]


def files(path: Path) -> set[str]:
    """All files below a directory."""
    return {str(one.relative_to(path)) for one in path.rglob("*") if one.is_file()}


@contextmanager
def writes_only(table: Table, *places: str) -> Iterator[None]:
    """Nothing comes into the table's directory in the block but below these places, and nothing goes."""
    path = Path(table.store.native_uri())
    before = files(path)
    yield
    after = files(path)
    assert before <= after
    strange = [one for one in after - before if not one.startswith(places)]
    assert not strange, strange


METADATA_ONLY = ("_versions/", "_transactions/")


def counting(path: Path) -> tuple[Table, CountingStore]:
    """A handle on the table whose requests are counted."""
    store = CountingStore(open_store(str(path), durability="os"))
    return Table.open(store), store


def meddle_before_commit(table: Table, *actions: Callable[[Table], object]) -> None:
    """Before each of the handle's next commits, somebody else does something: `None` lets one pass."""
    rest = iter(actions)
    commit: Any = table._commit

    def late(*arguments: Any, **options: Any) -> None:
        action = next(rest, None)
        if action is not None:
            action(Table.open(table.store))
        commit(*arguments, **options)

    vars(table)["_commit"] = late


def ids(table: Table, **scan: Any) -> list[int]:
    """The ids of the rows, as they come."""
    return list(table.to_arrow(columns=["id"], **scan)["id"].to_pylist())


def values(table: Table, column: str) -> dict[int, Any]:
    """The values of a column by id."""
    found = table.to_arrow(columns=["id", column])
    return dict(zip(found["id"].to_pylist(), found[column].to_pylist(), strict=True))


def by_id(rows: pa.Table) -> list[dict[str, Any]]:
    return list(rows.sort_by("id").to_pylist())
