"""Appends of several transactions as one change: one version of each table, however many they are.

Only what came as operations is joined. A commit that came with a version number keeps a version of its own.
"""

from collections.abc import Sequence
from threading import Lock
from typing import Final

from seiche.core.runtime import Runtime
from seiche.lake.commit.edits import TableEdit
from seiche.lake.commit.intent import Intent, Member
from seiche.lake.commit.work import Work
from seiche.lake.state import State
from seiche.service.commit.planning import Plan, table_in
from seiche.service.operations import check_format, manifest_at
from seiche.table.change import Change
from seiche.table.format.manifest_pb2 import DataFragment
from seiche.table.operations import Append

__all__ = ["Lineage", "merged"]

# Tables that are remembered, the last ones: a server lives for long, and there is no end of those that come and go.
_MOST_KNOWN: Final = 10_000


class Lineage:
    """Which of the last versions of a table are known to be appends, because they were made here.

    An append to any of them is an append to the last: nothing in between can be in its way, and the schema is the same.
    That spares reading what was written a moment ago.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._spans: dict[str, tuple[int, int]] = {}

    def newest(self, table: str, version: int, now: int) -> int:
        """The version that something built on `version` may be taken to be built on, if the table is at `now`."""
        with self._lock:
            first, last = self._spans.get(table, (now, now))
        return now if last == now and first <= version else version

    def extend(self, table: str, made: int) -> None:
        """Version `made` is an append to the one before."""
        with self._lock:
            first, last = self._spans.get(table, (0, 0))
            self._spans.pop(table, None)
            self._spans[table] = (first if last == made - 1 else made - 1, made)
            if len(self._spans) > _MOST_KNOWN:
                del self._spans[next(iter(self._spans))]

    def forget(self, table: str) -> None:
        """Something else was done to the table."""
        with self._lock:
            self._spans.pop(table, None)


def merged(plans: Sequence[Plan], state: State, lineage: Lineage, runtime: Runtime) -> Intent:
    """All of these as one, each recorded under its own id. They must be appends only.

    The oldest version that any of them was built on counts for all: whatever the joined append is compatible with, each
    of them is.
    """
    fragments: dict[str, list[DataFragment]] = {}
    versions: dict[str, int] = {}
    for plan in plans:
        for one in plan.wanted:
            operation = plan.operation(one)
            fragments.setdefault(one.table, []).extend(operation.fragments)
            read = operation.transaction.read_version
            versions[one.table] = min(read, versions.get(one.table, read))
    edits: dict[str, TableEdit] = {}
    for table, added in fragments.items():
        found = table_in(state, table)
        check_format(found.row)
        version = lineage.newest(table, versions[table], found.row.table_version)
        base = manifest_at(state, found.row, version)
        change = Change(Append(tuple(added)))
        work = Work(base, base, base, content=(change,), statements=(change,))
        edits[table] = TableEdit(row=found.row, key=found.key, found=found.row, found_key=found.key, work=work)
    if len(plans) == 1:
        return Intent(plans[0].id, plans[0].base, edits=edits, properties=plans[0].properties)
    # Those that want the same have the same keys.
    keys = {
        tables: tuple(sorted(edits[one].key or b"" for one in tables)) for tables in {plan.touches for plan in plans}
    }
    members = tuple([Member(plan.id, plan.base, keys[plan.touches], plan.properties) for plan in plans])
    return Intent(str(runtime.uuid()), min(plan.base for plan in plans), edits=edits, members=members)
