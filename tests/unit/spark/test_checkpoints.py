"""Which query a checkpoint belongs to, wherever it is."""

from pathlib import Path

import pytest

from seiche import Unavailable
from seiche.spark.stream import query_of_checkpoint
from seiche.store import open_store
from seiche.store.memory import MemoryStore

NOTE = b'{"id": "7f0c"}'


def test_the_note_of_the_query_is_read_where_it_is(tmp_path: Path) -> None:
    local = tmp_path / "check points"
    assert query_of_checkpoint(str(local)) == str(local), "nothing is there yet"
    local.mkdir()
    (local / "metadata").write_bytes(NOTE)
    assert query_of_checkpoint(str(local)) == query_of_checkpoint(local.as_uri()) == "7f0c"
    open_store("memory://checkpoints/one").put("metadata", NOTE)
    assert query_of_checkpoint("memory://checkpoints/one", {"durability": "os"}) == "7f0c"
    assert query_of_checkpoint("memory://checkpoints/two") == "memory://checkpoints/two"
    assert query_of_checkpoint("dbfs:/checkpoints") == "dbfs:/checkpoints"


def test_a_place_that_does_not_answer_gives_no_other_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """Under that, batches that were committed would be committed again."""

    def silent(self: MemoryStore, path: str) -> bytes:
        raise Unavailable("no answer")

    monkeypatch.setattr(MemoryStore, "get", silent)
    with pytest.raises(Unavailable):
        query_of_checkpoint("memory://checkpoints/one")
