"""Which fragments to compact together: found out from the manifest alone."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from seiche.core.given import wrong
from seiche.errors import InvalidInput
from seiche.table.data.index.reach import Reach
from seiche.table.format.deletions import is_counted, rows_left
from seiche.table.format.manifest import Manifest
from seiche.table.format.manifest_pb2 import DataFragment

__all__ = ["Mode", "Options", "groups"]

Mode: TypeAlias = Literal["reencode", "try_binary_copy", "force_binary_copy"]
_MODES = ("reencode", "try_binary_copy", "force_binary_copy")


@dataclass(frozen=True, slots=True)
class Options:
    """What a compaction aims at. Named as pylance names them."""

    # A fragment with fewer rows is put together with its neighbours.
    target_rows_per_fragment: int = 1 << 20
    max_bytes_per_file: int | None = None
    # Whether a fragment of which more than this share is deleted is written anew, even if it is alone.
    materialize_deletions: bool = True
    materialize_deletions_threshold: float = 0.1
    batch_size: int | None = None
    compaction_mode: Mode = "reencode"

    def __post_init__(self) -> None:
        for name in ("target_rows_per_fragment", "max_bytes_per_file", "batch_size"):
            value = getattr(self, name)
            optional = value is None and name != "target_rows_per_fragment"
            if not optional and (not isinstance(value, int) or isinstance(value, bool) or value < 1):
                raise InvalidInput(
                    f"{name} must be a whole number from 1 on, not {value!r}",
                    remedy=f"Leave it out for the usual one, or give one, as in `compact({name}=100_000)`.",
                )
        wanted: object = self.materialize_deletions
        if not isinstance(wanted, bool):
            remedy = "Say True, or False to leave fragments alone that are large enough, whatever is deleted of them."
            raise wrong("materialize_deletions", wanted, remedy)
        share: object = self.materialize_deletions_threshold
        if not isinstance(share, int | float) or not 0 <= share <= 1:
            raise InvalidInput(
                f"materialize_deletions_threshold must be a share from 0 to 1, not {share!r}",
                remedy="0.25 writes fragments anew of which more than a quarter is deleted.",
            )
        if self.compaction_mode not in _MODES:
            raise InvalidInput(
                f"the compaction mode {self.compaction_mode!r} is unknown", remedy=f"Use one of {', '.join(_MODES)}."
            )


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A fragment that could be better: because it is small, or because much of it is deleted."""

    fragment: DataFragment
    rows: int
    alone: bool
    # The index segments that speak of its rows.
    covered_by: frozenset[bytes]


def groups(manifest: Manifest, reach: Reach, options: Options) -> list[tuple[DataFragment, ...]]:
    """Fragments to be written together, group by group; none if the table is as it should be.

    A group is a run of neighbours, so that the order of rows stays, and no index covers only a part of it.
    """
    found: list[Sequence[_Candidate]] = []
    for run in _runs(_judged(manifest, reach, options)):
        if len(run) > 1 or run[0].alone:
            found += _split(run, options.target_rows_per_fragment)
    return [tuple(one.fragment for one in group) for group in found]


def _judged(manifest: Manifest, reach: Reach, options: Options) -> Iterator[_Candidate | None]:
    """Each fragment, or `None` in the place of one that is fine: it parts its neighbours."""
    for fragment in manifest.fragments:
        if not is_counted(fragment):
            yield None  # how many rows it has is not said: leave it alone
            continue
        deleted = fragment.deletion_file.num_deleted_rows
        alone = options.materialize_deletions and (
            deleted / fragment.physical_rows > options.materialize_deletions_threshold
        )
        if alone or fragment.physical_rows < options.target_rows_per_fragment:
            yield _Candidate(fragment, rows_left(fragment), alone, reach.segments_over(fragment.id))
        else:
            yield None


def _runs(judged: Iterable[_Candidate | None]) -> Iterator[list[_Candidate]]:
    """Neighbours of which all are candidates and which the same indices cover."""
    run: list[_Candidate] = []
    for one in judged:
        if run and (one is None or one.covered_by != run[0].covered_by):
            yield run
            run = []
        if one is not None:
            run.append(one)
    if run:
        yield run


def _split(run: Sequence[_Candidate], target: int) -> Iterator[Sequence[_Candidate]]:
    """Parts with enough rows for a fragment each. What is left at the end goes with the last part."""
    start = rows = 0
    left = sum(one.rows for one in run)
    for end, one in enumerate(run, 1):
        rows += one.rows
        left -= one.rows
        if rows >= target and left >= target:
            yield run[start:end]
            start, rows = end, 0
    yield run[start:]
