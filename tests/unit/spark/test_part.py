"""Keys that a worker inserts in a merge: equal ones are refused, also where they come in two batches."""

from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from seiche.errors import InvalidInput
from seiche.spark.dml.edits import ACTION, Action, value_of
from seiche.spark.dml.part import Part
from seiche.table.data.scanning import ADDRESS


def inserted(kind: pa.DataType, *batches: list[Any]) -> list[Any]:
    """What is inserted of rows whose keys come sorted, as Spark sorts them."""
    editing: Any = SimpleNamespace(
        target=SimpleNamespace(address=SimpleNamespace(open=lambda: None), schema=pa.schema([("k", kind)])),
        actions=(Action(("k",), insert=True),),
        key=((0, "k"),),
    )
    rows = (
        pa.record_batch(
            {
                ADDRESS: pa.nulls(len(keys), pa.int64()),
                ACTION: pa.array([0] * len(keys), pa.int32()),
                value_of("k"): keys if isinstance(keys, pa.Array) else pa.array(keys, kind),
            }
        )
        for keys in batches
    )
    return [one.column(0) for one in Part(editing, rows).new_rows()]


NAN = float("nan")
FAR = pa.array([2**40, 2**40], pa.int64()).cast(pa.timestamp("s"))


@pytest.mark.parametrize(
    ("kind", "batches"),
    [
        (pa.int64(), [[1, 2, 2]]),
        (pa.int64(), [[None, 1], [1, 2]]),
        (pa.float64(), [[1.0, NAN, float("-nan")]]),
        (pa.float32(), [[1.0, NAN], [NAN]]),
        (pa.float64(), [[-0.0, 0.0]]),
        (pa.string(), [["a"], ["b"], ["b"]]),
        (pa.timestamp("s"), [FAR]),
    ],
    ids=["in one batch", "in two", "not a number", "not a number in two", "zeros", "texts", "after the year 9999"],
)
def test_equal_keys_are_refused(kind: pa.DataType, batches: list[Any]) -> None:
    with pytest.raises(InvalidInput, match="two rows of the data have the key k="):
        inserted(kind, *batches)


def test_other_keys_are_not() -> None:
    assert sum(map(len, inserted(pa.int64(), [None, None], [None, 1, 2], [3]))) == 6
    assert sum(map(len, inserted(pa.float64(), [None, None, -1.0, 0.0, NAN]))) == 5
    assert sum(map(len, inserted(pa.timestamp("s"), FAR.slice(0, 1)))) == 1
