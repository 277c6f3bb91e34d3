"""Columns, and the fields inside of them, found again in versions in which they had other names."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from seiche.table.format.manifest_pb2 import Field

__all__ = ["PastColumns", "from_the_top", "ids_before"]

_NO_PARENT = -1


@dataclass(frozen=True)
class PastColumns:
    """The fields of one version, and what they are called in the one by which it is shown. Can be pickled."""

    fields: tuple[Field, ...]
    # By the id that a field has in this version. What is missing is not in the other version, or not asked for.
    called: Mapping[int, str]

    @cached_property
    def names(self) -> dict[str, str]:
        """The columns by the names that they are shown under, and what they are called in this version."""
        return {self.called[one.id]: one.name for one in self._tops.values() if one.id in self.called}

    @cached_property
    def _tops(self) -> dict[str, Field]:
        return {one.name: one for one in self._inside(_NO_PARENT)}

    @cached_property
    def _below(self) -> dict[int, list[Field]]:
        return _grouped(self.fields)

    def _inside(self, field_id: int) -> Sequence[Field]:
        return self._below.get(field_id, ())

    def shown(self, values: pa.Array, name: str) -> pa.Array:
        """Values of the column that this version calls `name`, with the fields inside called as they are shown.

        A field that is not shown gets a name that no other has: by its own it could be taken for another.
        """
        return _under(values, self._type(values.type, self._tops[name]))

    def _type(self, kind: pa.DataType, field: Field) -> pa.DataType:
        inside = self._inside(field.id)
        if pa.types.is_struct(kind):
            own = {one.name: one for one in inside}
            return pa.struct([self._field(part, own.get(part.name)) for part in kind])
        if len(inside) == 1 and pa.types.is_list(kind):
            return pa.list_(kind.value_field.with_type(self._type(kind.value_type, inside[0])))
        if len(inside) == 1 and pa.types.is_large_list(kind):
            return pa.large_list(kind.value_field.with_type(self._type(kind.value_type, inside[0])))
        if len(inside) == 1 and pa.types.is_map(kind):
            _, value = self._inside(inside[0].id)
            item = kind.item_field.with_type(self._type(kind.item_type, value))
            return pa.map_(kind.key_field, item, keys_sorted=kind.keys_sorted)
        return kind

    def _field(self, part: pa.Field, field: Field | None) -> pa.Field:
        if field is None:  # of a kind of column that has parts which are no fields
            return part
        name = self.called.get(field.id, f"\0{field.id}")
        return part.with_name(name).with_type(self._type(part.type, field))


def ids_before(later: Sequence[Field], earlier: Sequence[Field], *, anew: bool) -> dict[int, int]:
    """For each field of the later version that the earlier one had too: its id there.

    A field keeps its id when it is renamed. Where all ids were given `anew`, or a field got a new id with a new type,
    it is recognised by its name, unless a field that kept its id had that name.
    """
    known = set() if anew else {one.id for one in earlier}
    found = {one.id: one.id for one in later if one.id in known}
    named = {(one.parent_id, one.name): one.id for one in earlier if one.id not in found}
    for one in from_the_top(later):
        parent = _NO_PARENT if one.parent_id == _NO_PARENT else found.get(one.parent_id)
        if one.id not in found and parent is not None and (parent, one.name) in named:
            found[one.id] = named[parent, one.name]
    return found


def _grouped(fields: Iterable[Field]) -> dict[int, list[Field]]:
    found: dict[int, list[Field]] = {}
    for one in fields:
        found.setdefault(one.parent_id, []).append(one)
    return found


def from_the_top(fields: Iterable[Field]) -> list[Field]:
    """The fields, each after the one that it is nested in."""
    inside = _grouped(fields)
    ordered = inside.get(_NO_PARENT, [])
    for one in ordered:  # grows meanwhile
        ordered.extend(inside.get(one.id, ()))
    return ordered


def _under(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """The same values under a type that differs only in names; Arrow's casts go by these."""
    if values.type.equals(kind):
        return values
    if pa.types.is_struct(kind):
        parts = [_under(values.field(at), one.type) for at, one in enumerate(kind)]
        mask = values.is_null() if values.null_count else None
        return pa.StructArray.from_arrays(parts, fields=list(kind), mask=mask)
    if pa.types.is_map(kind):
        items = _under(values.items, kind.item_type)
        inner = pa.StructArray.from_arrays([values.keys, items], fields=[kind.key_field, kind.item_field])
    else:
        inner = _under(values.values, kind.value_type)
    own = values.buffers()[:2]
    return pa.Array.from_buffers(kind, len(values), own, values.null_count, values.offset, [inner])
