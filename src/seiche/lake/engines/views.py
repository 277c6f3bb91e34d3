"""A table inside a transaction, as versions that pylance can open and build upon.

pylance looks into the table's public directory for versions newer than its own, and takes those that it finds for its
own future. Inside a transaction there must be none, whatever others publish meanwhile: so what a transaction shows has
numbers far above all that will ever be published, and stands under private names. It also remembers, for as long as a
session lasts, what it has read of a version by the table's address and the number: so no two transactions may use the
same numbers for one table.
"""

import hashlib
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from seiche.core.insisting import insist
from seiche.errors import AlreadyExists
from seiche.lake.engines.native_manifest import NativeManifest
from seiche.lake.engines.staged_table import StagedTable
from seiche.lake.versions import staged_path
from seiche.table.change import Change
from seiche.table.format import file
from seiche.table.format.manifest import Manifest
from seiche.table.operations import Append
from seiche.table.transaction import Transaction

__all__ = ["FAR", "Shown", "Views"]

# More versions than any table gets while a transaction runs. Numbers of transactions are beyond some multiple of it.
FAR: Final = 10**9
_MULTIPLES: Final = 31  # bits: the product stays below 2^63, where other numbers begin


@dataclass(frozen=True, slots=True)
class Shown:
    """A state of the table, by the statements that led to it, and the manifest under which pylance finds it."""

    number: int
    statements: Sequence[Change]
    path: str
    size: int


class Views:
    """What pylance has been shown of one table in one transaction.

    A number stands for one state for ever, also if the statement that led to it was taken back.
    """

    def __init__(self, table: StagedTable) -> None:
        self._table = table
        self._shown: list[Shown] = []

    @property
    def newest(self) -> Shown:
        """The table as the transaction's next statement sees it."""
        work = self._table.work
        if not self._shown or self._shown[-1].statements is not work.statements:
            self._show(work.running, work.statements, self._next(len(work.statements)))
        return self._shown[-1]

    def find(self, number: int) -> Shown | None:
        """What was shown under a number."""
        return next((one for one in self._shown if one.number == number), None)

    @property
    def all(self) -> Sequence[Shown]:
        """What was shown so far, up to the newest."""
        return [*self._shown[:-1], self.newest]

    def add(self, native: NativeManifest) -> Shown:
        """The newest state, which pylance has built itself: it is shown its own manifest again, byte by byte."""
        return self._keep(native.data, self._table.work.statements, native.version)

    def _next(self, statements: int) -> int:
        if self._shown:
            return self._shown[-1].number + 1
        base = self._table.work.base.version
        # A table that the transaction has made itself has nothing public to stay away from.
        if base == 0:
            return statements
        return FAR * (1 + self._table.runtime.random.getrandbits(_MULTIPLES)) + base + statements

    def _show(self, running: Manifest, statements: Sequence[Change], number: int) -> None:
        header = running.copy_header()
        header.version = number
        shown = Manifest(header, running.fragments, running.index_section)
        # Nobody will be checked against it; but a manifest without a transaction is refused by native writers.
        operation = statements[-1].operation if statements else Append()
        transaction = Transaction(max(0, number - 1), str(self._table.runtime.uuid()), operation)
        self._keep(b"".join(file.encode(shown, transaction.encode())), statements, number)

    def _keep(self, data: bytes, statements: Sequence[Change], number: int) -> Shown:
        path = staged_path(number, hashlib.sha256(data).hexdigest())
        with suppress(AlreadyExists):  # named after its content
            insist(lambda: self._table.store.put_if_absent(path, data, durable=False), self._table.runtime)
        self._shown.append(Shown(number, statements, path, len(data)))
        return self._shown[-1]
