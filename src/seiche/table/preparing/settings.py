"""Settings, metadata and counters: what a version says besides its rows."""

import os
from collections.abc import Iterable, Mapping
from typing import Any
from uuid import UUID

from seiche.core.given import text, wrong
from seiche.errors import InvalidInput
from seiche.table.change import Change
from seiche.table.format import manifest_pb2 as pb
from seiche.table.format.index_details import MEM_WAL, find, mem_wal_details
from seiche.table.operations import (
    MergedGeneration,
    ReserveFragments,
    Restore,
    UpdateBases,
    UpdateConfig,
    UpdateMap,
    UpdateMemWalState,
)
from seiche.table.preparing.fields import named
from seiche.table.refs import branch_of, find_tag
from seiche.table.snapshot import Snapshot
from seiche.table.versions.naming import check_version

__all__ = [
    "Bases",
    "Config",
    "FieldMetadata",
    "Marking",
    "Reserving",
    "Restoring",
    "SchemaMetadata",
    "TableMetadata",
    "a_base",
]

_BASE_MEMBERS = ("path", "name", "id", "is_dataset_root")
_MOST_RESERVED = 1 << 20


class Config:
    """Prepares a change of the table's settings."""

    def __init__(self, values: Mapping[str, str | None], *, replace: bool) -> None:
        self._update = _update_map(values, replace)

    def __call__(self, snapshot: Snapshot) -> Change | None:
        now = dict(snapshot.manifest.header.config)
        return None if _is_so(self._update, now) else Change(UpdateConfig(config_updates=self._update))


class TableMetadata:
    """Prepares a change of the table's metadata."""

    def __init__(self, values: Mapping[str, str | None], *, replace: bool) -> None:
        self._update = _update_map(values, replace)

    def __call__(self, snapshot: Snapshot) -> Change | None:
        now = dict(snapshot.manifest.header.table_metadata)
        return None if _is_so(self._update, now) else Change(UpdateConfig(table_metadata_updates=self._update))


class SchemaMetadata:
    """Prepares a change of the schema's metadata."""

    def __init__(self, values: Mapping[str, str | None], *, replace: bool) -> None:
        self._update = _update_map(values, replace)

    def __call__(self, snapshot: Snapshot) -> Change | None:
        now = _text(snapshot.manifest.header.schema_metadata)
        return None if _is_so(self._update, now) else Change(UpdateConfig(schema_metadata_updates=self._update))


class FieldMetadata:
    """Prepares a change of one field's metadata."""

    def __init__(self, column: str, values: Mapping[str, str | None], *, replace: bool) -> None:
        self._column = column
        self._update = _update_map(values, replace)

    def __call__(self, snapshot: Snapshot) -> Change | None:
        field = named(snapshot.manifest.header.fields, self._column)
        if _is_so(self._update, _text(field.metadata)):
            return None
        return Change(UpdateConfig(field_metadata_updates={field.id: self._update}))


class Bases:
    """Prepares the addition of base paths."""

    def __init__(self, bases: Iterable[Any]) -> None:
        self._bases = tuple(map(a_base, bases))

    def __call__(self, snapshot: Snapshot) -> Change | None:
        return Change(UpdateBases(self._bases)) if self._bases else None


class Restoring:
    """Prepares the return to an earlier version."""

    def __init__(self, version: int | str) -> None:
        if not isinstance(version, str) and not _is_number(version):
            raise InvalidInput(
                f"{version!r} is neither a version nor a tag",
                remedy="Give a number, or the name of a tag.",
                version=version,
            )
        self._version = version if isinstance(version, str) else check_version(version)

    def __call__(self, snapshot: Snapshot) -> Change | None:
        number = self._version
        if isinstance(number, str):
            number = find_tag(snapshot.store, number, branch_of(snapshot.manifest.header))
        return None if number == snapshot.version else Change(Restore(number), notes={"restored": number})


class Reserving:
    """Prepares a reservation of fragment ids; which they are is known when it is made."""

    def __init__(self, count: int) -> None:
        if not _is_number(count) or not 0 <= count <= _MOST_RESERVED:
            raise InvalidInput(
                f"a whole number of fragments from 0 to {_MOST_RESERVED} is needed, not {count!r}",
                remedy="Reserve as many as one rewrite makes; more can be reserved at any time.",
            )
        self._count = count

    def __call__(self, snapshot: Snapshot) -> Change | None:
        if not self._count:
            return None
        notes: dict[str, object] = {}

        def note(made: Snapshot) -> None:
            end = made.manifest.max_fragment_id + 1
            notes["ids"] = range(end - self._count, end)

        return Change(ReserveFragments(self._count), notes=notes, then=note)


class Marking:
    """Prepares the record of generations of the write-ahead log that have arrived in the table."""

    def __init__(self, generations: Mapping[str | UUID, int]) -> None:
        given: object = generations
        if not isinstance(given, Mapping):
            raise wrong("generations", given, "Give the last generation of each shard by its UUID: {shard: 7}.")
        self._generations = tuple(_generation(shard, number) for shard, number in generations.items())
        if len({one.shard.uuid for one in self._generations}) < len(self._generations):
            shards = list(map(str, generations))
            raise InvalidInput(
                f"a shard of the write-ahead log is named twice: {', '.join(shards)}",
                remedy="Name it once, by its UUID, with the larger generation.",
                shards=shards,
            )

    def __call__(self, snapshot: Snapshot) -> Change | None:
        entry = find(snapshot.manifest.indices, MEM_WAL)
        known = () if entry is None else mem_wal_details(entry).compacted_sstables
        merged = {one.shard.uuid: one.generation for one in known}
        newer = [one for one in self._generations if one.generation > merged.get(one.shard.uuid, -1)]
        return Change(UpdateMemWalState(tuple(newer))) if newer else None


def _update_map(values: Mapping[str, str | None], replace: bool) -> UpdateMap:
    given: object = values
    if not isinstance(given, Mapping):
        raise InvalidInput(
            f"a mapping of names to values is needed, not {values!r}",
            remedy="For instance {'owner': 'sales', 'old': None}: None deletes a name.",
        )
    for key, value in given.items():
        if not isinstance(key, str) or not key:
            raise InvalidInput(
                f"the name of a setting must be text that is not empty, not {key!r}",
                remedy="For instance {'owner': 'sales'}.",
                key=key,
            )
        if value is not None and not isinstance(value, str):
            raise InvalidInput(
                f"the value of {key!r} must be text, not {value!r}",
                remedy="Write it as text; None deletes the key.",
                key=key,
            )
        text(key, "the name of a setting")
        text(value or "", f"the value of {key!r}")
    return UpdateMap({key: value for key, value in values.items() if value is not None or not replace}, bool(replace))


def _is_so(update: UpdateMap, now: dict[str, str]) -> bool:
    after = dict(now)
    update.change(after)
    return after == now


def _text(metadata: Mapping[str, bytes]) -> dict[str, str]:
    return {key: value.decode(errors="surrogateescape") for key, value in metadata.items()}


def a_base(given: Any) -> pb.BasePath:
    """A further directory for files of a table: from its path, or a mapping or an object that has one."""
    if isinstance(given, pb.BasePath):
        made = given
    elif isinstance(given, str | os.PathLike):
        made = pb.BasePath(path=text(os.fspath(given), "the path of a base"))
    else:
        made = pb.BasePath(**_base_members(given))
    if not made.path:
        raise InvalidInput(
            f"a base needs a path: {given!r}",
            remedy="Give the address of its directory, for instance 's3://bucket/more'.",
        )
    return made


def _base_members(given: Any) -> dict[str, Any]:
    """The members of a base that is described by a mapping, or by an object such as pylance's."""
    if isinstance(given, Mapping):
        if unknown := sorted(set(given) - set(_BASE_MEMBERS)):
            raise InvalidInput(f"a base has no {unknown[0]!r}", remedy=f"It has {', '.join(_BASE_MEMBERS)}.")
        members = dict(given)
    else:
        members = {name: getattr(given, name, None) for name in _BASE_MEMBERS}
    present = {name: value for name, value in members.items() if value is not None}
    kinds = {"path": str, "name": str, "id": int, "is_dataset_root": bool}
    fitting = all(isinstance(present[name], kinds[name]) for name in present) and "path" in present
    if not fitting or not 0 <= present.get("id", 0) < 1 << 32:
        raise InvalidInput(
            f"a base cannot be made of {given!r}", remedy="Give its path, or a mapping with path, name and so on."
        )
    for name in ("path", "name"):
        text(present.get(name, ""), f"the {name} of a base")
    return present


def _generation(shard: str | UUID, number: int) -> MergedGeneration:
    try:
        identity = shard if isinstance(shard, UUID) else UUID(shard)
    except (ValueError, AttributeError, TypeError) as error:
        raise InvalidInput(f"{shard!r} is not the id of a shard", remedy="Give its UUID.") from error
    if not _is_number(number) or number < 0:
        raise InvalidInput(
            f"the generation of shard {shard} must be a whole number from 0 on, not {number!r}",
            remedy="Give the last generation whose rows are in the table: `mark_generations({shard: 7})`.",
        )
    return MergedGeneration(shard=pb.UUID(uuid=identity.bytes), generation=number)


def _is_number(given: object) -> bool:
    return isinstance(given, int) and not isinstance(given, bool)
