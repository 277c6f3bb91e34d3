"""Operations of Lance that come as bytes: read, looked at, and made a statement about a table."""

from dataclasses import dataclass

from seiche.errors import InvalidInput, NotFound, SeicheError
from seiche.lake.commit.edits import TableEdit
from seiche.lake.commit.work import CONTENT, Work
from seiche.lake.objects.rows import TableRow
from seiche.lake.state import State
from seiche.lake.versions import LakeVersions
from seiche.service.brought import stays_inside
from seiche.service.refusals import refused
from seiche.store.paths import join
from seiche.store.prefix import below
from seiche.table import affected
from seiche.table.blob_files import with_blobs
from seiche.table.brought import brought
from seiche.table.change import Change
from seiche.table.format.manifest import Manifest
from seiche.table.format.manifest_pb2 import DataFragment
from seiche.table.operations import Append, Clone, Merge, Opaque, Overwrite
from seiche.table.transaction import Transaction

__all__ = ["Operation", "check_format", "decode", "edit", "manifest_at"]


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation on one table, made from one of its versions."""

    transaction: Transaction

    @property
    def appends(self) -> bool:
        """Whether it only adds rows, so that it can be joined with others that do."""
        return isinstance(self.transaction.operation, Append)

    @property
    def fragments(self) -> tuple[DataFragment, ...]:
        operation = self.transaction.operation
        return operation.fragments if isinstance(operation, Append | Overwrite) else ()

    def files(self, state: State, row: TableRow) -> list[str]:
        """The files that it brings to a table, as paths in the lake."""
        check_format(row)
        operation, now = self.transaction.operation, manifest_at(state, row, row.table_version)
        base = None if self.appends else manifest_at(state, row, self.transaction.read_version)
        fields = operation.schema if isinstance(operation, Overwrite | Merge) else now.header.fields
        paths = with_blobs(below(state.store, row.location), brought(operation, base), fields)
        return [join(row.location, path) for path in paths]


def decode(data: bytes, table: str) -> Operation:
    """The operation in the bytes of a Lance transaction; refused if it cannot be part of a transaction of the lake."""
    try:
        read = Transaction.decode(data, path=f"the payload for {table}")
    except SeicheError as error:
        raise refused(error.message, "payload.invalid", "Send the bytes of a Lance Transaction message.") from error
    if isinstance(read.operation, Clone | Opaque) or read.operation.unknown or read.unknown:
        raise refused(f"{read.operation.name} cannot be part of a transaction", "payload.operation", table=table)
    if not stays_inside(read.operation):
        raise refused(f"the payload for {table} names a file outside of the table", "payload.path", table=table)
    return Operation(read)


def check_format(row: TableRow) -> None:
    """Refuse tables that take no operations of Lance."""
    if not row.is_own("lance"):
        raise refused(f"a table of format {row.format} takes no operations of Lance", "payload.format")


def manifest_at(state: State, row: TableRow, version: int) -> Manifest:
    """The table as it was at one of its versions."""
    if version < 1 or version > row.table_version:
        raise InvalidInput(
            f"the operation was made from version {version}; the table is at {row.table_version}",
            remedy="Give the version that it was made from.",
            reason="payload.read-version",
        )
    try:
        return LakeVersions(state.store, row, state.manifests).read(version).manifest
    except NotFound as error:
        raise InvalidInput(
            f"version {version} of the table, from which the operation was made, has expired",
            remedy="Make it anew from the latest version.",
            reason="payload.read-version",
        ) from error


def edit(operation: Operation, state: State, key: bytes, row: TableRow) -> TableEdit:
    """The operation as all that a transaction does to the table, checked and rebased when it is committed."""
    check_format(row)
    transaction = operation.transaction
    base = manifest_at(state, row, transaction.read_version)
    rows = affected.unpack(transaction.properties)
    change = Change(transaction.operation, rows)
    if isinstance(transaction.operation, CONTENT):
        work = Work(base, base, base, content=(change,), statements=(change,))
    else:
        work = Work(base, base, base, followers=(transaction.operation,), statements=(change,))
    return TableEdit(row=row, key=key, found=row, found_key=key, work=work)
