"""The parts of a pylance dataset that act on it: merges, the optimizer, tags and branches."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NoReturn

import lance
from lance.dataset import Branches, DatasetOptimizer, MergeInsertBuilder, Tags

from seiche.errors import InvalidInput

if TYPE_CHECKING:
    from seiche.lake.engines.lance_dataset import LakeDataset, ManagedDataset

__all__ = ["Compacted", "LakeOptimizer", "Merging", "ReadOnlyBranches", "ReadOnlyTags", "TransactionOptimizer"]

_CLEANUP = "`lake.expire` and `lake.gc` clean up: versions of the lake need those of its tables."
_TAGS = "`lake.tag` names a version of the whole lake, and keeps it."
_BRANCHES = "Tables of a lake have no branches."


class Merging:
    """A merge that is being described, as with pylance's own builder; `execute` runs it as one statement.

    What is said about it is kept and said to a builder of pylance's when it is run: there may have to be several.
    """

    def __init__(self, dataset: "ManagedDataset", on: str | Iterable[str] | None) -> None:
        self._dataset = dataset
        self._on = on
        self._said: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = []
        self._builder(dataset)  # refuses columns that there are not

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or not callable(getattr(MergeInsertBuilder, name, None)):
            raise AttributeError(f"a merge has no {name!r}")

        def say(*args: Any, **options: Any) -> Merging:
            # At once to one that will not be used: what cannot be right is refused where it is said.
            self._said.append((name, args, options))
            try:
                self._builder(self._dataset)
            except BaseException:
                self._said.pop()
                raise
            return self

        return say

    def execute(self, data_obj: Any, *, schema: Any = None) -> Any:
        """Merge the rows; returns how many were inserted, updated and deleted."""
        from seiche.lake.engines.lance_dataset import is_repeatable

        return self._dataset._execute(
            "merge_insert",
            lambda dataset: self._builder(dataset).execute(data_obj, schema=schema),
            repeatable=is_repeatable(data_obj),
        )

    def execute_uncommitted(self, data_obj: Any, *, schema: Any = None) -> Any:
        """Write the rows and return the transaction that would bring them in, for `LanceDataset.commit`."""
        return self._builder(self._dataset).execute_uncommitted(data_obj, schema=schema)

    def explain_plan(self, schema: Any = None, verbose: bool = False) -> str:
        """How it would be done."""
        return str(self._builder(self._dataset).explain_plan(schema, verbose=verbose))

    def analyze_plan(self, data_obj: Any, *, schema: Any = None) -> str:
        """How it is done, tried without a commit."""
        return str(self._builder(self._dataset).analyze_plan(data_obj, schema=schema))

    def _builder(self, dataset: "ManagedDataset") -> MergeInsertBuilder:
        builder = lance.LanceDataset.merge_insert(dataset, self._on)
        for name, args, options in self._said:
            getattr(builder, name)(*args, **options)
        return builder


@dataclass(frozen=True, slots=True)
class Compacted:
    """What a compaction did, by the names that pylance has for it."""

    fragments_removed: int
    fragments_added: int
    files_removed: int
    files_added: int


class _Optimizer(DatasetOptimizer):
    def __init__(self, dataset: "ManagedDataset") -> None:
        super().__init__(dataset)
        self._managed = dataset

    def optimize_indices(self, **options: Any) -> None:
        self._managed._execute("optimize_indices", lambda inside: inside._ds.optimize_indices(**options))

    def enable_auto_cleanup(self, auto_cleanup_config: Any, **options: Any) -> NoReturn:
        raise InvalidInput("`enable_auto_cleanup` is not for tables of a lake", remedy=_CLEANUP)

    def disable_auto_cleanup(self, **options: Any) -> NoReturn:
        raise InvalidInput(
            "`disable_auto_cleanup` is not for tables of a lake",
            remedy="Remove the settings with `update_config` of the lake's own table.",
        )


class TransactionOptimizer(_Optimizer):
    """Without compaction, which takes pylance two commits of which the second has to find the first in public."""

    def compact_files(self, **options: Any) -> NoReturn:
        raise InvalidInput(
            "`compact_files` cannot be run inside a transaction", remedy="Use `tx.table(name).compact()`."
        )


class LakeOptimizer(_Optimizer):
    """Compaction is planned and committed by the lake; the files are written natively all the same."""

    _managed: "LakeDataset"

    # What pylance calls an option, and what the lake's compaction does.
    _NAMES: Final[Mapping[str, str]] = {
        "target_rows_per_fragment": "target_rows_per_fragment",
        "max_bytes_per_file": "max_bytes_per_file",
        "materialize_deletions": "materialize_deletions",
        "materialize_deletions_threshold": "materialize_deletions_threshold",
        "batch_size": "batch_size",
        "compaction_mode": "compaction_mode",
        "num_threads": "parallel",
    }

    def compact_files(self, **options: Any) -> Any:
        """Put small fragments together; returns how many fragments and files went and came."""
        given = {name: value for name, value in options.items() if value is not None}
        deferred = given.pop("defer_index_remap", False)
        unknown = given.keys() - self._NAMES.keys()
        if unknown:
            raise InvalidInput(
                f"`compact_files` cannot be told {', '.join(sorted(unknown))} for a table of a lake",
                remedy="Use `lake.table(name).compact()`.",
            )
        wanted = {self._NAMES[name]: value for name, value in given.items()}
        before = _files(self._managed)
        self._managed.compact({**wanted, "index": "reuse" if deferred else "remap"})
        after = _files(self._managed)
        gone, come = before.keys() - after.keys(), after.keys() - before.keys()
        return Compacted(len(gone), len(come), sum(before[one] for one in gone), sum(after[one] for one in come))


def _files(dataset: lance.LanceDataset) -> dict[int, int]:
    """How many data files each fragment has."""
    return {one.fragment_id: len(one.data_files()) for one in dataset.get_fragments()}


class ReadOnlyTags(Tags):
    """Tags can be looked at. Making one would pin nothing: the lake cleans up by its own tags."""

    def create(self, *args: Any, **options: Any) -> NoReturn:
        _refuse("tags.create", _TAGS)

    def delete(self, *args: Any, **options: Any) -> NoReturn:
        _refuse("tags.delete", _TAGS)

    def update(self, *args: Any, **options: Any) -> NoReturn:
        _refuse("tags.update", _TAGS)

    def replace_metadata(self, *args: Any, **options: Any) -> NoReturn:
        _refuse("tags.replace_metadata", _TAGS)


class ReadOnlyBranches(Branches):
    """There are none."""

    def delete(self, *args: Any, **options: Any) -> NoReturn:
        _refuse("branches.delete", _BRANCHES)

    def replace_metadata(self, *args: Any, **options: Any) -> NoReturn:
        _refuse("branches.replace_metadata", _BRANCHES)


def _refuse(what: str, remedy: str) -> NoReturn:
    raise InvalidInput(f"`{what}` is not for tables of a lake", remedy=remedy)
