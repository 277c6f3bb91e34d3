"""Delete: find the rows, and take them out."""

from seiche.errors import InvalidInput
from seiche.table.change import Change
from seiche.table.data.removal import Removal, by_fragment, remove_all, remove_rows
from seiche.table.data.scanning import find_rows
from seiche.table.operations import Delete
from seiche.table.snapshot import Snapshot

__all__ = ["Deleting"]


class Deleting:
    """Prepares a Delete of the rows that meet a condition."""

    def __init__(self, predicate: str) -> None:
        given: object = predicate
        if not isinstance(given, str) or not given.strip():
            raise InvalidInput(
                f"a condition in SQL is needed, not {predicate!r}", remedy="Say 'true' to delete all rows."
            )
        self._predicate = predicate

    def __call__(self, snapshot: Snapshot) -> Change | None:
        removal = self._remove(snapshot)
        if not removal.rows:
            return None
        operation = Delete(removal.updated, removal.removed, self._predicate)
        return Change(operation, removal.rows, rows=removal.count, files=removal.files, bytes=removal.bytes)

    def _remove(self, snapshot: Snapshot) -> Removal:
        if self._predicate.strip().lower() == "true" and (everything := remove_all(snapshot)) is not None:
            return everything
        found = find_rows(snapshot, self._predicate, what=f"the condition {self._predicate!r}")
        return remove_rows(snapshot, by_fragment(found))
