"""What pylance says to a situation: the same first commit, and then it is pylance that commits the second."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
from lance import DatasetBasePath
from lance.optimize import Compaction

from seiche.table.operations import UpdateBases
from tests.interop.matrix_tables import Prepared, Workshop, open_table
from tests.unit.table.expected_matrix import Situation

__all__ = ["ask", "cannot_be_asked"]

_WHERE = {
    "0a": "id IN (0, 1)",
    "0a too": "id IN (1, 2)",
    "0b": "id IN (2, 3)",
    "0c": "id = 4",
    "0 rest": "id IN (2, 3, 4, 5)",
    "0 whole": "id < 6",
    "1a": "id = 6",
    "2a": "id = 12",
}
_COMPACTION: Any = {"target_rows_per_fragment": 1000}


def cannot_be_asked(situation: Situation) -> str | None:
    """Why pylance's Python face has no way to commit our side of the situation."""
    how = situation.ours.split()[0]
    match situation.operation:
        case "UpdateMemWalState":
            return "no class for the operation, and no call that commits it"
        case "Clone":
            return "cloning onto a table is an internal error there"
        case "Update" if how in {"exact", "bloom", "log"}:
            return "the class has neither a key filter nor merged generations; `insert` asks about filters"
        case "Rewrite" if situation.ours.endswith("led"):
            return "the class has no fragment-reuse index"
        case "Overwrite" if situation.ours == "config k":
            return "the class has no configuration"
    return None


def ask(situation: Situation, ours: Prepared, shop: Workshop, path: Path, alone: Path) -> str:
    """Commit our side over what is in `path`; `alone` is where a copy of the base table may be made.

    Deletes, updates and merges are run on a handle of the read version, as a user would: only then pylance knows the
    rows. Other operations are handed over as it reads them from a table where they were committed alone.
    """
    stale = lance.dataset(path, version=shop.version)
    name = situation.ours.removesuffix(" again")
    if situation.operation == "Delete" and name in _WHERE:
        return _outcome(lambda: stale.delete(_WHERE[name], conflict_retries=0))
    if situation.operation == "Update" and name in _WHERE:
        return _outcome(lambda: stale.update({"v": "v + 100"}, where=_WHERE[name], conflict_retries=0))
    if situation.operation == "Update" and name.startswith("insert"):
        merge = stale.merge_insert("id").when_not_matched_insert_all().conflict_retries(0)
        return _outcome(lambda: merge.execute(shop.rows([int(name.split()[1])])))
    if situation.operation == "ReserveFragments":
        return _outcome(lambda: _compact(stale))
    if isinstance(ours.operation, UpdateBases):
        bases = [DatasetBasePath(one.path, one.name, one.is_dataset_root, one.id) for one in ours.operation.new_bases]
        return _outcome(lambda: stale.add_bases(bases))
    open_table(shop.copy(alone)).commit(ours.operation)
    read = lance.dataset(alone).read_transaction(shop.version + 1)
    assert read is not None
    return _outcome(lambda: lance.LanceDataset.commit(path, read.operation, read_version=shop.version))


def _compact(stale: lance.LanceDataset) -> None:
    """A compaction commits a ReserveFragments, and then a Rewrite, of which the outcome does not matter here."""
    plan = Compaction.plan(stale, _COMPACTION)
    try:
        Compaction.commit(stale, [task.execute(stale) for task in plan.tasks], _COMPACTION)
    except OSError as error:
        if "ReserveFragments transaction" in str(error):
            raise


def _outcome(commit: Callable[[], object]) -> str:
    try:
        commit()
    except (OSError, ValueError) as error:
        text = str(error)
        if "Retryable commit conflict" in text or "Too many concurrent writers" in text:
            return "retry"
        if "Incompatible transaction" in text:
            return "incompatible"
        return "refused"
    return "ok"
