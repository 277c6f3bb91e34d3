"""Null lists and maps of structs stay null in PyIceberg's hands.

Whenever PyIceberg writes or reads rows it lays them out for the wanted schema. A list of structs, or a map to structs,
is then made of its offsets and elements alone (apache/arrow 38809 is its reason): one that is null comes out empty, in
silence, in the files as well as out of them.
"""

from collections.abc import Callable
from functools import wraps
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.io.pyarrow import ArrowProjectionVisitor

__all__ = ["keep_nulls"]


def keep_nulls() -> None:
    """From now on nulls come through, in this process. A PyIceberg that keeps them itself is left as it is."""
    for name in ("list", "map"):
        found = getattr(ArrowProjectionVisitor, name)
        if not hasattr(found, "__wrapped__"):
            setattr(ArrowProjectionVisitor, name, _keeping(found))


def _keeping(lay_out: Callable[..., pa.Array | None]) -> Callable[..., pa.Array | None]:
    @wraps(lay_out)
    def kept(visitor: Any, kind: Any, given: pa.Array | None, *parts: pa.Array | None) -> pa.Array | None:
        made = lay_out(visitor, kind, given, *parts)
        if made is None or given is None or made.null_count == given.null_count:
            return made
        return _masked(made, given.is_null())

    return kept


def _masked(made: pa.Array, gone: pa.Array) -> pa.Array:
    """The same lists but for those that are gone. The type stays to the letter: notes on its fields have their ids."""
    offsets = pc.add(made.offsets, pa.scalar(0, made.offsets.type))  # from their beginning, as a mask needs them
    if isinstance(made, pa.MapArray):
        return pa.MapArray.from_arrays(offsets, made.keys, made.items, made.type, mask=gone)
    return type(made).from_arrays(offsets, made.values, type=made.type, mask=gone)
