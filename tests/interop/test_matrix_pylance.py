"""The same situations put to pylance: where it decides otherwise, the difference is written down here with its reason.

A difference that is not in the list fails, and so does one that is no longer there.
"""

from collections.abc import Callable
from copy import deepcopy
from pathlib import Path

import lance
import pytest

from tests.interop.matrix_checks import commit_first, rows_of, workshop
from tests.interop.matrix_tables import Workshop
from tests.interop.pylance_oracle import ask, cannot_be_asked
from tests.unit.table.expected_matrix import SITUATIONS, Situation

__all__ = ["workshop"]

_SPEC_NAMES = "the specification lets the second index of a name replace the first"
_SPEC_SINGLETONS = "the specification merges the singleton indices"
_SPEC_STABLE = "the specification says that stable row ids make the two compatible; coverage is adapted"
_REUSED_ID = "a renamed column cannot be told from another one under a reused id"
_VALUES_KEPT = "only values of the column that became required can break the promise, and none were written"
_GONE = "the index is on a column that is gone: every scan would fail"
_IN_PART = "older readers refuse an index that covers fragments rewritten together in part"
_ONLY_NEW = "pylance takes base paths only when it creates a table"
_WHOLE_MAP = "a map that is replaced as a whole has every key in it: the other side's change would be lost"

# Situation: what pylance says, and why we say something else.
DIFFERENCES = {
    # Ours is stricter, because the result would be wrong.
    "Append (rows) over Project (rename w)": ("ok", _REUSED_ID),
    "Update (0c) over Project (rename w)": ("ok", _REUSED_ID),
    "CreateIndex (on w) over Project (rename w)": ("ok", _REUSED_ID),
    "CreateIndex (on w) over Project (drop w)": ("ok", _GONE),
    "CreateIndex (on w) over Merge (cast w)": ("ok", _GONE),
    "CreateIndex (on v@0) over Rewrite (0,1 led)": ("ok", _IN_PART),
    "UpdateConfig (config k) over UpdateConfig (config *)": ("ok", _WHOLE_MAP),
    "UpdateConfig (config *) over UpdateConfig (config j)": ("ok", _WHOLE_MAP),
    "UpdateBases (b1) over UpdateBases (open)": ("ok", "the open id has been given meanwhile, and two would share it"),
    "Append (rows) over Merge (cast w)": ("ok", "the column has another field id: its values would silently be null"),
    # Ours is stricter, because the specification says so.
    "UpdateConfig (config k) over Overwrite (plain)": ("ok", "the specification lists Overwrite without a condition"),
    "DataReplacement (0 w) over Update (column 0)": ("ok", "the specification lists Update on the same fragments"),
    # Ours lets both stand, because the specification does and the result is right for pylance too.
    "Append (rows) over Merge (rewrite v)": ("retry", "the schemas are compared, a promise is not needed"),
    "Delete (none) over Merge (z)": ("retry", "the specification asks for fragments that both change"),
    "CreateIndex (on v) over CreateIndex (on v again)": ("retry", _SPEC_NAMES),
    "CreateIndex (on v@0,1) over CreateIndex (on v@2,3)": ("retry", _SPEC_NAMES),
    "CreateIndex (on id) over CreateIndex (on id again)": ("retry", _SPEC_NAMES),
    "CreateIndex (on id) over CreateIndex (drop id_idx)": ("retry", _SPEC_NAMES),
    "CreateIndex (drop id_idx) over CreateIndex (on id)": ("retry", _SPEC_NAMES),
    "CreateIndex (log A7) over CreateIndex (drop __lance_mem_wal) [log]": ("retry", _SPEC_NAMES),
    "CreateIndex (drop __lance_mem_wal) over CreateIndex (log B2) [log]": ("retry", _SPEC_NAMES),
    "CreateIndex (log A7) over CreateIndex (log B2)": ("retry", _SPEC_SINGLETONS),
    "CreateIndex (log A7) over CreateIndex (log A5)": ("retry", _SPEC_SINGLETONS),
    "CreateIndex (log A7) over CreateIndex (log B2) [log]": ("retry", _SPEC_SINGLETONS),
    "CreateIndex (reuse kept) over CreateIndex (reuse cleaned) [reuse]": ("retry", _SPEC_SINGLETONS),
    "CreateIndex (reuse cleaned) over CreateIndex (reuse kept) [reuse]": ("retry", _SPEC_SINGLETONS),
    "CreateIndex (on v) over Rewrite (0,1) [stable]": ("retry", _SPEC_STABLE),
    "CreateIndex (on v@0) over Rewrite (0,1) [stable]": ("retry", _SPEC_STABLE),
    "CreateIndex (bitmap v) over Rewrite (0,1) [stable]": ("retry", _SPEC_STABLE),
    "CreateIndex (bitmap v@0,2) over Rewrite (0,1) [stable]": ("retry", _SPEC_STABLE),
    "Rewrite (0,1) over CreateIndex (on v) [stable]": ("retry", _SPEC_STABLE),
    "Rewrite (0,1) over CreateIndex (on v@0) [stable]": ("retry", _SPEC_STABLE),
    "Rewrite (0,1) over CreateIndex (bitmap v) [stable]": ("retry", _SPEC_STABLE),
    "Rewrite (0,1) over CreateIndex (bitmap v@0,2) [stable]": ("retry", _SPEC_STABLE),
    "CreateIndex (on v@1) over DataReplacement (0 v)": ("retry", "the specification asks for common fragments"),
    "Restore (1) over UpdateConfig (schema s)": ("incompatible", "the specification says that Restore trumps"),
    "UpdateConfig (schema s) over UpdateConfig (schema t)": ("incompatible", "the specification asks for the same key"),
    "Project (require w) over Update (column 0)": ("retry", _VALUES_KEPT),
    "Project (require v) over DataReplacement (0 w)": ("retry", _VALUES_KEPT),
    "DataReplacement (0 w) over Project (require v)": ("retry", _VALUES_KEPT),
    # Another kind of error for what cannot be committed either way.
    "Overwrite (plain) over UpdateMemWalState (A5)": ("incompatible", "the specification lists it as retryable"),
    "DataReplacement (0 v) over Update (0 whole)": ("incompatible", "the specification lists it as retryable"),
    "UpdateConfig (field w) over Project (drop w)": ("refused", "that others dropped the field is no bad input"),
    "UpdateBases (b1) over Overwrite (base b1)": ("refused", "that others added the path is a conflict, no bad input"),
    "Overwrite (base b1) over UpdateBases (b2)": ("refused", _ONLY_NEW),
    "Overwrite (base b1) over UpdateBases (b1 name)": ("refused", _ONLY_NEW),
}  # fmt: skip

ASKED = [one for one in SITUATIONS if cannot_be_asked(one) is None]


def test_every_difference_is_about_a_situation() -> None:
    assert DIFFERENCES.keys() <= {str(one) for one in ASKED}
    assert all(reason for _, reason in DIFFERENCES.values())
    assert len(ASKED) > 350


@pytest.mark.parametrize("situation", ASKED, ids=str)
def test_pylance_says(situation: Situation, workshop: Callable[[str], Workshop], tmp_path: Path) -> None:
    shop = workshop(situation.table)
    ours = shop.change(situation.operation, situation.ours)
    theirs = shop.change(situation.other, situation.theirs)
    path = shop.copy(tmp_path / "table")
    state = deepcopy(shop.state)
    commit_first(path, theirs, state)
    said = ask(situation, ours, shop, path, tmp_path / "alone")
    we_say = "ok" if situation.outcome == "rebase" else situation.outcome
    expected, _ = DIFFERENCES.get(str(situation), (we_say, ""))
    assert said == expected
    if said == we_say == "ok":
        ours.effect(state)
        assert rows_of(lance.dataset(path).to_table()) == state.rows


def test_the_design_note_lists_the_differences() -> None:
    note = (Path(__file__).parents[2] / "docs" / "design" / "005-conflicts.md").read_text()
    table = note.partition("<!-- differences -->\n")[2].partition("<!-- end -->")[0].splitlines()
    ours = {str(one): one.outcome for one in SITUATIONS}
    lines = [f"| {name} | {ours[name]} | {said} | {why} |" for name, (said, why) in DIFFERENCES.items()]
    assert table == ["| Situation | Seiche | pylance | Why |", "|---|---|---|---|", *lines]
