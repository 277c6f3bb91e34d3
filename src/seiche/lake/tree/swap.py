"""The one compare-and-swap on which a lake rests: putting the next root if nobody else has."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from operator import lt
from typing import Final

from seiche.core.retry import Patience
from seiche.core.runtime import SYSTEM, Runtime
from seiche.errors import AlreadyExists, CommitUnknown, Corrupt, InvalidInput, NotFound, SeicheError, Unavailable
from seiche.lake.tree import search
from seiche.lake.tree.latest import stored_root
from seiche.lake.tree.nodes import Nodes
from seiche.lake.tree.root import Root
from seiche.store.base import Data, Store
from seiche.store.files import joined

__all__ = ["SETTLING", "Lost", "Won", "asking", "check", "publish", "stage"]

SETTLING: Final = Patience(attempts=8, timeout=30.0, first_delay=0.05, longest_delay=2.0)


@dataclass(frozen=True, slots=True)
class Won:
    """The root is durable under its name: everything that it names has happened."""

    root: Root


@dataclass(frozen=True, slots=True)
class Lost:
    """Another root has the name, for ever; of the one that was to be published nothing is visible.

    `winner` may still have decided the same transaction, if two writers were finishing it: look for its id there first.
    """

    winner: Root


def publish(
    store: Store,
    root: Root,
    base: Root | None,
    *,
    order: int,
    nodes: Nodes | None = None,
    absent: Collection[bytes] = (),
    flush: Sequence[str] = (),
    patience: Patience = SETTLING,
    runtime: Runtime = SYSTEM,
) -> Won | Lost:
    """Put `root` as the successor of `base`, and say for certain whether it is the one that stands there now.

    All files that it names must be written before. Those to `flush` may not last yet: they do before the root has its
    name; `NotFound` if one is missing, and nothing was put. `absent` are keys that must not be in `base`: the keys of
    its own transactions, so that none is applied twice. Raises `CommitUnknown` with the transaction ids if the store
    would not say what became of the put; `Unavailable` if it certainly did nothing.

    After a put without an answer only a *different* root under the name means that it failed. If nothing is there, the
    put may still be on its way: the same bytes are put again, which cannot do harm.
    """
    check(root, base)
    for key in absent:
        if base is not None and search.get(base.node, key, nodes or Nodes(store)) is not None:
            raise AlreadyExists(
                f"{key.decode(errors='replace')} is already decided in version {root.version - 1}",
                remedy="Nothing was written. Ask for the outcome of that transaction instead of running it again.",
                key=key,
            )
    data = root.encode(order)
    doubt: CommitUnknown | None = None
    failure: SeicheError | None = None
    for _ in patience.tries(runtime):
        try:
            store.put_last(root.name, data, flush)
            return Won(root)
        except AlreadyExists:
            pass
        except CommitUnknown as error:
            doubt = error
        except Unavailable as error:
            failure = error
            continue
        except SeicheError as error:
            failure = error
            break
        try:
            return _standing(store, root)
        except (NotFound, Unavailable) as error:
            failure = Unavailable(error.message)
        except SeicheError as error:
            failure = error
            break
    if doubt is None and failure is not None and not isinstance(failure, Unavailable):
        raise failure  # a file is missing, the store refused, or damage is in the way; no earlier put slipped through
    raise _undecided(root, doubt, failure)


def _standing(store: Store, root: Root) -> Won | Lost:
    """What stands under the name of a root; if it is that very root it lasts, which the lost answer may have been
    about.
    """
    found = stored_root(store, root.version)
    if found.root_id != root.root_id:
        return Lost(found)
    try:
        store.flush([root.name])
    except SeicheError as error:
        raise Unavailable(f"{root.name} stands, and may not last: {error.message}", path=root.name) from error
    return Won(root)


def stage(
    store: Store,
    files: Mapping[str, Data],
    *,
    lasting: bool = True,
    patience: Patience = SETTLING,
    runtime: Runtime = SYSTEM,
) -> None:
    """Write the files that a root will name. After this returns they are durable and whole; else nothing was decided.

    Unless they need not be `lasting` yet, because `publish` is told to flush them: it is the disk that takes the time.
    Until then one may be torn by a power failure, which harms nobody, since nothing names it. Their names are fresh, so
    a name that is taken after a put without an answer is taken by that put: it is compared.
    """
    missing = dict(files)
    failure: SeicheError | None = None
    for attempt in patience.tries(runtime):
        if attempt > 1:
            missing = {path: data for path, data in missing.items() if not _stands(store, path, data)}
        try:
            store.put_many(missing, durable=False)
            if lasting:
                # All of them, also those that an earlier attempt has left: nobody has flushed them yet.
                store.flush(files)
            return
        except (AlreadyExists, CommitUnknown, Unavailable) as error:
            failure = error
    said = failure.message if failure else "no attempt was allowed"
    raise Unavailable(f"the files of a commit could not be written: {said}", remedy=_remedy(failure)) from failure


def _stands(store: Store, path: str, data: Data) -> bool:
    try:
        found = store.get(path)
    except (NotFound, Unavailable):
        return False
    if found != joined(data):
        raise Corrupt(
            f"{path} was just written and holds something else",
            remedy="This store does not write whole files, or something else writes into the lake: do not use it.",
            path=path,
        )
    return True


def check(root: Root, base: Root | None) -> None:
    """Refuse a root that must not reach storage: whatever is wrong with it here is a defect of the caller."""
    node = root.node
    before = (-1, -1, 0, 0) if base is None else _counters(base)
    version, created, min_base, effective = before
    late = [record.id for record in root.transactions if record.base_version > max(0, version)]
    problems = {
        "its version does not follow its base": root.version != version + 1,
        "its time does not follow its base's": root.created_at_millis <= created,
        "min_base falls": root.min_base < min_base,
        "min_base is ahead of the version": root.min_base > root.version,
        "the timeline goes back": (root.prev_eff_micros or 0) < effective,
        "the timeline is missing": base is not None and root.prev_eff_micros is None,
        "its keys are not sorted": not all(map(lt, node.keys, node.keys[1:])),
        "its children do not fit its keys": len(node.children) != (len(node.keys) + 1 if node.level else 0),
        "a transaction began after its base": bool(late),
        "a transaction is in it twice": len(root.ids) != len(root.transactions),
        "a transaction of its base is in it again": base is not None and not root.ids.isdisjoint(base.ids),
        "it is a tombstone": root.expired_at_millis is not None,
    }
    broken = [problem for problem, found in problems.items() if found]
    if broken:
        raise InvalidInput(
            f"root {root.version} was not published: {', '.join(broken)}",
            remedy="Nothing was written. This is a defect in the code that built the root.",
            version=root.version,
        )


def _counters(base: Root) -> tuple[int, int, int, int]:
    return base.version, base.created_at_millis, base.min_base, base.prev_eff_micros or 0


def _undecided(root: Root, doubt: CommitUnknown | None, failure: SeicheError | None) -> SeicheError:
    ids = sorted(root.ids)
    if doubt is not None:
        unknown = CommitUnknown(
            f"the store did not say whether version {root.version} was written: {doubt.message}",
            remedy=asking(ids),
            version=root.version,
            transactions=ids,
            path=root.name,
            **({"transaction_id": ids[0]} if len(ids) == 1 else {}),
        )
        unknown.__cause__ = doubt
        return unknown
    reason = failure.message if failure else "no attempt was allowed"
    unavailable = Unavailable(
        f"version {root.version} could not be written: {reason}",
        remedy=_remedy(failure),
        version=root.version,
        transactions=ids,
        path=root.name,
    )
    unavailable.__cause__ = failure
    return unavailable


def asking(ids: Sequence[str]) -> str:
    """What to do about transactions that may have happened. One is named: a command shows nothing but this text."""
    if len(ids) != 1:
        return "Ask for the status of the transactions in this error before running them again."
    return f"Ask `lake.status({ids[0]!r})` before doing it again; `lake.settle` makes the answer final."


def _remedy(failure: SeicheError | None) -> str:
    """The advice of a storage that gave no answer or is full; advice about names would not fit a root."""
    return failure.remedy if isinstance(failure, Unavailable) else ""
