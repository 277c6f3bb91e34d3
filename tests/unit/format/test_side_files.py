"""Files beside the manifest: an unclear answer about one never reads as an unclear commit."""

from itertools import product

import pytest
from pyroaring import BitMap

from seiche.core.runtime import Runtime
from seiche.errors import AlreadyExists, CommitUnknown, Unavailable
from seiche.store.base import Data
from seiche.table.format.deletions import DeletionFiles
from seiche.table.format.manifest_pb2 import DataFragment
from seiche.table.format.side_files import put_new
from seiche.testing.dict_store import DictStore
from seiche.testing.simulated import Fault, SimulatedStore
from seiche.testing.volatile import VolatileStore

UNCLEAR: tuple[Fault, ...] = ("lost", "after", "late")
# What was certainly not done may be done the next time.
REFUSED: Fault = "before"


@pytest.mark.parametrize("faults", [*product((*UNCLEAR, REFUSED)), *product((*UNCLEAR, REFUSED), repeat=2)], ids=str)
def test_unclear_answers_and_refusals_are_settled_by_putting_again(faults: tuple[Fault, ...]) -> None:
    store = SimulatedStore(DictStore(), plan=dict(enumerate(faults, start=1)))
    files = DeletionFiles(store, Runtime.seeded(1))
    file = files.write(7, 3, BitMap([1, 2]))
    store.deliver()
    assert files.read(DataFragment(id=7, deletion_file=file)) == BitMap([1, 2])
    assert len(list(store.list("_deletions"))) == 1


def test_a_storage_that_never_says_is_unavailable() -> None:
    store = SimulatedStore(DictStore(), plan=dict.fromkeys(range(1, 100), "lost"))
    with pytest.raises(Unavailable):
        put_new(store, "a", b"x", Runtime.seeded(1))
    assert len(store.calls) == 5


def test_a_storage_that_always_refuses_is_unavailable_for_its_own_reason() -> None:
    store = SimulatedStore(DictStore(), plan=dict.fromkeys(range(1, 100), REFUSED))
    with pytest.raises(Unavailable) as refused:
        put_new(store, "a", b"x", Runtime.seeded(1))
    assert isinstance(refused.value.__cause__, Unavailable)
    assert refused.value.__cause__.message in refused.value.message
    assert len(store.calls) == 5


def test_a_name_that_was_taken_before_is_an_error() -> None:
    store = DictStore()
    store.put("a", b"theirs")
    with pytest.raises(AlreadyExists):
        put_new(store, "a", b"ours", Runtime.seeded(1))
    assert store.get("a") == b"theirs"


class Unclear(VolatileStore):
    """Gives files their names, and does not say whether these last."""

    def put_if_absent(self, path: str, data: Data, *, durable: bool = True) -> None:
        super().put_if_absent(path, data, durable=False)
        raise CommitUnknown("the names of the directory could not be flushed")


def test_a_file_that_stands_after_an_unclear_answer_lasts_before_a_manifest_names_it() -> None:
    store = Unclear()
    put_new(store, "a", b"x", Runtime.seeded(1))
    assert store.get("a") == b"x"
    assert not store.at_risk
