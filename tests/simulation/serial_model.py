"""What a lake is to whoever runs one transaction after the other: a value, and what each statement does to it.

A `Statement` is said to a transaction and to a `Model`. Both have to come to the same, be it rows, a list of names or
a refusal.
"""

import random
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

import lance_namespace as ln
import pyarrow as pa

from seiche.errors import AlreadyExists, InvalidInput, NotFound, SeicheError
from seiche.lake.transaction import Transaction

SCHEMA = pa.schema([("id", pa.int64()), ("k", pa.int64()), ("n", pa.int64())])
COLUMNS = SCHEMA.names
NAMESPACES = ["a", "b", "a.x"]
NAMES = ["a.t", "a.u", "b.t", "b.u", "a.x.t"]

Row = dict[str, int | None]


@dataclass
class Table:
    """Rows by their ids, the names of the columns, and properties."""

    format: str = "lance"
    rows: dict[int, Row] = field(default_factory=dict)
    columns: list[str] = field(default_factory=lambda: list(COLUMNS))
    properties: dict[str, str] = field(default_factory=dict)

    def put(self, rows: list[Row]) -> None:
        for row in rows:
            number = row["id"]
            assert number is not None
            self.rows[number] = {**dict.fromkeys(self.columns), **self.rows.get(number, {}), **row}

    def matching(self, k: int | None) -> list[Row]:
        return [row for row in self.rows.values() if k is None or row["k"] == k]


@dataclass
class Model:
    """Namespaces with their properties, and what has a name in them: tables, and views, which are texts."""

    namespaces: dict[str, dict[str, str]] = field(default_factory=dict)
    named: dict[str, Table | str] = field(default_factory=dict)

    def table(self, name: str, *, lance: bool = False) -> Table:
        found = self.named.get(name)
        if not isinstance(found, Table):
            raise NotFound(name)
        if lance and found.format != "lance":
            raise InvalidInput(name)
        return found

    def enter(self, name: str, what: Table | str) -> None:
        self.namespace(name.rpartition(".")[0])
        if name in self.named:
            raise AlreadyExists(name)
        self.named[name] = what

    def namespace(self, name: str) -> dict[str, str]:
        if name not in self.namespaces:
            raise NotFound(name)
        return self.namespaces[name]

    def create_namespace(self, name: str) -> None:
        if outer := name.rpartition(".")[0]:
            self.namespace(outer)
        if name in self.namespaces:
            raise AlreadyExists(name)
        self.namespaces[name] = {}

    def drop_namespace(self, name: str) -> None:
        self.namespace(name)
        if self.inside(name, self.namespaces) or self.inside(name, self.named):
            raise InvalidInput(name)
        del self.namespaces[name]

    @staticmethod
    def inside(name: str, of: dict[str, Any]) -> list[str]:
        return sorted(one for one in of if one.rpartition(".")[0] == name)

    def drop_view(self, name: str) -> None:
        if not isinstance(self.named.get(name), str):
            raise NotFound(name)
        del self.named[name]

    def drop(self, name: str) -> None:
        self.table(name)
        del self.named[name]

    def rename(self, name: str, to: str) -> None:
        self.enter(to, self.table(name))
        del self.named[name]

    def swap(self, one: str, other: str) -> None:
        self.named[one], self.named[other] = self.table(other), self.table(one)

    def overwrite(self, name: str, rows: list[Row]) -> None:
        table = self.table(name)
        table.rows, table.columns = {}, list(COLUMNS)
        table.put(rows)

    def delete(self, name: str, k: int) -> int:
        table = self.table(name)
        gone = table.matching(k)
        table.rows = {number: row for number, row in table.rows.items() if row not in gone}
        return len(gone)

    def update(self, name: str, k: int) -> int:
        found = self.table(name).matching(k)
        for row in found:
            row["n"] = (row["n"] or 0) + 1
        return len(found)

    def add_column(self, name: str, column: str) -> None:
        table = self.table(name, lance=True)
        if column in table.columns:
            raise InvalidInput(column)
        table.columns.append(column)
        for row in table.rows.values():
            row[column] = 7

    def drop_column(self, name: str, column: str) -> None:
        table = self.table(name, lance=True)
        if column not in table.columns:
            raise InvalidInput(column)
        table.columns.remove(column)
        for row in table.rows.values():
            del row[column]

    def refuse(self, name: str) -> None:
        self.table(name)
        raise InvalidInput(name)


@dataclass(frozen=True)
class Statement:
    """The same thing, said to a transaction and to a model of it."""

    words: str
    said: Callable[[Transaction], object]
    meant: Callable[[Model], object]


def outcome(do: Callable[[], object]) -> object:
    """What came of it: an answer, or the kind of the refusal."""
    try:
        return do()
    except (ln.TableNotFoundError, ln.NamespaceNotFoundError):
        return NotFound.kind
    except ln.InvalidInputError:
        return InvalidInput.kind
    except SeicheError as error:
        return error.kind


def done(_: object) -> None:
    """The statement has happened, and there is no more to compare."""


def content(rows: list[Any]) -> list[str]:
    """Rows, to be compared in whatever order they come."""
    return sorted(str(sorted(row.items())) for row in rows)


class Chance:
    """Makes up statements that are likely to mean something to whoever sees a model."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self._ids = 0

    def rows(self) -> list[Row]:
        made: list[Row] = []
        for _ in range(self.random.choice([0, 1, 1, 2])):
            self._ids += 1
            made.append({"id": self._ids, "k": self.random.randrange(3), "n": self.random.randrange(5)})
        return made

    def statement(self, seen: Model) -> Statement:
        kind = self.random.choice([self._define, self._name, self._change, self._change, self._look, self._look])
        return kind(seen)

    def _table(self, seen: Model) -> str:
        tables = [name for name, one in seen.named.items() if isinstance(one, Table)]
        return self.random.choice(tables if tables and self.random.random() < 0.9 else NAMES)

    def _define(self, seen: Model) -> Statement:
        space, value = self.random.choice(NAMESPACES), str(self.random.randrange(3))
        table = self._table(seen)
        return self.random.choice(
            [
                Statement(
                    f"create {space}", lambda tx: tx.create_namespace(space), lambda m: m.create_namespace(space)
                ),
                Statement(f"drop {space}", lambda tx: tx.drop_namespace(space), lambda m: m.drop_namespace(space)),
                Statement(
                    f"alter {space} {value}",
                    lambda tx: tx.alter_namespace(space, {"p": value}),
                    lambda m: m.namespace(space).update(p=value),
                ),
                Statement(
                    f"alter {table} {value}",
                    lambda tx: tx.set_properties(table, {"q": value}),
                    lambda m: m.table(table).properties.update(q=value),
                ),
            ]
        )

    def _name(self, seen: Model) -> Statement:
        old, new, form = self._table(seen), self.random.choice(NAMES), self.random.choice(["lance", "iceberg"])
        return self.random.choice(
            [
                Statement(
                    f"create {new} {form}",
                    lambda tx: done(tx.create_table(new, SCHEMA, format=form)),
                    lambda m: m.enter(new, Table(form)),
                ),
                Statement(f"drop {old}", lambda tx: tx.drop_table(old), lambda m: m.drop(old)),
                Statement(f"rename {old} {new}", lambda tx: tx.rename_table(old, new), lambda m: m.rename(old, new)),
                Statement(
                    f"swap {old} {new}",
                    lambda tx: tx.rename_tables([(old, new), (new, old)]) if old != new else None,
                    lambda m: m.swap(old, new) if old != new else None,
                ),
                Statement(
                    f"view {new}", lambda tx: tx.create_view(new, "SELECT 1"), lambda m: m.enter(new, "SELECT 1")
                ),
                Statement(f"drop view {new}", lambda tx: tx.drop_view(new), lambda m: m.drop_view(new)),
            ]
        )

    def _change(self, seen: Model) -> Statement:
        name, rows, k = self._table(seen), self.rows(), self.random.randrange(3)
        column, data = self.random.choice(["c", "d"]), pa.Table.from_pylist(rows, schema=SCHEMA)
        wrong = self.random.choice(["nosuch = 1", "k = 1 OR", "k ="])
        return self.random.choice(
            [
                Statement(
                    f"append {name} {rows}",
                    lambda tx: done(tx.append(name, data)),
                    lambda m: m.table(name).put(deepcopy(rows)),
                ),
                Statement(
                    f"overwrite {name} {rows}",
                    lambda tx: done(tx.overwrite(name, data)),
                    lambda m: m.overwrite(name, deepcopy(rows)),
                ),
                Statement(
                    f"delete {name} {k}", lambda tx: tx.delete(name, f"k = {k}").rows, lambda m: m.delete(name, k)
                ),
                Statement(
                    f"update {name} {k}",
                    lambda tx: tx.update(name, {"n": "n + 1"}, where=f"k = {k}").rows,
                    lambda m: m.update(name, k),
                ),
                Statement(
                    f"merge {name} {rows}",
                    lambda tx: done(
                        tx.merge(name, data, on="id").when_matched_update_all().when_not_matched_insert_all().execute()
                    ),
                    lambda m: m.table(name).put(deepcopy(rows)),
                ),
                Statement(
                    f"add {name} {column}",
                    lambda tx: done(tx.table(name).add_columns({column: "CAST(7 AS BIGINT)"})),
                    lambda m: m.add_column(name, column),
                ),
                Statement(
                    f"remove {name} {column}",
                    lambda tx: done(tx.table(name).drop_columns([column])),
                    lambda m: m.drop_column(name, column),
                ),
                Statement(f"delete {name} {wrong}", lambda tx: tx.delete(name, wrong), lambda m: m.refuse(name)),
                Statement(
                    f"compact {name}",
                    lambda tx: done(tx.table(name).compact()),
                    lambda m: done(m.table(name, lance=True)),
                ),
            ]
        )

    def _look(self, seen: Model) -> Statement:
        name, k = self._table(seen), self.random.choice([None, 0, 1, 2])
        space, where = self.random.choice(NAMESPACES), None if k is None else f"k = {k}"

        def described(tx: Transaction) -> object:
            found = tx.namespace().describe_table(ln.DescribeTableRequest(id=name.split(".")))
            return dict(found.properties or {})

        def properties(tx: Transaction) -> object:
            return tx.namespace().describe_namespace(ln.DescribeNamespaceRequest(id=space.split("."))).properties

        return self.random.choice(
            [
                Statement(
                    f"scan {name} {k}",
                    lambda tx: content(tx.table(name).to_arrow(filter=where).to_pylist()),
                    lambda m: content(m.table(name).matching(k)),
                ),
                Statement(
                    f"schema {name}",
                    lambda tx: sorted(tx.table(name).schema.names),
                    lambda m: sorted(m.table(name).columns),
                ),
                Statement(f"describe {name}", described, lambda m: dict(m.table(name, lance=True).properties)),
                Statement(f"describe {space}", properties, lambda m: dict(m.namespace(space))),
                Statement(
                    f"namespaces in {space}",
                    lambda tx: [".".join(one) for one in tx.namespaces(space)],
                    lambda m: m.inside(space, m.namespaces),
                ),
                Statement(
                    f"tables in {space}",
                    lambda tx: [".".join(one) for one in tx.tables(space)],
                    lambda m: m.inside(space, m.named),
                ),
            ]
        )
