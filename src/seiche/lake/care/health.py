"""What will hurt before it does: figures of a lake and its tables, and the command that helps."""

import shlex
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Final, TypeVar

from seiche.errors import SeicheError
from seiche.lake.care.given_up import GivenUp
from seiche.lake.care.leases import leases
from seiche.lake.care.portions import portions
from seiche.lake.care.saved_work import saved_work
from seiche.lake.objects import rows
from seiche.lake.objects.keys import name_of, tables_under
from seiche.lake.objects.names import text
from seiche.lake.objects.rows import ExportRow, TableRow
from seiche.lake.pins import EXPORTS, pins
from seiche.lake.state import State, as_relation
from seiche.lake.versions import LakeVersions, manifests
from seiche.table.format.deletions import rows_left
from seiche.table.format.manifest import Manifest
from seiche.table.operations.coverage import covered, is_system

if TYPE_CHECKING:
    from seiche.lake.care.verbs import CareVerbs

__all__ = ["SMALL_BYTES", "Advice", "Health", "IcebergHealth", "TableHealth", "examine"]

SMALL_BYTES: Final = 1 << 20
_SMALL_FRAGMENTS: Final = 100
_FRAGMENTS: Final = 10_000
_MANIFEST_BYTES: Final = 8 << 20
_DELETED: Final = 0.1
_UNINDEXED: Final = 0.1
_VERSIONS: Final = 10_000
_BUFFER: Final = 1.0
_ORPHANS: Final = 0.1
_PINNED: Final = 1_000
_SNAPSHOTS: Final = 1_000
_DELETE_FILES: Final = 0.5

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class TableHealth:
    """A table in figures. `unindexed` are rows that an index of the table does not cover, at worst."""

    table: str
    version: int
    fragments: int
    small_fragments: int
    rows: int
    deleted: int
    manifest_bytes: int
    indices: int
    unindexed: int


@dataclass(frozen=True, slots=True)
class IcebergHealth:
    """An Iceberg table in figures; all but the snapshots are of the current one. `rows` may have been deleted since by
    files of deletions, of which there are `delete_files`.
    """

    table: str
    version: int
    snapshots: int
    manifests: int
    files: int
    small_files: int
    delete_files: int
    rows: int
    metadata_bytes: int


@dataclass(frozen=True, slots=True)
class Advice:
    """Something to do soon: about what, why, and by which command."""

    about: str
    finding: str
    command: str


@dataclass(frozen=True, slots=True)
class Health:
    """A lake in figures, and what to do about them. `buffer` is how full the root's write buffer is, 1 being its limit.

    `orphans` and `orphan_bytes` are files that nothing needs; `None` if they were not looked for.
    """

    version: int
    versions: int
    expired: int
    buffer: float
    leases: int
    saved: int
    trash: int
    trash_bytes: int
    orphans: int | None
    orphan_bytes: int | None
    tables: tuple[TableHealth, ...]
    iceberg: tuple[IcebergHealth, ...]
    advice: tuple[Advice, ...]

    def as_dict(self) -> dict[str, object]:
        """For JSON."""
        return asdict(self)


def examine(lake: "CareVerbs", *, orphans: bool) -> Health:
    """Look at the newest version, and at what lies around it."""
    state = lake.states.latest()
    given_up = GivenUp.of(state).versions
    tables, iceberg = tuple(_figures(state, "lance", _lance)), tuple(_figures(state, "iceberg", _iceberg))
    runs = list(lake.trash())
    found = lake.gc(dry_run=True) if orphans else None
    unneeded = None if found is None else found.unneeded
    figures = Health(
        version=state.version,
        versions=state.version + 1 - len(given_up),
        expired=len(given_up),
        buffer=state.root.node.buffer_size / state.definition.root_buffer_max_size_bytes,
        leases=len(leases(state.store)),
        saved=sum(1 for _ in saved_work(state.store)),
        trash=sum(len(run.files) for run in runs),
        trash_bytes=sum(run.bytes for run in runs),
        orphans=None if unneeded is None else len(unneeded),
        orphan_bytes=None if unneeded is None else sum(one.size for one in unneeded),
        tables=tables,
        iceberg=iceberg,
        advice=(),
    )
    everything, uri = 0 if found is None else found.bytes, shlex.quote(lake.store.uri)
    advice = (
        *_about_lake(figures, state, uri, everything),
        *_about_tables(tables, uri),
        *_about_iceberg(iceberg),
    )
    return replace(figures, advice=advice)


def _figures(state: State, format: str, look: Callable[[State, TableRow, str], T]) -> Iterator[T]:
    """Of all tables of a format that are the lake's own."""

    def try_it(table: tuple[TableRow, str]) -> T | None:
        try:
            return look(state, *table)
        except SeicheError:
            return None  # damaged: `fsck` says how

    for some in portions(_own(state, format)):
        yield from (one for one in state.store.in_parallel(try_it, some) if one is not None)


def _own(state: State, format: str) -> Iterator[tuple[tuple[TableRow, str], int]]:
    """The rows and names of the tables, and how large the manifests are as far as it is known."""
    for key, value in state.scan(tables_under(())):
        row = as_relation(value)
        if isinstance(row, TableRow) and row.is_own(format) and row.table_version:
            yield (row, text(name_of(key))), 0 if row.manifest is None else row.manifest.size


def _iceberg(state: State, row: TableRow, name: str) -> IcebergHealth:
    from seiche.lake.iceberg.figures import figures

    return figures(state, row, name)


def _lance(state: State, row: TableRow, name: str) -> TableHealth:
    return _table(name, row, LakeVersions(state.store, row).read(row.table_version).manifest)


def _table(name: str, row: TableRow, manifest: Manifest) -> TableHealth:
    fragments = manifest.fragments.decoded()
    sizes = [sum(file.file_size_bytes or SMALL_BYTES for file in one.files) for one in fragments]
    alive = {one.id: rows_left(one) for one in fragments}
    indexed: dict[str, set[int]] = {}
    for index in manifest.indices:
        if not is_system(index):
            ids = covered(index)  # one that does not say is asked about all rows
            indexed.setdefault(index.name, set()).update(alive if ids is None else ids)
    unindexed = [sum(rows for one, rows in alive.items() if one not in ids) for ids in indexed.values()]
    return TableHealth(
        table=name,
        version=row.table_version,
        fragments=len(fragments),
        small_fragments=sum(size < SMALL_BYTES for size in sizes),
        rows=sum(alive.values()),
        deleted=sum(one.deletion_file.num_deleted_rows for one in fragments),
        manifest_bytes=manifests(row)[-1][1].size,
        indices=len(indexed),
        unindexed=max(unindexed, default=0),
    )


def _about_lake(health: Health, state: State, uri: str, everything: int) -> Iterator[Advice]:
    if health.versions > _VERSIONS:
        yield Advice("versions", f"{health.versions} versions are kept", f"seiche expire {uri}")
    if health.buffer > _BUFFER:
        finding = f"the root's write buffer is {health.buffer:.0%} full: a large transaction is still on its way down"
        yield Advice("tree", finding, "the next commits move it down; keep transactions smaller")
    if health.orphan_bytes and health.orphan_bytes > _ORPHANS * everything:
        finding = f"{health.orphans} files with {health.orphan_bytes} bytes are needed by nothing"
        yield Advice("files", finding, f"seiche gc {uri} --run")
    if health.saved:
        yield Advice("transactions", f"{health.saved} transactions are saved and hold versions", "lake.settle(id)")
    for version, who in sorted(pins(state).items()):
        if version < state.version - _PINNED:
            finding = f"version {version} is kept for {', '.join(who)}, and with it all that its tables became since"
            verb = "unexport" if all(one.startswith("export") for one in who) else "untag"
            yield Advice("versions", finding, f"seiche {verb} {uri} NAME")
    for key, value in state.scan(EXPORTS):
        export = rows.decode(value, ExportRow)
        if export.properties.get("state") == "running":
            name = key[4:].decode()
            finding = f"export {name} to {export.location} was begun and is not finished"
            yield Advice("exports", finding, f"seiche export {uri} {name} {shlex.quote(export.location)}")


def _about_tables(tables: tuple[TableHealth, ...], uri: str) -> Iterator[Advice]:
    for one in tables:
        compact = f"seiche table compact {uri} {shlex.quote(one.table)}"
        if one.small_fragments > _SMALL_FRAGMENTS:
            yield Advice(one.table, f"{one.small_fragments} of {one.fragments} fragments are small", compact)
        elif one.fragments > _FRAGMENTS:
            yield Advice(one.table, f"{one.fragments} fragments", compact)
        if one.deleted > _DELETED * (one.rows + one.deleted):
            yield Advice(one.table, f"{one.deleted} of {one.rows + one.deleted} rows are deleted", compact)
        if one.manifest_bytes > _MANIFEST_BYTES:
            yield Advice(
                one.table, f"its manifest has {one.manifest_bytes} bytes and is written at each commit", compact
            )
        if one.unindexed > _UNINDEXED * max(1, one.rows):
            finding = f"{one.unindexed} of {one.rows} rows are not in an index that the table has"
            yield Advice(one.table, finding, f"lake.table({one.table!r}).optimize_indices()")


def _about_iceberg(tables: tuple[IcebergHealth, ...]) -> Iterator[Advice]:
    for one in tables:
        table = f"tx.table({one.table!r})"
        rewrite = f"in a transaction, {table}.overwrite({table}.to_arrow())"
        expire = f"lake.table({one.table!r}).to_iceberg().maintenance.expire_snapshots().older_than(...).commit()"
        if one.small_files > _SMALL_FRAGMENTS:
            yield Advice(one.table, f"{one.small_files} of {one.files} files are small", rewrite)
        if one.delete_files > _DELETE_FILES * one.files:
            finding = f"{one.delete_files} files of deletions stand beside {one.files} of rows"
            yield Advice(one.table, finding, "rewrite_position_delete_files of an engine that has it, such as Spark")
        if one.snapshots > _SNAPSHOTS:
            yield Advice(one.table, f"{one.snapshots} snapshots are in its metadata", expire)
        if one.metadata_bytes > _MANIFEST_BYTES:
            finding = f"its metadata has {one.metadata_bytes} bytes and is written at each commit"
            yield Advice(one.table, finding, expire)
