"""A small real table, and for every operation several ways to change it: prepared, but not committed.

`Workshop` makes the table once and writes the files of all changes into it. A test copies the directory, commits two of
the changes that were both prepared from the same version, and compares what comes out with `State`, a model in which a
change is a function of a few dictionaries.
"""

import os
import shutil
from collections.abc import Callable, Iterable
from copy import deepcopy
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import lance
import pyarrow as pa
from lance.file import LanceFileWriter
from pyroaring import BitMap, BitMap64

from seiche.store.local import LocalStore
from seiche.table.format import manifest_pb2 as pb
from seiche.table.format import roaring
from seiche.table.format.index_details import (
    FRAGMENT_REUSE,
    MEM_WAL,
    ReuseContent,
    ReuseIndexFiles,
    find,
    mem_wal_index,
)
from seiche.table.format.index_details_pb2 import FragmentReuseIndexDetails, MemWalIndexDetails
from seiche.table.operations import (
    Append,
    Clone,
    CreateIndex,
    DataReplacement,
    DataReplacementGroup,
    Delete,
    KeyExistenceFilter,
    Merge,
    MergedGeneration,
    Operation,
    Overwrite,
    Project,
    ReserveFragments,
    Restore,
    Rewrite,
    RewriteGroup,
    Update,
    UpdateBases,
    UpdateConfig,
    UpdateMap,
    UpdateMemWalState,
)
from seiche.table.table import Table
from seiche.table.transaction import Transaction

__all__ = ["FRAGMENTS", "SHARD_A", "SHARD_B", "TABLES", "Prepared", "State", "Workshop", "open_table"]

SHARD_A, SHARD_B = UUID(int=0xA).bytes, UUID(int=0xB).bytes
# Fragments 0 to 3 of the base table, as the ids of their rows.
FRAGMENTS = [range(6), range(6, 12), range(12, 18), range(18, 21)]
_FIELDS = {"id": 0, "v": 1, "w": 2}
_RESERVED = 20
_KEY = {"lance-schema:unenforced-primary-key": "true"}
_PLAIN = pa.schema([pa.field(name, pa.int64()) for name in _FIELDS])
_KEYED = _PLAIN.set(0, pa.field("id", pa.int64(), nullable=False, metadata=_KEY))


@dataclass
class State:
    """What a table means, whatever its files look like."""

    rows: dict[int, dict[str, int | None]] = field(default_factory=dict)
    config: dict[str, str] = field(default_factory=dict)
    table_metadata: dict[str, str] = field(default_factory=dict)
    schema_metadata: dict[str, str] = field(default_factory=dict)
    field_metadata: dict[str, dict[str, str]] = field(default_factory=dict)
    generations: dict[bytes, int] = field(default_factory=dict)
    bases: set[str] = field(default_factory=set)
    # Names of the indices on columns, with how many segments each has.
    indices: dict[str, int] = field(default_factory=dict)
    # Versions of the fragment-reuse index.
    reuse: set[int] = field(default_factory=set)


Effect = Callable[[State], None]

# The base tables by the names that situations call them.
TABLES: dict[str, dict[str, bool]] = {
    "plain": {},
    "stable": {"stable_row_ids": True},
    "reuse": {"reuse": True},
    "log": {"log": True},
    "keyed": {"keyed": True},
}


@dataclass(frozen=True)
class Prepared:
    """A change that was prepared from the base version, and what it means."""

    operation: Operation
    effect: Effect
    affected_rows: dict[int, BitMap] | None = None


def open_table(path: Path) -> Table:
    return Table.open(LocalStore(path, durability="os"))


class Workshop:
    """The base table at `path`, at version `version`, and its prepared changes by operation and name."""

    def __init__(
        self, folder: Path, *, stable_row_ids: bool = False, reuse: bool = False, log: bool = False, keyed: bool = False
    ) -> None:
        self.path = folder / "base"
        self._folder = folder
        self._stable = stable_row_ids
        self._copies = 0
        self._reserved = iter(range(4, 4 + _RESERVED))
        self._schema = _KEYED if keyed else _PLAIN
        lance.write_dataset(self.rows(range(18)), self.path, max_rows_per_file=6, enable_stable_row_ids=stable_row_ids)
        first = State(rows=_model(range(18)), field_metadata={"id": dict(_KEY)} if keyed else {})
        lance.write_dataset(self.rows(range(18, 21)), self.path, mode="append")
        table = open_table(self.path)
        table.commit(ReserveFragments(_RESERVED))
        table.commit(UpdateConfig(UpdateMap({"k": "0"}), None, UpdateMap({"s": "0"}), {1: UpdateMap({"f": "0"})}))
        if log:
            table.commit(CreateIndex((mem_wal_entry({SHARD_A: 3}),)))
        if not keyed:  # with an index on the key, pylance merges in another way and makes no filter
            lance.dataset(self.path).create_scalar_index("id", "BTREE", name="id_idx")
        self.state = deepcopy(first)
        self.state.rows |= _model(range(18, 21))
        self.state.config = {"k": "0"}
        self.state.schema_metadata = {"s": "0"}
        self.state.field_metadata["v"] = {"f": "0"}
        self.state.generations = {SHARD_A: 3} if log else {}
        self.state.indices = {} if keyed else {"id_idx": 1}
        if reuse:
            self._rewritten_before(table)
        self.version = table.version
        self.manifest = table.manifest
        self._first = first
        self._changes: dict[tuple[str, str], Prepared] = {}

    def copy(self, to: Path) -> Path:
        """A table of one's own, with the files of every change prepared so far."""
        shutil.copytree(self.path, to, dirs_exist_ok=True, copy_function=_share)
        return to

    def change(self, operation: str, name: str) -> Prepared:
        """The change of this name, prepared when first asked for."""
        key = operation, name
        if key not in self._changes:
            self._changes[key] = getattr(self, f"_{operation}")(name)
        return self._changes[key]

    def rows(self, ids: Iterable[int]) -> pa.Table:
        """Rows as they are written, under the schema of the base table."""
        wanted = list(ids)
        columns = {"id": wanted, "v": [100 + one for one in wanted], "w": [200 + one for one in wanted]}
        return pa.table({name: pa.array(values, pa.int64()) for name, values in columns.items()}, schema=self._schema)

    def through_pylance(self, act: Callable[[lance.LanceDataset], object]) -> Transaction:
        """Let pylance do it to a copy, and take over the transaction and the files."""
        self._copies += 1
        scratch = self.copy(self._folder / f"scratch-{self._copies}")
        act(lance.dataset(scratch))
        _, transaction = open_table(scratch).transactions()[-1]
        for directory in ("data", "_deletions", "_indices"):
            if (scratch / directory).exists():
                shutil.copytree(scratch / directory, self.path / directory, dirs_exist_ok=True, copy_function=_share)
        shutil.rmtree(scratch)
        return transaction

    def _Append(self, name: str) -> Prepared:
        ids = {"rows": [30, 31], "more": [32]}[name]
        made = self.through_pylance(lambda ds: lance.write_dataset(self.rows(ids), ds.uri, mode="append"))
        assert isinstance(made.operation, Append)
        return Prepared(made.operation, lambda state: state.rows.update(_model(ids, state)))

    def _Delete(self, name: str) -> Prepared:
        ids = {
            "0a": [0, 1], "0b": [2, 3], "0a too": [1, 2], "0 rest": [2, 3, 4, 5], "0 whole": list(range(6)),
            "1a": [6], "2a": [12], "none": [],
        }[name]  # fmt: skip
        if not ids:
            return Prepared(Delete(predicate="false"), lambda state: None)
        made = self.through_pylance(lambda ds: ds.delete(f"id IN ({', '.join(map(str, ids))})"))
        assert isinstance(made.operation, Delete)
        return Prepared(made.operation, partial(_delete, ids=ids), affected(ids, made.operation))

    def _Update(self, name: str) -> Prepared:
        name = name.removesuffix(" again")
        how, _, what = name.partition(" ")
        if how == "column":
            return self._column(int(what))
        if how in {"exact", "bloom", "log", "plain"}:
            return self._inserting(how, what)
        if how == "insert":
            return self._merging(int(what))
        ids = {"0a": [0, 1], "0c": [4], "0 rest": [2, 3, 4, 5], "0 whole": list(range(6)), "1a": [6], "2a": [12]}[name]
        made = self.through_pylance(lambda ds: ds.update({"v": "v + 100"}, where=f"id IN ({str(ids)[1:-1]})"))
        assert isinstance(made.operation, Update)
        return Prepared(made.operation, partial(_add, ids=ids, amount=100), affected(ids, made.operation))

    def _column(self, fragment_id: int) -> Prepared:
        """All values of v in a fragment, in columns mode."""
        ids = list(FRAGMENTS[fragment_id])
        dataset = lance.dataset(self.path)
        fragment = dataset.get_fragment(fragment_id)
        assert fragment is not None
        addresses = fragment.to_table(columns=["id"], with_row_id=True)
        values = pa.table({"_rowid": addresses["_rowid"], "v": pa.array([500 + one for one in ids], pa.int64())})
        made, fields, offsets = fragment.update_columns(values, left_on="_rowid", right_on="_rowid", with_offsets=True)
        operation = lance.LanceOperation.Update(
            updated_fragments=[made],
            fields_modified=fields,
            update_mode="rewrite_columns",
            updated_fragment_offsets={fragment_id: offsets},
        )
        taken = self.through_pylance(lambda ds: lance.LanceDataset.commit(ds.uri, operation, read_version=ds.version))
        assert isinstance(taken.operation, Update)

        def effect(state: State) -> None:
            for one in set(ids) & state.rows.keys():
                state.rows[one]["v"] = 500 + one

        return Prepared(taken.operation, effect)

    def _merging(self, row: int) -> Prepared:
        """A merge by pylance on the primary key, which inserts one row and says so in a Bloom filter."""
        rows = self.rows([row])
        made = self.through_pylance(lambda ds: ds.merge_insert("id").when_not_matched_insert_all().execute(rows))
        assert isinstance(made.operation, Update)
        assert made.operation.inserted_rows is not None
        return Prepared(made.operation, lambda state: state.rows.update(_model([row], state)))

    def _inserting(self, how: str, what: str) -> Prepared:
        """A merge that only inserts: a row with a key filter, or with a mark in the write-ahead log."""
        row = 40 + len(self._changes)
        fragment = self._fragment([row])
        generations: tuple[MergedGeneration, ...] = ()
        keys = None
        if how == "exact":
            keys = KeyExistenceFilter(field_ids=[0], exact=KeyExistenceFilter.ExactKeySet(key_hashes=[int(what)]))
        elif how == "bloom":
            bits = bytearray(16384)
            bits[32 * int(what) : 32 * int(what) + 32] = b"\x01" * 32
            keys = KeyExistenceFilter(field_ids=[0])
            keys.bloom.bitmap, keys.bloom.num_bits = bytes(bits), 8 * len(bits)
            keys.bloom.number_of_items, keys.bloom.probability = 8192, 0.00057
        elif how == "log":
            generations = (_generation(what),)

        def effect(state: State) -> None:
            state.rows.update(_model([row], state))
            _mark(state, generations)

        operation = Update(new_fragments=(fragment,), merged_generations=generations, inserted_rows=keys)
        return Prepared(operation, effect)

    def _Overwrite(self, name: str) -> Prepared:
        ids = {"plain": [50, 51], "other": [52], "config k": [53], "base b1": [54]}[name]
        made = self.through_pylance(lambda ds: lance.write_dataset(self.rows(ids), ds.uri, mode="overwrite"))
        assert isinstance(made.operation, Overwrite)
        config = {"k": "overwritten"} if name == "config k" else {}
        bases = (_base("b1"),) if name == "base b1" else ()
        operation = Overwrite(
            made.operation.fragments, made.operation.schema, made.operation.schema_metadata, config, bases
        )

        def effect(state: State) -> None:
            state.rows = _model(ids)
            state.schema_metadata, state.field_metadata, state.indices = {}, {}, {}
            state.generations, state.reuse = {}, set()
            state.config |= config
            state.bases |= {base.path for base in bases}

        return Prepared(operation, effect)

    def _CreateIndex(self, name: str) -> Prepared:
        how, _, what = name.partition(" ")
        if how == "log":
            shard, generation = (SHARD_A if what[0] == "A" else SHARD_B), int(what[1:])
            entry = mem_wal_entry({shard: generation})
            return Prepared(CreateIndex((entry,)), lambda state: _mark(state, [_generation(what)]))
        if how == "reuse":
            return self._cleaned(what)
        if how == "drop":
            old = find(self.manifest.indices, what)
            assert old is not None
            return Prepared(CreateIndex((), (old,)), lambda state: _drop(state, what))
        column, _, fragments = what.removesuffix(" again").partition("@")
        ids = [int(one) for one in fragments.split(",")] if fragments else self.manifest.fragments.ids()
        entry = self._index(column, ids, "BITMAP" if how == "bitmap" else "BTREE")
        removed = tuple(one for one in self.manifest.indices if one.name == entry.name)

        def effect(state: State) -> None:
            state.indices[entry.name] = 1

        return Prepared(CreateIndex((entry,), removed), effect)

    def _index(self, column: str, fragment_ids: list[int], kind: str) -> pb.IndexMetadata:
        made = lance.dataset(self.path).create_index_uncommitted(
            column, kind, name=f"{column}_idx", fragment_ids=fragment_ids, replace=True
        )
        assert made.index_details is not None
        return pb.IndexMetadata(
            uuid=pb.UUID(uuid=UUID(made.uuid).bytes),
            fields=made.fields,
            name=made.name,
            dataset_version=made.dataset_version,
            fragment_bitmap=roaring.encode(BitMap(fragment_ids)),
            index_details={"type_url": made.index_details[0], "value": made.index_details[1]},
            index_version=made.index_version,
            files=[pb.IndexFile(path=one.path, size_bytes=one.size_bytes) for one in made.files or ()],
        )

    def _Rewrite(self, name: str) -> Prepared:
        groups, _, led = name.partition(" ")
        old_ids = [int(one) for one in groups.split(",")]
        group = self._group(old_ids)
        entry = None
        if led:
            known = find(self.manifest.indices, FRAGMENT_REUSE)
            content = ReuseIndexFiles(LocalStore(self.path)).read(known) if known is not None else ReuseContent()
            merged = ReuseContent(versions=[*content.versions, reuse_version(self.version, group)])
            entry = reuse_entry(merged, self.path, self.version)

        def effect(state: State) -> None:
            if led:
                state.reuse.add(self.version)

        return Prepared(Rewrite((group,), frag_reuse_index=entry), effect)

    def _group(self, old_ids: list[int]) -> RewriteGroup:
        manifest = open_table(self.path).manifest
        old = [one for one in manifest.fragments if one.id in old_ids]
        new = self._fragment([row for one in old_ids for row in FRAGMENTS[one]])
        new.id = next(self._reserved)
        group = RewriteGroup(old_fragments=old, new_fragments=[new])
        if not self._stable:
            return group
        # With the row ids that the build gives it, so that pylance can be handed the operation too.
        made = open_table(self.copy(self._folder / f"group-{new.id}")).commit(Rewrite((group,)))
        return RewriteGroup(
            old_fragments=old, new_fragments=[one for one in made.manifest.fragments if one.id == new.id]
        )

    def _rewritten_before(self, table: Table) -> None:
        """A base that has a fragment-reuse index already: fragment 3 was rewritten, and id_idx does not know."""
        group = self._group([3])
        entry = reuse_entry(ReuseContent(versions=[reuse_version(table.version, group)]), self.path, table.version)
        self.state.reuse = {table.version}
        table.commit(Rewrite((group,), frag_reuse_index=entry))

    def _cleaned(self, what: str) -> Prepared:
        """Write the fragment-reuse index: without the versions it has, or as it is."""
        known = find(self.manifest.indices, FRAGMENT_REUSE)
        assert known is not None
        content = ReuseIndexFiles(LocalStore(self.path)).read(known)
        gone = {one.dataset_version for one in content.versions} if what == "cleaned" else set()
        kept = ReuseContent(versions=[one for one in content.versions if one.dataset_version not in gone])

        def effect(state: State) -> None:
            state.reuse -= gone

        return Prepared(CreateIndex((reuse_entry(kept, self.path, self.version),), (known,)), effect)

    def _Merge(self, name: str) -> Prepared:
        how, _, column = name.partition(" ")
        if how == "cast":
            alteration: Any = {"path": column, "data_type": pa.int32()}
            made = self.through_pylance(lambda ds: ds.alter_columns(alteration))
            return Prepared(made.operation, lambda state: _drop(state, f"{column}_idx"))
        if how == "rewrite":
            return self._rewritten_column()
        made = self.through_pylance(lambda ds: ds.add_columns({column or name: "id * 10"}))
        operation = made.operation
        if how == "require":
            assert isinstance(operation, Merge)
            schema = [pb.Field.FromString(one.SerializeToString()) for one in operation.schema]
            schema[-1].nullable = False
            operation = Merge(operation.fragments, tuple(schema))

        def effect(state: State) -> None:
            for one, row in state.rows.items():
                row[column or name] = 10 * one

        return Prepared(operation, effect)

    def _rewritten_column(self) -> Prepared:
        """All fragments as they are, but for other values of v in the first."""
        column = self.change("Update", "column 0")
        assert isinstance(column.operation, Update)
        (changed,) = column.operation.updated_fragments
        fragments = tuple(changed if one.id == changed.id else one for one in self.manifest.fragments)
        return Prepared(Merge(fragments, tuple(self.manifest.header.fields)), column.effect)

    def _Project(self, name: str) -> Prepared:
        how, _, column = name.partition(" ")
        alteration: Any = (
            {"path": column, "name": f"{column}2"} if how == "rename" else {"path": column, "nullable": False}
        )
        drop = how == "drop"
        made = self.through_pylance(lambda ds: ds.drop_columns([column]) if drop else ds.alter_columns(alteration))
        assert isinstance(made.operation, Project)

        def effect(state: State) -> None:
            for row in state.rows.values():
                if how != "require":
                    value = row.pop(column)
                    if how == "rename":
                        row[f"{column}2"] = value
            if how == "drop":
                _drop(state, f"{column}_idx")
                state.field_metadata.pop(column, None)
            elif how == "rename" and column in state.field_metadata:
                state.field_metadata[f"{column}2"] = state.field_metadata.pop(column)

        return Prepared(made.operation, effect)

    def _Restore(self, name: str) -> Prepared:
        def effect(state: State) -> None:
            state.__dict__.update(deepcopy(self._first).__dict__)
            if name == "2":
                state.rows |= _model(FRAGMENTS[3])

        return Prepared(Restore(int(name)), effect)

    def _ReserveFragments(self, name: str) -> Prepared:
        return Prepared(ReserveFragments(int(name)), lambda state: None)

    def _Clone(self, name: str) -> Prepared:
        return Prepared(Clone(True, None, 1, f"/nowhere/{name}"), lambda state: None)

    def _UpdateConfig(self, name: str) -> Prepared:
        place, _, key = name.removesuffix(" again").partition(" ")
        change = UpdateMap({"only": "this"}, replace=True) if key == "*" else UpdateMap({key: name})
        if place == "field":
            change = UpdateMap({"f": name})
            column = key

            def set_field(state: State) -> None:
                if not state.rows or column in next(iter(state.rows.values())):
                    change.change(state.field_metadata.setdefault(column, {}))

            return Prepared(UpdateConfig(field_metadata_updates={_FIELDS[column]: change}), set_field)
        member = {"config": "config", "schema": "schema_metadata", "table": "table_metadata"}[place]
        updates: dict[str, Any] = {f"{member}_updates": change}
        operation = UpdateConfig(**updates)
        return Prepared(operation, lambda state: change.change(getattr(state, member)))

    def _DataReplacement(self, name: str) -> Prepared:
        number, column = name.removesuffix(" again").split()
        ids = list(FRAGMENTS[int(number)])
        path = f"{uuid4().hex}.lance"
        with LanceFileWriter(
            str(self.path / "data" / path), pa.schema([pa.field(column, pa.int64())]), version="2.2"
        ) as writer:
            writer.write_batch(pa.table({column: pa.array([1000 + one for one in ids], pa.int64())}))
        file = pb.DataFile(
            path=path, fields=[_FIELDS[column]], column_indices=[0], file_major_version=2, file_minor_version=2
        )

        def effect(state: State) -> None:
            for one in set(ids) & state.rows.keys():
                if column in state.rows[one]:
                    state.rows[one][column] = 1000 + one

        return Prepared(DataReplacement((DataReplacementGroup(fragment_id=int(number), new_file=file),)), effect)

    def _UpdateMemWalState(self, name: str) -> Prepared:
        generation = _generation(name)
        return Prepared(UpdateMemWalState((generation,)), lambda state: _mark(state, [generation]))

    def _UpdateBases(self, name: str) -> Prepared:
        base = _base(name)
        return Prepared(UpdateBases((base,)), lambda state: state.bases.add(base.path))

    def _fragment(self, ids: Iterable[int]) -> pb.DataFragment:
        wanted = [*ids]
        known = self.state.rows | _model(wanted)
        values = {one: pa.array([known[row][one] for row in wanted], pa.int64()) for one in _FIELDS}
        rows = pa.table(values, schema=self._schema)
        made = self.through_pylance(lambda ds: lance.write_dataset(rows, ds.uri, mode="append"))
        assert isinstance(made.operation, Append)
        (fragment,) = made.operation.fragments
        return fragment


def _share(source: str | os.PathLike[str], target: str | os.PathLike[str]) -> None:
    """A second name for the same file, where that is safe: all but what is in `_versions` is never written in place."""
    if Path(source).parent.name == "_versions":
        shutil.copyfile(source, target)
    elif not os.path.exists(target):
        os.link(source, target)


def affected(ids: Iterable[int], operation: Delete | Update) -> dict[int, BitMap]:
    """Row offsets by fragment, of those fragments that the operation touches."""
    wanted = set(ids)
    rows = {one: BitMap(row - rows.start for row in wanted & set(rows)) for one, rows in enumerate(FRAGMENTS)}
    return {one: offsets for one, offsets in rows.items() if offsets}


def mem_wal_entry(generations: dict[bytes, int]) -> pb.IndexMetadata:
    marks = [MergedGeneration(shard=pb.UUID(uuid=one), generation=number) for one, number in generations.items()]
    details = MemWalIndexDetails(num_shards=2, compacted_sstables=marks)
    return mem_wal_index(details, uuid=uuid4(), dataset_version=1, created_at=1)


def reuse_version(version: int, group: RewriteGroup) -> FragmentReuseIndexDetails.Version:
    """What the fragment-reuse index says about one rewrite of whole fragments."""
    made = FragmentReuseIndexDetails.Version(dataset_version=version)
    one = made.groups.add()
    rows = BitMap64()
    for old in group.old_fragments:
        rows.update(range(old.id << 32, (old.id << 32) + old.physical_rows))
        one.old_fragments.add(id=old.id, physical_rows=old.physical_rows)
    one.changed_row_addrs = roaring.encode64(rows)
    for new in group.new_fragments:
        one.new_fragments.add(id=new.id, physical_rows=new.physical_rows)
    return made


def reuse_entry(content: ReuseContent, path: Path, version: int) -> pb.IndexMetadata:
    return ReuseIndexFiles(LocalStore(path)).write(content, uuid=uuid4(), dataset_version=version, created_at=1)


def _model(ids: Iterable[int], state: State | None = None) -> dict[int, dict[str, int | None]]:
    """Rows as they are written; under the columns that the state has, if one is given."""
    made: dict[int, dict[str, int | None]] = {one: {"id": one, "v": 100 + one, "w": 200 + one} for one in ids}
    if state is None or not state.rows:
        return made
    columns = next(iter(state.rows.values())).keys()
    return {one: {name: row.get(name) for name in columns} for one, row in made.items()}


def _delete(state: State, ids: Iterable[int]) -> None:
    for one in ids:
        state.rows.pop(one, None)


def _add(state: State, ids: Iterable[int], amount: int) -> None:
    for one in ids:
        value = state.rows[one]["v"]
        assert value is not None
        state.rows[one]["v"] = value + amount


def _drop(state: State, index: str) -> None:
    state.indices.pop(index, None)
    if index == MEM_WAL:
        state.generations = {}


def _generation(name: str) -> MergedGeneration:
    return MergedGeneration(shard=pb.UUID(uuid=SHARD_A if name[0] == "A" else SHARD_B), generation=int(name[1:]))


def _mark(state: State, generations: Iterable[MergedGeneration]) -> None:
    for one in generations:
        state.generations[one.shard.uuid] = max(one.generation, state.generations.get(one.shard.uuid, 0))


def _base(name: str) -> pb.BasePath:
    number, called, path = {
        "b1": (1, "one", "/p1"),
        "b2": (2, "two", "/p2"),
        "b1 id": (1, "three", "/p3"),
        "b1 name": (4, "one", "/p4"),
        "b1 path": (5, "five", "/p1"),
        "open": (0, "six", "/p6"),
        "first": (1, "seven", "/p7"),
    }[name]
    return pb.BasePath(id=number, name=called, path=path, is_dataset_root=True)
