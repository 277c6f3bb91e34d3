"""Keys that there are more than once, counted in every shape in which they come."""

import random
from collections import Counter

import pyarrow as pa
import pytest

from seiche.spark.pipeline.direct import _doubles

SHAPES: list[list[list[int | None]]] = [
    [],
    [[]],
    [[1, 2, 3], [4, 5]],
    [[4, 5], [1, 2, 3]],
    [[1, 2, 3], [3, 4]],
    [[1, 5], [2, 6]],
    [[1, 5], [2, 5]],
    [[1, 1, 1], [1]],
    [[3, 2, 1], [2, 2, 3]],
    [[None, 1], [2, None, None]],
    [[None, 1], [2]],
    [[], [7], []],
]


@pytest.mark.parametrize("kind", [pa.int64(), pa.int8(), pa.string()])
def test_every_shape(kind: pa.DataType) -> None:
    chance = random.Random(3)
    random_ones = [[[chance.choice([None, *range(9)]) for _ in range(chance.randrange(6))]] * 2 for _ in range(200)]
    for shape in [*SHAPES, *random_ones]:
        text = pa.types.is_string(kind)
        chunks = [[str(one) if text and one is not None else one for one in chunk] for chunk in shape]
        table = pa.table({"0": pa.chunked_array([pa.array(chunk, kind) for chunk in chunks], kind)})
        wanted = sum(times > 1 for times in Counter(one for chunk in chunks for one in chunk).values())
        assert _doubles(table) == wanted, shape
