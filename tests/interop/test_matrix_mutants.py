"""Every rule of the matrix and every step of a rebase is needed: without it, a named situation goes wrong."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from seiche.table import conflicts, index_rebase, row_merge
from seiche.table.conflicts import MATRIX, Rule
from seiche.table.operations import OPERATIONS
from tests.interop.matrix_checks import play, workshop
from tests.interop.matrix_tables import Workshop
from tests.unit.table.expected_matrix import SITUATIONS, Situation

__all__ = ["workshop"]

RULES = [(row, column, rule) for (row, column), cell in MATRIX.items() for rule in cell]


def goes_wrong(situation: Situation, shop: Workshop, path: Path) -> bool:
    """Whether the situation does not come out as it must."""
    try:
        play(situation, shop, path)
    except BaseException as error:  # pytest's own failures are no Exceptions
        if isinstance(error, KeyboardInterrupt | SystemExit):
            raise
        return True
    return False


def _id(value: Any) -> str:
    if isinstance(value, Rule):
        return f"{value.outcome}({value.condition})"
    return str(value.name)


@pytest.mark.parametrize(("row", "column", "rule"), RULES, ids=_id)
def test_without_a_rule_of_the_matrix_one_of_its_situations_goes_wrong(
    row: type, column: type, rule: Rule, workshop: Callable[[str], Workshop], tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.setitem(conflicts.MATRIX, (row, column), tuple(one for one in MATRIX[row, column] if one is not rule))
    names = {operation: operation.name for operation in OPERATIONS}
    cell = [one for one in SITUATIONS if (one.operation, one.other) == (names[row], names[column])]
    assert any(goes_wrong(one, workshop(one.table), tmp_path / str(number)) for number, one in enumerate(cell))


def situation(name: str) -> Situation:
    (found,) = (one for one in SITUATIONS if str(one) == name)
    return found


# What is taken away, and the situation that notices. `keep` and `nothing` stand for doing nothing.
def keep(first: Any, *_: Any, **__: Any) -> Any:
    return first


def second(_: Any, ours: Any, *__: Any) -> Any:
    return ours


def nothing(*_: Any, **__: Any) -> None:
    return None


MUTANTS: list[tuple[object, str, Any, str]] = [
    (row_merge.RowMerge, "_check_other_rows", nothing, "Delete (0a) over Delete (0a too)"),
    (row_merge.RowMerge, "_check_other_rows", nothing, "Update (0a) over Update (0a again)"),
    (row_merge, "_check_same_files", nothing, "Delete (0a) over Update (column 0)"),
    (row_merge, "_check_same_files", nothing, "Update (column 0) over Delete (0a)"),
    (row_merge, "_check_not_removed", nothing, "Delete (0a) over Delete (0 whole)"),
    (row_merge, "_check_not_removed", nothing, "Update (0 whole) over Delete (0a)"),
    (row_merge, "_is_emptied", lambda *_: False, "Delete (0 rest) over Delete (0a)"),
    (row_merge, "_is_emptied", lambda *_: False, "Update (0 rest) over Update (0a)"),
    (row_merge, "_rebased_on", lambda transaction, operation, _: transaction, "Delete (0a) over Delete (1a)"),
    (index_rebase, "replacing", keep, "CreateIndex (on v) over CreateIndex (on v again)"),
    (index_rebase, "replacing", keep, "CreateIndex (drop id_idx) over CreateIndex (on id)"),
    (index_rebase, "merge_mem_wal", keep, "CreateIndex (log A7) over CreateIndex (log B2)"),
    (index_rebase, "mark_merged", keep, "CreateIndex (log A7) over UpdateMemWalState (B2)"),
    (index_rebase, "mark_merged", keep, "CreateIndex (log A7) over Update (log B2)"),
    (index_rebase, "trimmed", keep, "CreateIndex (on v) over Update (column 0)"),
    (index_rebase, "followed", keep, "CreateIndex (on v) over Rewrite (0,1) [stable]"),
    (index_rebase, "followed", keep, "CreateIndex (bitmap v) over Rewrite (0,1) [stable]"),
    (index_rebase, "merged_reuse", second, "Rewrite (0,1 led) over CreateIndex (reuse cleaned) [reuse]"),
    (index_rebase, "merged_reuse", second, "CreateIndex (reuse kept) over Rewrite (0,1 led) [reuse]"),
    (index_rebase, "trimmed_to", keep, "CreateIndex (on v) over Merge (rewrite v)"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("where", "what", "instead", "name"), MUTANTS, ids=lambda one: one if isinstance(one, str) else ""
)
def test_without_a_step_of_the_rebase_a_situation_goes_wrong(
    where: object,
    what: str,
    instead: Any,
    name: str,
    workshop: Callable[[str], Workshop],
    tmp_path: Path,
    monkeypatch: Any,
) -> None:
    noticed = situation(name)
    shop = workshop(noticed.table)
    play(noticed, shop, tmp_path / "sound")
    monkeypatch.setattr(where, what, instead)
    assert goes_wrong(noticed, shop, tmp_path / "mutant")
