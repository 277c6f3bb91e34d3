"""Every cell of the conflict matrix on real tables: two changes of one version, committed one after the other.

A cell counts only when its result was decoded and scanned: the rows are those of the model, so is everything else that
a table consists of, pylance validates it, finds the rows through its indices, and appends to it.
"""

from collections.abc import Callable
from pathlib import Path

import pytest

from seiche.table.conflicts import MATRIX
from seiche.table.operations import OPERATIONS
from tests.interop.matrix_checks import play, workshop
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
