"""Is what the clauses of a merge say possible at all? Asked before any row is looked at."""

from collections.abc import Sequence

from seiche.errors import InvalidInput
from seiche.table.data.assign import check_columns, check_expressions
from seiche.table.data.merge.clauses import Clause
from seiche.table.data.merge.joined import Joined, mentioned
from seiche.table.data.merge.source import MergeSource
from seiche.table.snapshot import Snapshot

__all__ = ["check_any", "check_clauses", "check_order"]


def check_any(clauses: Sequence[Clause]) -> None:
    """`InvalidInput` for a merge without clauses, which is a call that was forgotten."""
    if not clauses:
        raise InvalidInput(
            "the merge does not say what to do with any row",
            remedy="Say it with when_matched_update_all(), when_not_matched_insert_all() and the like.",
        )


def check_clauses(snapshot: Snapshot, source: MergeSource, on: Sequence[str], clauses: Sequence[Clause]) -> None:
    """`InvalidInput` for clauses that contradict each other, set a key, or have SQL that cannot be evaluated."""
    if sum(clause.action == "insert" for clause in clauses) > 1:
        raise InvalidInput("rows that are not matched are inserted twice", remedy="Say it once.")
    check_order(clauses)
    for clause in clauses:
        if clause.assignments is not None:
            _check_assignments(clause, snapshot, on)
    _check_sql(snapshot, source, on, [clause for clause in clauses if clause.side == "matched"])
    for clause in clauses:
        if clause.side == "not matched by source":
            check_expressions(snapshot.dataset, clause.assignments or {}, snapshot.schema, clause.condition)


def check_order(clauses: Sequence[Clause]) -> None:
    """`InvalidInput` for a clause that no row ever comes to."""
    done: dict[str, Clause] = {}
    for clause in clauses:
        if clause.side in done:
            raise InvalidInput(
                f"'{clause}' is never reached: '{done[clause.side]}' before it has no condition",
                remedy="Put the clause without a condition last.",
            )
        if clause.condition is None:
            done[clause.side] = clause


def _check_assignments(clause: Clause, snapshot: Snapshot, on: Sequence[str]) -> None:
    check_columns(clause.assignments or {}, snapshot.schema)
    for name in on:
        if name in (clause.assignments or {}):
            raise InvalidInput(
                f"'{clause}' sets {name!r}, which is part of the key",
                remedy="Change keys with an update of its own: a merge could give two rows the same one.",
                column=name,
            )


def _check_sql(snapshot: Snapshot, source: MergeSource, on: Sequence[str], clauses: Sequence[Clause]) -> None:
    """Plan the SQL about matched rows on a join without rows."""
    texts = [text for one in clauses for text in (one.condition, *(one.assignments or {}).values()) if text is not None]
    if not texts:
        return
    ours = list(dict.fromkeys([*on, *mentioned("source", texts, source.rows.column_names)]))
    theirs = list(dict.fromkeys([*on, *mentioned("target", texts, snapshot.schema.names)]))
    table = snapshot.schema.empty_table()
    joined = Joined(source.rows.slice(0, 0).select(ours), table.select(theirs))
    for clause in clauses:
        check_expressions(joined.dataset, clause.assignments or {}, snapshot.schema, clause.condition)
