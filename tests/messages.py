"""Small manifests and their parts, made by hand, for tests that need no storage."""

from collections.abc import Iterable, Mapping
from uuid import UUID

from google.protobuf.any_pb2 import Any
from pyroaring import BitMap

from seiche.core.runtime import Runtime
from seiche.table.build import build, empty
from seiche.table.format import file, roaring
from seiche.table.format.fragments import Fragments
from seiche.table.format.manifest import Manifest
from seiche.table.format.manifest_pb2 import UUID as StoredId
from seiche.table.format.manifest_pb2 import DataFile, DataFragment, DeletionFile, Field, IndexMetadata
from seiche.table.format.row_ids import RowIds, RowVersions
from seiche.table.operations import Operation, Overwrite
from seiche.table.operations.context import Schema
from seiche.table.operations.rows import stamp_new
from seiche.table.transaction import Transaction

RUNTIME = Runtime.seeded(3)


def field(number: int, name: str, logical_type: str = "int64", *, nullable: bool = True, parent: int = -1) -> Field:
    return Field(
        type=Field.LEAF,
        name=name,
        id=number,
        parent_id=parent,
        logical_type=logical_type,
        nullable=nullable,
        encoding=1,
    )


def data_file(path: str, fields: Iterable[int], **members: int) -> DataFile:
    ids = list(fields)
    given = {"file_major_version": 2, "file_minor_version": 2, **members}
    return DataFile(path=path, fields=ids, column_indices=range(len(ids)), **given)


def fragment(number: int = 0, *files: DataFile, rows: int = 10, deleted: int | None = None) -> DataFragment:
    made = DataFragment(id=number, files=files or [data_file(f"{number}.lance", [0, 1])], physical_rows=rows)
    if deleted is not None:
        made.deletion_file.CopyFrom(DeletionFile(read_version=1, id=7, num_deleted_rows=deleted))
    return made


def index(number: int, name: str, fields: Iterable[int], covers: Iterable[int], kind: str = "Bitmap") -> IndexMetadata:
    return IndexMetadata(
        uuid=StoredId(uuid=UUID(int=number).bytes),
        name=name,
        fields=fields,
        dataset_version=1,
        fragment_bitmap=roaring.encode(BitMap(covers)),
        index_details=Any(type_url=f"/lance.table.{kind}IndexDetails"),
    )


def coverage(manifest: Manifest) -> dict[str, list[int]]:
    return {one.name: list(roaring.decode(one.fragment_bitmap)) for one in manifest.indices if one.fragment_bitmap}


SCHEMA = (field(0, "a"), field(1, "b"))


def table(
    *fragments: DataFragment,
    schema: Iterable[Field] = SCHEMA,
    indices: Iterable[IndexMetadata] = (),
    stable: bool = False,
    config: Mapping[str, str] | None = None,
) -> Manifest:
    """Version 1 with these fragments, under the ids that they have, as if read from storage."""
    header = commit(Overwrite((), tuple(schema), {}, config or {}), empty(stable_row_ids=stable)).copy_header()
    own = []
    for one in fragments:
        copy = DataFragment()
        copy.CopyFrom(one)
        own.append(copy)
    if stable:
        stamp_new(own, header, 1)
    header.max_fragment_id = max((one.id for one in own), default=0)
    if not own:
        header.ClearField("max_fragment_id")
    return reread(Manifest(header, Fragments(own), tuple(indices)))


def reread(manifest: Manifest) -> Manifest:
    """The same after it was stored."""
    return file.decode(b"".join(file.encode(manifest, b"")), path="memory").manifest


def commit(
    operation: Operation,
    base: Manifest,
    *,
    read_schema: Schema | None = None,
    versions: Mapping[int, Manifest] | None = None,
) -> Manifest:
    """The next version, as it reads after it was stored."""
    load = None if versions is None else versions.__getitem__
    transaction = Transaction(base.version, "12345678", operation)
    return reread(build(base, transaction, runtime=RUNTIME, load=load, read_schema=read_schema))


def row_ids(one: DataFragment) -> list[int]:
    ids: list[int] = RowIds.decode(one.inline_row_ids, rows=one.physical_rows).to_array().tolist()
    return ids


def created(one: DataFragment) -> list[int]:
    versions: list[int] = RowVersions.decode(one.inline_created, rows=one.physical_rows).to_array().tolist()
    return versions


def updated(one: DataFragment) -> list[int]:
    versions: list[int] = RowVersions.decode(one.inline_last_updated, rows=one.physical_rows).to_array().tolist()
    return versions
