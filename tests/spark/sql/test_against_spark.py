"""Random rows and statements: the lake's SQL and plain Spark come to the same."""

import math
import struct
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import seiche
from seiche import InvalidInput

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("k", pa.int32()),
        ("x", pa.float64()),
        ("s", pa.string()),
        ("d", pa.date32()),
        ("o", pa.bool_()),
    ]
)
NEGATIVE_NAN = struct.unpack(">d", b"\xff\xf8\x00\x00\x00\x00\x00\x00")[0]
FLOATS = st.sampled_from([None, 0.0, -0.0, 1.5, -1.5, 1e300, math.inf, -math.inf, math.nan, NEGATIVE_NAN])
ROW = st.tuples(
    st.integers(-3, 3) | st.none(),
    st.integers(-2, 2) | st.none(),
    FLOATS,
    st.sampled_from([None, "", "a", "b", "B", "ä", "it's"]),
    st.sampled_from([None, 0, 20_000, -1]),
    st.booleans() | st.none(),
)
ROWS = st.lists(ROW, max_size=12)
EXAMPLES = settings(
    deadline=None,
    derandomize=True,
    database=None,
    # Each example is several jobs of Spark: the first that fails is small enough.
    phases=[Phase.generate],
    suppress_health_check=[HealthCheck.too_slow],
)

# Conditions that are pushed down, wholly or in part, and some that are not; in each place where a mistake would show.
CONDITIONS = (
    "x > 1.5",
    "x >= -1.5 AND k <> 1",
    "x < 1.5",
    "x = 0.0",
    "x <= -1.5 OR s IS NULL",
    "id IN (1, 2, 3) AND s > 'a'",
    "k = -2 OR k = 2",
    "s = 'it''s' OR s = 'B'",
    "d >= DATE '1970-01-01'",
    "o = true",
    "o",
    "3 > id AND k BETWEEN -1 AND 1",
    "k = 300000000000",
    "NOT (k = 1)",
)
QUERIES = (
    "SELECT l.id, r.s FROM {a} l LEFT JOIN {b} r ON l.id = r.k WHERE r.k IS NULL AND l.id > 0",
    "SELECT count(*), count(DISTINCT s), sum(k) FROM {a} GROUP BY o HAVING count(*) > 1",
    "SELECT id, (SELECT max(s) FROM {b} WHERE {b}.id = outer_a.id) FROM {a} outer_a",
    "SELECT * FROM {a} UNION ALL SELECT * FROM {b} WHERE k = 1",
    "WITH w AS (SELECT id, row_number() OVER (PARTITION BY k ORDER BY id, s, x, d, o) AS n FROM {a}) SELECT * FROM w",
    "SELECT s FROM {a} WHERE id IN (SELECT k FROM {b} WHERE s IS NOT NULL) ORDER BY s LIMIT 1000",
    "SELECT k FROM {a} EXCEPT SELECT k FROM {b} WHERE x > 0.5",
    "SELECT q.u FROM {a} AS q(u, v, w, y, z, p) WHERE v = 1",
)


def table(rows: Sequence[tuple[Any, ...]]) -> pa.Table:
    columns = list(zip(*rows, strict=True)) or [()] * len(SCHEMA)
    arrays = [pa.array(list(column), field.type) for column, field in zip(columns, SCHEMA, strict=True)]
    return pa.Table.from_arrays(arrays, schema=SCHEMA)


def bag(frame: "DataFrame") -> Counter[str]:
    """The rows, in no order; every NaN is the same, and zero has no sign."""
    return Counter(repr(tuple(_plain(value) for value in row)) for row in frame.collect())


def _plain(value: Any) -> Any:
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value + 0.0
    return value


class Both:
    """The same rows in a lake and in plain Spark."""

    def __init__(self, spark: "SparkSession", folder: str, **tables: Sequence[tuple[Any, ...]]) -> None:
        self.spark = spark
        lake = seiche.create(folder, durability="os")
        lake.create_namespace("lake")
        with lake.transaction() as tx:
            for name, rows in tables.items():
                tx.create_table(f"lake.{name}", SCHEMA).append(table(rows))
        self.lake = lake
        self.on_spark = lake.spark(spark)
        for name, rows in tables.items():
            spark.createDataFrame(table(rows)).createOrReplaceTempView(f"plain_{name}")

    def ours(self, query: str) -> Counter[str]:
        return bag(self.on_spark.sql(query.replace("{a}.", "a.").replace("{b}.", "b.").format(a="lake.a", b="lake.b")))

    def plain(self, query: str) -> Counter[str]:
        return bag(self.spark.sql(query.format(a="plain_a", b="plain_b")))


@pytest.fixture
def numbered(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A new folder each time."""
    return lambda: str(tmp_path_factory.mktemp("against") / "lake")


@pytest.mark.soak
def test_queries(spark: "SparkSession", numbered: Any, effort: Any) -> None:
    @settings(EXAMPLES, max_examples=effort(2, 50))
    @given(a=ROWS, b=ROWS)
    def check(a: list[Any], b: list[Any]) -> None:
        both = Both(spark, numbered(), a=a, b=b)
        for query in QUERIES:
            assert both.ours(query) == both.plain(query), query
        # All conditions at once: each marks the rows that it finds.
        found = " UNION ALL ".join(f"SELECT {n} AS c, * FROM {{a}} WHERE {c}" for n, c in enumerate(CONDITIONS))
        assert both.ours(found) == both.plain(found)

    check()


@pytest.mark.soak
def test_update_and_delete(spark: "SparkSession", numbered: Any, effort: Any) -> None:
    values = st.sampled_from(["k + 1", "length(s)", "id * 2 - k", "NULL"])

    @settings(EXAMPLES, max_examples=effort(3, 50))
    @given(a=ROWS, where=st.sampled_from(CONDITIONS), value=values)
    def check(a: list[Any], where: str, value: str) -> None:
        both = Both(spark, numbered(), a=a)
        updated = f"SELECT id, CASE WHEN {where} THEN CAST({value} AS INT) ELSE k END AS k, x, s, d, o FROM {{a}}"
        expected = both.plain(updated)
        both.on_spark.sql(f"UPDATE lake.a SET k = {value} WHERE {where}")
        assert both.ours("SELECT * FROM {a}") == expected
        spark.sql(updated.format(a="plain_a")).createOrReplaceTempView("plain_b")
        both.on_spark.sql(f"DELETE FROM lake.a WHERE {where}")
        assert both.ours("SELECT * FROM {a}") == both.plain(f"SELECT * FROM {{b}} WHERE NOT coalesce({where}, false)")

    check()


# Clauses as (side, condition, what it does): an SQL value for each column, or nothing for a delete.
CLAUSES: dict[str, list[tuple[str | None, dict[str, str] | None]]] = {
    "matched": [
        ("s.k > t.k", {"k": "s.k - t.k", "s": "concat(t.s, s.s)"}),
        ("s.o", None),
        (None, {"x": "t.x", "s": "s.s", "k": "s.k", "d": "s.d", "o": "s.o"}),
    ],
    "not matched": [
        ("s.k = 1", {"id": "s.id", "s": "upper(s.s)"}),
        (None, {name: f"s.{name}" for name in SCHEMA.names}),
    ],
    "not matched by source": [
        ("t.k < 0", {"k": "abs(t.k)"}),
        ("t.o", None),
        (None, {"s": "'gone'"}),
    ],
}


@pytest.mark.soak
def test_merge(spark: "SparkSession", numbered: Any, effort: Any) -> None:
    sides = {side: st.sets(st.integers(0, len(of) - 1)) for side, of in CLAUSES.items()}
    some = st.fixed_dictionaries(sides).filter(lambda one: any(one.values()))

    @settings(EXAMPLES, max_examples=effort(6, 100))
    @given(a=ROWS, b=ROWS, chosen=some, unique=st.sampled_from([True, True, False]))
    def check(a: list[Any], b: list[Any], chosen: dict[str, set[int]], unique: bool) -> None:
        if unique:
            a, b = (list({row[0]: row for row in rows}.values()) for rows in (a, b))
        both = Both(spark, numbered(), a=a, b=b)
        clauses = [(side, *CLAUSES[side][number]) for side in CLAUSES for number in sorted(chosen[side])]
        expected = merged(a, b, spark, clauses)
        statement = "MERGE INTO lake.a t USING lake.b s ON t.id = s.id " + " ".join(written(*one) for one in clauses)
        if expected is None:
            with pytest.raises(InvalidInput, match="two rows of the data"):
                both.on_spark.sql(statement)
            assert both.ours("SELECT * FROM {a}") == both.plain("SELECT * FROM {a}")
        else:
            both.on_spark.sql(statement)
            assert both.ours("SELECT * FROM {a}") == expected

    check()


def written(side: str, condition: str | None, values: dict[str, str] | None) -> str:
    """A clause of a merge."""
    when = f"WHEN {side.upper()}" + (f" AND {condition}" if condition else "")
    if values is None:
        return f"{when} THEN DELETE"
    if side == "not matched":
        if set(values) == set(SCHEMA.names):
            return f"{when} THEN INSERT *"
        return f"{when} THEN INSERT ({', '.join(values)}) VALUES ({', '.join(values.values())})"
    return f"{when} THEN UPDATE SET " + ", ".join(f"{name} = {value}" for name, value in values.items())


def merged(a: list[Any], b: list[Any], spark: "SparkSession", clauses: list[Any]) -> Counter[str] | None:
    """What the merge should come to, by a full join of plain Spark; `None` if SQL does not say what."""
    for name, rows in (("t", a), ("s", b)):
        numbered = table(rows).append_column("row", pa.array(range(len(rows)), pa.int64()))
        spark.createDataFrame(numbered).createOrReplaceTempView(f"merge_{name}")
    sides = {
        "matched": "t.row IS NOT NULL AND s.row IS NOT NULL",
        "not matched": "t.row IS NULL",
        "not matched by source": "s.row IS NULL",
    }
    whens = [f"WHEN {sides[side]} AND {condition or 'true'} THEN {n}" for n, (side, condition, _) in enumerate(clauses)]
    columns = []
    for name in SCHEMA.names:
        cases = [
            f"WHEN action = {n} THEN {(values or {}).get(name, 'NULL' if side == 'not matched' else f't.{name}')}"
            for n, (side, _, values) in enumerate(clauses)
        ]
        columns.append(f"CASE {' '.join(cases)} ELSE t.{name} END AS {name}")
    found = _joined(spark, whens, columns)
    rows = found.collect()
    changed = Counter(row.t_row for row in rows if row.t_row is not None and row.action is not None)
    inserted = Counter(
        row.s_id for row in rows if row.t_row is None and row.action is not None and row.s_id is not None
    )
    if any(count > 1 for count in [*changed.values(), *inserted.values()]):
        return None
    deleting = {n for n, (_, _, values) in enumerate(clauses) if values is None}
    kept = {}
    for row in rows:
        if row.t_row is None and row.action is None:
            continue
        key = ("t", row.t_row) if row.t_row is not None else ("s", row.s_row)
        # A row of the table that several rows match is there once, changed by the one that a clause is for.
        if key not in kept or row.action is not None:
            kept[key] = row
    return Counter(
        repr(tuple(_plain(row[name]) for name in SCHEMA.names)) for row in kept.values() if row.action not in deleting
    )


def _joined(spark: "SparkSession", whens: list[str], columns: list[str]) -> "DataFrame":
    case = f"CASE {' '.join(whens)} END"
    chosen = ", ".join(one.replace("action = ", f"{case} = ") for one in columns)
    return spark.sql(
        f"SELECT t.row AS t_row, s.row AS s_row, s.id AS s_id, {case} AS action, {chosen}"
        " FROM merge_t t FULL JOIN merge_s s ON t.id = s.id"
    )
