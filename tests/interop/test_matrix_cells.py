"""Every cell of the conflict matrix on real tables: two changes of one version, committed one after the other.

A cell counts only when its result was decoded and scanned: the rows are those of the model, so is everything else that
a table consists of, pylance validates it, finds the rows through its indices, and appends to it.
"""

from collections.abc import Callable
from copy import deepcopy
from itertools import permutations
from pathlib import Path

import pytest

from seiche.table.conflicts import MATRIX
from seiche.table.operations import OPERATIONS
from tests.interop.matrix_checks import assert_means, commit, play, workshop
from tests.interop.matrix_tables import Workshop
from tests.unit.table.expected_matrix import SITUATIONS, Situation

__all__ = ["workshop"]


def test_every_cell_has_a_situation() -> None:
    names = [operation.name for operation in OPERATIONS]
    assert {(one.operation, one.other) for one in SITUATIONS} == {(row, column) for row in names for column in names}
    assert len(MATRIX) == len(names) ** 2


@pytest.mark.parametrize("situation", SITUATIONS, ids=str)
def test_cell(situation: Situation, workshop: Callable[[str], Workshop], tmp_path: Path) -> None:
    play(situation, workshop(situation.table), tmp_path / "table")


ROWS = [one for one in SITUATIONS if one.operation in {"Delete", "Update"} and one.other in {"Delete", "Update"}]


@pytest.mark.parametrize("situation", ROWS, ids=str)
def test_rows_that_nobody_gave_are_found_out(
    situation: Situation, workshop: Callable[[str], Workshop], tmp_path: Path
) -> None:
    """As the cells say, though neither side says which rows it deletes or moves."""
    play(situation, workshop(situation.table), tmp_path / "table", rows_given=False)


def test_three_changes_of_one_fragment_are_all_kept(workshop: Callable[[str], Workshop], tmp_path: Path) -> None:
    shop = workshop("plain")
    changes = [shop.change("Delete", "0a"), shop.change("Update", "0c"), shop.change("Delete", "0b")]
    for number, order in enumerate(permutations(changes)):
        path = shop.copy(tmp_path / str(number))
        state = deepcopy(shop.state)
        for one in order:
            commit(path, one, shop.version)
            one.effect(state)
        assert_means(path, state)


def test_a_change_goes_over_many_others_at_once(workshop: Callable[[str], Workshop], tmp_path: Path) -> None:
    """One rebase over an append, a delete of other rows, an index, a rewrite elsewhere and settings."""
    shop = workshop("plain")
    names = [
        ("Append", "rows"),
        ("Delete", "0b"),
        ("CreateIndex", "on v@0,1"),
        ("Rewrite", "2,3"),
        ("UpdateConfig", "config j"),
        ("UpdateBases", "b1"),
        ("ReserveFragments", "5"),
    ]
    others = [shop.change(*name) for name in names]
    ours = shop.change("Update", "0a")
    path = shop.copy(tmp_path / "table")
    state = deepcopy(shop.state)
    for one in others:
        commit(path, one, shop.version)
        one.effect(state)
    commit(path, ours, shop.version)
    ours.effect(state)
    assert_means(path, state)
