"""Small manifests and transactions, made up: for what can be said about conflicts without a real table."""

from collections.abc import Iterable
from uuid import UUID

from pyroaring import BitMap

from seiche.table.format import manifest_pb2 as pb
from seiche.table.format import roaring
from seiche.table.format.deletions import DeletionFiles
from seiche.table.format.fragments import Fragments
from seiche.table.format.manifest import STABLE_ROW_IDS, Manifest
from seiche.table.operations import Operation
from seiche.table.rebase import Committed, TransactionRebase
from seiche.table.transaction import Transaction

__all__ = ["begin", "committed", "field", "fragment", "index", "manifest", "masked", "never"]


def never() -> Manifest:
    """For what must not be loaded."""
    raise AssertionError("a manifest was loaded")


def field(number: int, name: str, kind: str = "int64", *, nullable: bool = True, parent: int = -1) -> pb.Field:
    return pb.Field(type=pb.Field.LEAF, id=number, name=name, logical_type=kind, nullable=nullable, parent_id=parent)


def fragment(number: int, rows: int = 10, *, fields: Iterable[int] = (0, 1), path: str = "") -> pb.DataFragment:
    file = pb.DataFile(path=path or f"{number}.lance", fields=fields, file_major_version=2, file_minor_version=2)
    return pb.DataFragment(id=number, physical_rows=rows, files=[file])


def masked(one: pb.DataFragment, rows: Iterable[int], files: DeletionFiles, version: int = 1) -> pb.DataFragment:
    """The fragment with these rows deleted, the file being written."""
    made = pb.DataFragment()
    made.CopyFrom(one)
    made.deletion_file.CopyFrom(files.write(one.id, version, BitMap(rows)))
    return made


def index(name: str, fields: Iterable[int], covers: Iterable[int], number: int = 1) -> pb.IndexMetadata:
    return pb.IndexMetadata(
        uuid=pb.UUID(uuid=UUID(int=number).bytes),
        name=name,
        fields=fields,
        fragment_bitmap=roaring.encode(BitMap(covers)),
    )


def manifest(
    version: int,
    fragments: Iterable[pb.DataFragment] = (),
    fields: Iterable[pb.Field] = (),
    indices: Iterable[pb.IndexMetadata] = (),
    *,
    stable: bool = False,
) -> Manifest:
    header = pb.Manifest(version=version, fields=fields or (field(0, "id"), field(1, "v")))
    if stable:
        header.reader_feature_flags = STABLE_ROW_IDS
    return Manifest(header, Fragments(fragments), indices)


def committed(version: int, operation: Operation, after: Manifest | None = None) -> Committed:
    """What somebody else did; without a manifest, one that must not be looked at."""
    return Committed(
        version, Transaction(version - 1, f"txn-{version}", operation), never if after is None else lambda: after
    )


def begin(operation: Operation, read: Manifest | None = None, **options: object) -> TransactionRebase:
    """A rebase of an operation that read version 1."""
    load = never if read is None else lambda: read
    return TransactionRebase.begin(Transaction(1, "ours", operation), load, table="shop.stock", **options)  # type: ignore[arg-type]
