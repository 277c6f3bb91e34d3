"""From a transaction to the next version: apply the operation, sign the result, and look at it once more."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime

from seiche import __version__
from seiche.core.runtime import SYSTEM, Runtime
from seiche.errors import InvalidInput
from seiche.table import invariants
from seiche.table.format import flags
from seiche.table.format import manifest_pb2 as pb
from seiche.table.format.fragments import Fragments
from seiche.table.format.manifest import Manifest
from seiche.table.operations import Clone, Opaque, Rewrite
from seiche.table.operations.context import Build, Schema, nothing_to_load
from seiche.table.transaction import Transaction

__all__ = ["build", "empty", "settled"]

_WRITER = pb.Manifest.WriterVersion(library="seiche", version=__version__)


def empty(
    *,
    stable_row_ids: bool = False,
    data_format: str = "2.2",
    config: Mapping[str, str] | None = None,
    table_metadata: Mapping[str, str] | None = None,
) -> Manifest:
    """What stands before version 1: an Overwrite built on it creates a table. Never stored itself."""
    header = pb.Manifest(config=config, table_metadata=table_metadata)
    header.data_format.file_format = "lance"
    header.data_format.version = data_format
    if stable_row_ids:
        header.reader_feature_flags = header.writer_feature_flags = flags.STABLE_ROW_IDS
    return Manifest(header, Fragments())


def build(
    base: Manifest,
    transaction: Transaction,
    *,
    runtime: Runtime = SYSTEM,
    load: Callable[[int], Manifest] | None = None,
    read_schema: Schema | Callable[[], Schema] | None = None,
    managed: bool = False,
) -> Manifest:
    """The version that follows `base` when `transaction` is committed over it. Writes nothing.

    `base` must be the newest version, and everything between it and the transaction's read version checked for
    conflicts and rebased over. `load` gives earlier versions (Restore needs one), `read_schema` the schema at the read
    version if it is not that of `base`. A Clone is built on the manifest of its source. Raises `InvalidInput` for an
    operation that cannot be right, `RetryableConflict` for one that does not fit any more, and `Corrupt` if the result
    breaks a rule of the format, which is a bug and must not reach storage.
    """
    operation = transaction.operation
    if isinstance(operation, Opaque) or operation.unknown or transaction.unknown:
        raise _not_understood(transaction)
    flags.require_writable(base.header, managed=managed)
    first = isinstance(operation, Clone)
    version = base.version if first else base.version + 1
    made = operation.apply(base, Build(version, load or nothing_to_load, read_schema, runtime))
    _sign(made, transaction, version, runtime.clock.now())
    if (largest := max(base.max_fragment_id, made.max_fragment_id)) >= 0:
        # Some writers leave the counter out or let it fall behind, and then an id that was deleted could come back.
        made.header.max_fragment_id = largest
    invariants.check(base, made, first=first)
    return made


def settled(base: Manifest, transaction: Transaction) -> Transaction:
    """The transaction as it is to be stored with the version that `build` makes of it.

    That is the same one, but for a Rewrite in the flat form: it is stored as groups, with the ids that its fragments
    get.
    """
    operation = transaction.operation
    if isinstance(operation, Rewrite) and operation.flat:
        return replace(transaction, operation=operation.with_ids(base))
    return transaction


def _sign(made: Manifest, transaction: Transaction, version: int, now: datetime) -> None:
    """Fill in what says who made this version, when and from what. The header is not shared with anybody yet."""
    header = made.header
    header.version = version
    header.tag = transaction.tag
    header.transaction_file = transaction.file_name
    timestamp = header.timestamp
    timestamp.seconds = int(now.timestamp())
    timestamp.nanos = now.microsecond * 1000
    if header.writer_version != _WRITER:
        header.writer_version.CopyFrom(_WRITER)
    flags.recompute(header, has_deletions=made.fragments.has_deletions)


def _not_understood(transaction: Transaction) -> InvalidInput:
    return InvalidInput(
        f"the transaction {transaction.uuid} ({transaction.operation.name}) has parts that are not understood here",
        remedy="A newer writer, or one of another generation of the format, made it: commit it with that.",
        operation=transaction.operation.name,
        transaction_id=transaction.uuid,
    )
