"""SQL of callers: one expression, and nothing behind its end."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import seiche
from seiche.errors import InvalidInput
from seiche.table.data.sql import closed

ROWS = [{"id": number, "name": f"n{number}", "last": 0} for number in range(10)]
# What pylance takes for `id > 3`: it does not look behind the end of an expression.
MORE = (
    "id > 3 LIMIT 1",
    "id > 3 ORDER BY id",
    "id > 3 OFFSET 2",
    "id > 3 GROUP BY id",
    "id > 3 id > 8",
    "id > 3; DROP TABLE t",
    "id > 3) AND (id > 8",
    "id > 3)",
    "id > 3 FETCH FIRST 1 ROWS ONLY",
)
WHOLE = (
    "id > 3",
    "(id > 3)",
    " id > 3 -- all (but the first",
    "id > 3 /* ) */",
    "(id > 8) OR (id > 3)",
    "id > 3 AND name <> ')' AND name <> 'it''s )'",
    "id IN (4, 5) OR id > 3",
    "`id` > 3",
)
MORE_VALUES = ("1, 2", "1 FROM t LIMIT 1", "1; 2", "last + 1)", "last) + (last", "last ORDER BY id")


# What native code panics at while it plans: it has these in its parser, and nowhere else.
UNKNOWN = ("id = ?", "id = $1", "name = N'n1'")
VERBS = ("delete", "update", "merge", "to_arrow")


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Any:
    made = seiche.Table.create(tmp_path_factory.mktemp("sql"), pa.Table.from_pylist(ROWS).schema)
    made.append(ROWS)
    return made


@pytest.mark.parametrize("verb", ["delete", "update", "merge", "to_arrow"])
@pytest.mark.parametrize("where", UNKNOWN)
def test_sql_that_native_code_panics_at_is_the_callers_mistake(table: Any, verb: str, where: str) -> None:
    version = table.version
    with pytest.raises(InvalidInput, match="refused"):
        use(table, verb, where)
    with pytest.raises(InvalidInput, match="refused"):
        table.update({"last": "?"})
    assert table.version == version


def use(table: Any, verb: str, where: str) -> int:
    """How many rows the condition chooses."""
    match verb:
        case "delete":
            return int(table.delete(where).rows)
        case "update":
            return int(table.update({"last": "1"}, where=where).rows)
        case "merge":
            return int(table.merge(ROWS, on="id").when_matched_update_all(where).execute().notes["updated"])
        case _:
            return int(table.to_arrow(filter=where).num_rows)


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("where", MORE)
def test_a_condition_that_goes_on_behind_its_end_is_refused(table: Any, verb: str, where: str) -> None:
    before = table.version
    with pytest.raises(InvalidInput, match="behind its end") as refused:
        use(table, verb, where if verb != "merge" else where.replace("id", "target.id"))
    assert "SQL" in refused.value.remedy or "filter" in refused.value.remedy
    assert table.version == before
    assert table.to_arrow().to_pylist() == ROWS


@pytest.mark.parametrize("where", WHOLE)
def test_a_whole_condition_is_taken_as_it_is(table: Any, where: str) -> None:
    assert use(table, "to_arrow", where) == 6
    before = table.version
    assert use(table, "delete", where) == 6
    ((_, deleted),) = table.transactions(before)
    assert deleted.operation.predicate == where
    table.restore(before)


@pytest.mark.parametrize("value", MORE_VALUES)
def test_a_value_that_goes_on_behind_its_end_is_refused(table: Any, value: str) -> None:
    before = table.version
    with pytest.raises(InvalidInput, match="behind its end"):
        table.update({"last": value})
    with pytest.raises(InvalidInput, match="behind its end"):
        table.add_columns({"new": value})
    assert table.version == before


def test_the_words_of_a_refusal_are_those_of_the_caller(table: Any) -> None:
    for where, said in {"id >": "WHERE id >", "nope = 1": "nope", "id": "boolean"}.items():
        with pytest.raises(InvalidInput, match=said):
            table.delete(where)
        with pytest.raises(InvalidInput, match=said):
            table.to_arrow(filter=where)
    with pytest.raises(InvalidInput) as refused:
        table.to_arrow(filter="CAST(name AS INT) > 1")
    assert "behind its end" not in str(refused.value)


def test_names_stay_as_they_are() -> None:
    assert [closed(name) for name in ("id", "`a b`", "_rowaddr")] == ["id", "`a b`", "_rowaddr"]


LOWEST = -(2**63)


@pytest.mark.parametrize(
    ("where", "found"),
    [
        (f"k = {LOWEST}", ["lowest"]),
        (f"k = - {-LOWEST}", ["lowest"]),
        (f"{LOWEST} = k", ["lowest"]),
        (f"k <= {LOWEST}", ["lowest"]),
        (f"k > {LOWEST}", ["highest", "zero"]),
        (f"k IN ({LOWEST}, 0)", ["lowest", "zero"]),
        (f"k BETWEEN {LOWEST} AND 0", ["lowest", "zero"]),
        (f"v = '{LOWEST}'", []),
        (f"k = 0 -- {LOWEST}", ["zero"]),
    ],
)
def test_the_lowest_number_is_one(tmp_path: Path, where: str, found: list[str]) -> None:
    rows = [{"k": LOWEST, "v": "lowest"}, {"k": -LOWEST - 1, "v": "highest"}, {"k": 0, "v": "zero"}]
    table = seiche.Table.create(tmp_path, pa.schema([("k", pa.int64()), ("v", pa.string())]))
    table.append([*rows, {"k": None, "v": "none"}])
    assert table.to_arrow(filter=where)["v"].to_pylist() == found
    table.create_index("k", "BTREE")
    assert table.to_arrow(filter=where)["v"].to_pylist() == found
    assert table.update({"v": "concat(v, '!')"}, where=where).rows == len(found)
    assert table.delete(where).rows == len(found)


def test_the_lowest_number_as_a_value(tmp_path: Path) -> None:
    table = seiche.Table.create(tmp_path, pa.schema([("k", pa.int64())]))
    table.append([{"k": 1}])
    table.update({"k": str(LOWEST)})
    assert table.to_arrow()["k"].to_pylist() == [LOWEST]
