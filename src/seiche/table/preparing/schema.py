"""Dropping and renaming columns: another schema over the same files."""

from collections.abc import Iterable, Mapping, Sequence

from seiche.core.given import names, text
from seiche.errors import InvalidInput
from seiche.table.change import Change
from seiche.table.format.fields import SYSTEM_COLUMNS, children, path_of
from seiche.table.format.manifest import Manifest
from seiche.table.format.manifest_pb2 import Field
from seiche.table.operations import Project
from seiche.table.preparing.fields import all_named
from seiche.table.snapshot import Snapshot

__all__ = ["Dropping", "Renaming", "check_name", "indices_on", "renamed"]


class Dropping:
    """Prepares a schema without some columns or fields; their values stay in the files until these are rewritten."""

    def __init__(self, columns: Iterable[str]) -> None:
        self._columns = list(dict.fromkeys(names(columns, "columns", "Give their names.")))

    def __call__(self, snapshot: Snapshot) -> Change | None:
        fields = snapshot.manifest.header.fields
        gone = {field.id for field in all_named(fields, self._columns)}
        if not gone:
            return None
        for field in fields:  # parents come first, so this reaches any depth
            if field.parent_id in gone:
                gone.add(field.id)
        kept = tuple(field for field in fields if field.id not in gone)
        _check_rest(fields, kept)
        notes: dict[str, object] = {"dropped": ", ".join(self._columns)}
        if indices := indices_on(gone, snapshot.manifest):
            notes["indices_dropped"] = indices
        # Nothing became mandatory, so what others append meanwhile still fits.
        return Change(Project(kept, preserves_nullability=True), notes=notes)


class Renaming:
    """Prepares a schema in which columns have other names; they keep their ids, and so their values and indices."""

    def __init__(self, names: Mapping[str, str]) -> None:
        given: object = names
        if not isinstance(given, Mapping):
            raise InvalidInput(
                f"a mapping of old names to new ones is needed, not {names!r}",
                remedy="For instance `rename_columns({'price': 'cost'})`.",
            )
        for new in names.values():
            check_name(new)
        self._names = dict(names)

    def __call__(self, snapshot: Snapshot) -> Change | None:
        fields = snapshot.manifest.header.fields
        found = all_named(fields, self._names)
        new_names = {field.id: new for field, new in zip(found, self._names.values(), strict=True)}
        made = renamed(fields, new_names)
        if list(made) == list(fields):
            return None
        return Change(Project(made, preserves_nullability=True), notes={"renamed": len(new_names)})


def indices_on(fields: Iterable[int], manifest: Manifest) -> list[str]:
    """The names of the indices that need one of the fields."""
    gone = set(fields)
    return sorted({index.name for index in manifest.indices if not gone.isdisjoint(index.fields)})


def renamed(fields: Sequence[Field], names: Mapping[int, str]) -> tuple[Field, ...]:
    """The fields, some under other names; `InvalidInput` if a name is taken, or belongs to the type and not to us."""
    made = []
    known = {field.id: field for field in fields}
    for field in fields:
        new = names.get(field.id, field.name)
        if new != field.name:
            _check_in_struct(known, field, "renamed")
            copy = Field()
            copy.CopyFrom(field)
            copy.name = new
            made.append(copy)
        else:
            made.append(field)
    seen: set[tuple[int, str]] = set()
    for field in made:
        if (field.parent_id, field.name) in seen:
            raise InvalidInput(
                f"two columns would be named {path_of(made, field.id)!r}",
                remedy="Choose a name that is not taken.",
                column=field.name,
            )
        seen.add((field.parent_id, field.name))
    return tuple(made)


def check_name(name: str) -> str:
    """`InvalidInput` for what cannot be the name of a column."""
    given: object = name
    known = {*SYSTEM_COLUMNS, "*"}
    if not isinstance(given, str) or not given.strip() or set(".`\0") & set(given) or given in known:
        raise InvalidInput(
            f"{name!r} cannot be the name of a column",
            remedy="Use a name without dots, backticks and NULs, not an empty one, and none that means something to"
            " Lance, such as _rowid or *.",
            column=name,
        )
    return text(given, "the name of a column")


def _check_rest(fields: Sequence[Field], kept: Sequence[Field]) -> None:
    """What is left must still make sense to readers."""
    if not any(field.parent_id == -1 for field in kept):
        raise InvalidInput("a table cannot be without columns", remedy="Keep at least one.")
    left = {field.id for field in kept}
    known = {field.id: field for field in fields}
    for field in fields:
        if field.id in left or field.parent_id not in left:
            continue
        _check_in_struct(known, field, "dropped")
        if not children(kept, field.parent_id):
            outer = path_of(fields, field.parent_id)
            raise InvalidInput(
                f"{path_of(fields, field.id)!r} is the last field of {outer!r}, which cannot be without any",
                remedy=f"Drop {outer!r} as a whole.",
                column=path_of(fields, field.id),
            )


def _check_in_struct(known: Mapping[int, Field], field: Field, what: str) -> None:
    """Columns and fields of structs are the user's own; items of lists, keys and values of maps are not."""
    outer = known.get(field.parent_id)
    around = None if outer is None else known.get(outer.parent_id)
    if outer is not None and (outer.logical_type != "struct" or (around is not None and around.logical_type == "map")):
        path = path_of(list(known.values()), field.id)
        raise InvalidInput(
            f"{path!r} is part of the type {outer.logical_type} and cannot be {what}",
            remedy="Only columns and fields of structs can.",
            column=path,
        )
