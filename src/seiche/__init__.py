"""Seiche: a transactional lakehouse. Any number of tables change in one atomic step, or not at all.

    lake = seiche.create("lake")                    a folder, or s3://, gs://, az://, hdfs://, memory://
    lake = seiche.open("lake")                      the newest version; version= or as_of= for another
    lake = seiche.connect("grpc://host:7447")       the same through a server

    with lake.transaction() as tx:                  commits at the end, or rolls back if the block raises
        tx.append("shop.orders", rows)
        tx.update("shop.stock", {"left": "left - 1"}, where="sku = 'a'")

    seiche.Table.open("plain.lance")                one Lance table, without a lake

Errors form one tree (`seiche.errors`): each says what was wrong, whether a retry is safe, and what to do. In
`seiche.spark` is the lake for Spark, in `seiche.store` what it all rests on; the command `seiche` has most of it for a
shell.
"""

import importlib as _importlib
import typing as _typing

from seiche import errors
from seiche.errors import (
    AlreadyExists,
    CommitUnknown,
    ConflictError,
    Corrupt,
    IncompatibleConflict,
    InvalidInput,
    NotFound,
    PermissionDenied,
    RetryableConflict,
    SeicheError,
    Unavailable,
)

if _typing.TYPE_CHECKING:
    from seiche import store
    from seiche.lake.lake import Lake, create
    from seiche.lake.lake import open_lake as open
    from seiche.service.connecting import connect
    from seiche.table.table import Table

__all__ = [
    "AlreadyExists",
    "CommitUnknown",
    "ConflictError",
    "Corrupt",
    "IncompatibleConflict",
    "InvalidInput",
    "Lake",
    "NotFound",
    "PermissionDenied",
    "RetryableConflict",
    "SeicheError",
    "Table",
    "Unavailable",
    "connect",
    "create",
    "errors",
    "open",
    "store",
]

__version__ = "0.1.0"

# Where the names live that are imported when they are first used ("module" or "module:name"), because what stands
# behind them is slow to load. To add one: a line here, one in __all__, and its import under TYPE_CHECKING.
_LAZY = {
    "Lake": "seiche.lake.lake:Lake",
    "Table": "seiche.table.table:Table",
    "connect": "seiche.service.connecting:connect",
    "create": "seiche.lake.lake:create",
    "open": "seiche.lake.lake:open_lake",
    "store": "seiche.store",
}


if not _typing.TYPE_CHECKING:  # a type checker that saw it would accept every name

    def __getattr__(name: str) -> object:
        if name not in _LAZY:
            raise AttributeError(f"module 'seiche' has no attribute {name!r}")
        module, _, attribute = _LAZY[name].partition(":")
        found: object = _importlib.import_module(module)
        if attribute:
            found = getattr(found, attribute)
        globals()[name] = found  # the next look-up does not come here
        return found


def __dir__() -> list[str]:
    return __all__
