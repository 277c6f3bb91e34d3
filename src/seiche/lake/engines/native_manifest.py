"""A version that pylance has built and left for us to decide on."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final

from pyroaring import BitMap

from seiche.core.runtime import Runtime
from seiche.errors import Corrupt, InvalidInput, NotFound
from seiche.lake.engines.differences import difference
from seiche.lake.state import State
from seiche.store.base import Store
from seiche.table.bases import base_stores
from seiche.table.blob_files import with_blobs
from seiche.table.brought import files_of, index_files
from seiche.table.build import build
from seiche.table.format import file
from seiche.table.format.index_details import FRAGMENT_REUSE, ReuseContent, ReuseIndexFiles, find
from seiche.table.format.manifest import Manifest
from seiche.table.format.manifest_pb2 import DataFragment, Field, IndexMetadata
from seiche.table.format.transaction_pb2 import Transaction as TransactionMessage
from seiche.table.operations import CreateIndex, Delete, Merge, Operation, Overwrite, Rewrite, RewrittenIndex, Update
from seiche.table.operations.coverage import covered, followed, is_system, with_coverage
from seiche.table.operations.fields import related
from seiche.table.transaction import Transaction

__all__ = [
    "NativeManifest",
    "check_bases",
    "check_no_cleanup",
    "check_same",
    "completed",
    "first_that_holds",
    "named_once",
    "new_files",
    "read_native",
    "readings",
    "with_spent",
]

_CLEANUP = "lance.auto_cleanup."
# Versions. A handle from further back has to be opened again if a column was dropped since.
_LOOKS_BACK: Final = 1000


@dataclass(frozen=True, slots=True)
class NativeManifest:
    """The bytes that pylance wrote, and what they say: a version, and the transaction that makes it of the last one."""

    data: bytes
    manifest: Manifest
    message: TransactionMessage

    @property
    def version(self) -> int:
        return self.manifest.version

    @property
    def transaction(self) -> Transaction:
        return Transaction.from_proto(self.message)

    def check_follows(
        self, previous: Manifest, store: Store, runtime: Runtime, load: Callable[[int], Manifest] | None = None
    ) -> None:
        """Refuse it unless it is exactly what its transaction makes of `previous`; `load` gives earlier versions, and
        `store` is the table's.

        It would become the base of every later version, while later commits are checked against its transaction alone:
        if one said something else than the other, rows would be lost without anybody noticing.
        """
        transaction = self.transaction
        schema = None if load is None else lambda: self._written_for(previous, load)

        def check(operation: Operation) -> None:
            meant = replace(transaction, operation=completed(operation, self.manifest))
            made = build(previous, meant, runtime=runtime, load=load, read_schema=schema, managed=True)
            check_same(made, self.manifest, store, runtime)

        first_that_holds(readings(transaction.operation, previous), check)
        check_no_cleanup(previous, self.manifest)

    def _written_for(self, previous: Manifest, load: Callable[[int], Manifest]) -> Sequence[Field]:
        """The columns that new data may have: those of the version that was read, and those that were dropped before.

        Of what it has rebased, pylance says that it read the newest version. What it wrote may be from before a column
        was dropped, and has values of it, which do no harm.
        """
        read = self.transaction.read_version
        fields = list(load(read).header.fields)
        gone = _new_fields(previous, self.manifest) - {field.id for field in fields}
        with suppress(NotFound):  # what has expired tells nothing
            for version in range(read - 1, max(0, read - _LOOKS_BACK), -1):
                if not gone:
                    break
                found = [field for field in load(version).header.fields if field.id in gone]
                fields += found
                gone -= {field.id for field in found}
        return fields


def read_native(store: Store, path: str, version: int) -> NativeManifest:
    """The version that pylance left at `path`."""
    try:
        data = store.get(path)
    except NotFound as error:
        raise InvalidInput(
            f"{store.uri}: the manifest {path} that is to become version {version} is not there",
            remedy="Nothing was committed. Run the operation again.",
            path=path,
        ) from error
    read = file.decode(data, path=path)
    if read.manifest.version != version:
        raise InvalidInput(
            f"{path} calls itself version {read.manifest.version}, and is to become version {version}",
            remedy="Nothing was committed. Run the operation again.",
            path=path,
        )
    if read.transaction is None:
        raise InvalidInput(
            f"{path} does not say what it changes: it has no transaction inside",
            remedy="Commit with a release of pylance that writes transactions into manifests, as 14 does.",
            path=path,
        )
    return NativeManifest(data, read.manifest, read.transaction)


def readings(operation: Operation, previous: Manifest) -> Sequence[Operation]:
    """What an operation of pylance's may mean for the indices of the version before.

    Of an update that moves rows with their ids, pylance lists the fields that get other values, in the place where the
    lake lists those that do not; indices on the others go on speaking for the rows. Of an index that is built anew by a
    compaction, Lance before 14 says that there are no details, and keeps those that it had. Whether it is so shows only
    in the version that it made.
    """
    if isinstance(operation, Rewrite) and any(not one.new_index_details.value for one in operation.rewritten_indices):
        return [operation, replace(operation, rewritten_indices=_with_details(operation, previous))]
    if not isinstance(operation, Update) or not previous.has_stable_row_ids or not previous.indices:
        return [operation]
    fields = previous.header.fields
    touched = related(fields, operation.fields_for_preserving_frag_bitmap)
    kept = tuple(field.id for field in fields if field.id not in touched)
    return [operation, replace(operation, fields_for_preserving_frag_bitmap=kept, decoded=False)]


def _with_details(rewrite: Rewrite, previous: Manifest) -> tuple[RewrittenIndex, ...]:
    """The indices that a rewrite brings, those without details with the ones that they had before."""
    had = {index.uuid.uuid: index.index_details for index in previous.indices}
    made = []
    for one in rewrite.rewritten_indices:
        renewed = RewrittenIndex()
        renewed.CopyFrom(one)
        before = had.get(one.old_id.uuid)
        if before is not None and not one.new_index_details.value and before.type_url == one.new_index_details.type_url:
            renewed.new_index_details.CopyFrom(before)
        made.append(renewed)
    return tuple(made)


def first_that_holds(meant: Sequence[Operation], check: Callable[[Operation], None]) -> None:
    """Return when `check` accepts one of the readings; the first one's `Corrupt` if it accepts none."""
    refused: Corrupt | None = None
    for operation in meant:
        try:
            check(operation)
        except Corrupt as error:
            refused = refused or error
        else:
            return
    if refused is not None:
        raise refused


def named_once(operation: Operation) -> Operation:
    """The operation without the fragments among those that it changes that it also takes away.

    pylance names a fragment in both places when it has rebased a delete or an update over another one, and the two
    leave no row of it. It is gone then.
    """
    if not isinstance(operation, Delete | Update):
        return operation
    removed = operation.deleted_fragment_ids if isinstance(operation, Delete) else operation.removed_fragment_ids
    gone = frozenset(removed)
    kept = tuple(one for one in operation.updated_fragments if one.id not in gone)
    return operation if len(kept) == len(operation.updated_fragments) else replace(operation, updated_fragments=kept)


def completed(operation: Operation, made: Manifest) -> Operation:
    """The operation with what only the version that it makes tells of: the fragment-reuse index that a Rewrite brings,
    and the metadata of the schema that an Overwrite or a Merge does; and named once what is named twice.

    pylance leaves that metadata out of the transaction, and tables that come from pandas or Parquet files mostly have
    some.
    """
    operation = named_once(operation)
    if isinstance(operation, Rewrite):
        return replace(operation, frag_reuse_index=find(made.indices, FRAGMENT_REUSE))
    if isinstance(operation, Overwrite | Merge) and not operation.schema_metadata:
        return replace(operation, schema_metadata=dict(made.header.schema_metadata))
    return operation


def check_same(made: Manifest, native: Manifest, store: Store, runtime: Runtime) -> None:
    """`Corrupt` if the two are not the same version of the table in `store`, whoever built them."""
    if difference(made, native) is None:
        return
    found = difference(_without_spent(_led_on(made, store, runtime), native), _led_on(native, store, runtime))
    if found is not None:
        raise Corrupt(
            f"pylance built version {native.version} otherwise than its transaction says: {found}",
            remedy="Nothing was committed. Use the verbs of the lake's own table, and report this.",
        )


def _led_on(manifest: Manifest, store: Store, runtime: Runtime) -> Manifest:
    """The version with indices that name the fragments where their rows are now, and none that are gone.

    Behind a compaction that left them for later, pylance writes them so. They may as well go on naming the fragments
    that they were built over: whoever reads them is led on by the fragment-reuse index. That one is no exception: of
    fragments that were moved once more it names, too, where their rows are now. And of indices that know rows by their
    ids, the lake lets some name fragments that a compaction has replaced, and pylance does not. Fragments that are yet
    to come are another matter: an index must not speak for them.
    """
    reuse = find(manifest.indices, FRAGMENT_REUSE)
    files = ReuseIndexFiles(store, runtime, bases=base_stores(manifest, store, runtime))
    moves = ReuseContent() if reuse is None else files.read(reuse)
    gone = BitMap(range(manifest.header.max_fragment_id + 1)) - BitMap(one.id for one in manifest.fragments)
    known = ((index, covered(index)) for index in manifest.indices)
    indices = [index if now is None else with_coverage(index, followed(now, moves) - gone) for index, now in known]
    return Manifest(manifest.header, manifest.fragments, indices)


def _without_spent(made: Manifest, native: Manifest) -> Manifest:
    gone = {index.uuid.uuid for index in _spent(made, native)}
    return Manifest(made.header, made.fragments, [index for index in made.indices if index.uuid.uuid not in gone])


def _spent(made: Manifest, native: Manifest) -> Iterator[IndexMetadata]:
    """Segments of indices that cover none of the fragments, where pylance has dropped them.

    It does so when a delete or an update leaves nothing of what one of several segments was built over, without a word.
    The lake keeps them until pylance makes the index anew, or drops it; they answer for no row.
    """
    there = {index.uuid.uuid for index in native.indices}
    for index in made.indices:
        if index.uuid.uuid not in there and covered(index) == BitMap() and not is_system(index):
            yield index


def with_spent(operation: Operation, before: Manifest, native: Manifest, store: Store, runtime: Runtime) -> Operation:
    """The operation, which also removes segments of its indices that pylance has dropped earlier, of `before`.

    An index of another kind that came in their place could not be read with them.
    """
    if not isinstance(operation, CreateIndex):
        return operation
    names = {index.name for index in (*operation.new_indices, *operation.removed_indices)}
    spent = {one.uuid.uuid for one in _spent(_led_on(before, store, runtime), native) if one.name in names}
    spent -= {index.uuid.uuid for index in operation.removed_indices}
    more = [index for index in before.indices if index.uuid.uuid in spent]
    return replace(operation, removed_indices=(*operation.removed_indices, *more)) if more else operation


def check_no_cleanup(*versions: Manifest) -> None:
    """Refuse tables that pylance would clean up by itself after a commit: it would delete what old versions need."""
    if any(name.startswith(_CLEANUP) for one in versions for name in one.header.config):
        raise InvalidInput(
            "the table is set up to be cleaned up by pylance, which knows nothing of the lake's older versions",
            remedy=f"Remove the settings `{_CLEANUP}*` with `update_config` of the lake's table; `lake.gc` cleans up.",
        )


def check_bases(before: Manifest, after: Manifest, state: State) -> None:
    """Refuse a version that leads its readers to places that nobody has allowed; those that it has stay allowed."""
    known = {base.path for base in before.header.base_paths}
    for base in after.header.base_paths:
        if base.path not in known:
            state.outside.check(base.path, state.store.native_uri())


def _new_fields(before: Manifest, after: Manifest) -> set[int]:
    """The fields in data files that the later version has and the earlier one does not."""
    found: set[int] = set()
    for fragment in after.fragments:
        old = before.fragments.get(fragment.id) or DataFragment()
        if old != fragment:
            known = {file.path for file in old.files}
            found.update(one for file in fragment.files if file.path not in known for one in file.fields if one >= 0)
    return found


def new_files(before: Manifest, after: Manifest, store: Store) -> Iterator[str]:
    """Files that the later version needs and the earlier one does not, in the table's own directory, which is `store`.

    With data files go the large values beside them, of which only storage knows.
    """
    for fragment in after.fragments:
        old = before.fragments.get(fragment.id)
        if old != fragment:
            yield from with_blobs(store, files_of(fragment, old or DataFragment()), after.header.fields)
    known = {index.uuid.uuid for index in before.indices}
    for index in after.indices:
        if index.uuid.uuid not in known and not index.HasField("base_id"):
            yield from index_files(index)
