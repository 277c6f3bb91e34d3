"""Statements of several steps, of which all or none become part of a transaction."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from seiche.lake.sight import Sight

__all__ = ["kept_on_error"]


@contextmanager
def kept_on_error(tx: "Sight") -> Iterator[None]:
    """If the block fails, the transaction is what it was before: also after a statement of several steps."""
    edits, written, names = dict(tx.edits), dict(tx.rows), dict(tx.names)
    try:
        yield
    except BaseException:
        tx.edits, tx.rows, tx.names = edits, written, names
        raise
