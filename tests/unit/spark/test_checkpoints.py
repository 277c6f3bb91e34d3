"""Which query a checkpoint belongs to, wherever it is."""

from pathlib import Path
from shutil import copytree, rmtree
from typing import Any

import pyarrow as pa
import pytest

import seiche
from seiche import InvalidInput, Unavailable
from seiche.spark.options import Options
from seiche.spark.stream import planned_at, query_of_checkpoint, sink
from seiche.spark.stream_sink import StreamWriter
from seiche.spark.types import spark_schema
from seiche.store import open_store
from seiche.store.memory import MemoryStore

NOTE = b'{"id": "7f0c"}'


def test_the_note_of_the_query_is_read_where_it_is(tmp_path: Path) -> None:
    local = tmp_path / "check points"
    assert query_of_checkpoint(str(local)) == str(local), "nothing is there yet"
    local.mkdir()
    (local / "metadata").write_bytes(NOTE)
    for address in (f"{local}", f"file:{local}", f"file://{local}"):
        assert query_of_checkpoint(address) == "7f0c"
    open_store("memory://checkpoints/one").put("metadata", NOTE)
    assert query_of_checkpoint("memory://checkpoints/one", {"durability": "os"}) == "7f0c"
    assert query_of_checkpoint("memory://checkpoints/two") == "memory://checkpoints/two"
    assert query_of_checkpoint("dbfs:/checkpoints") == "dbfs:/checkpoints"


@pytest.mark.parametrize("name", ["check%20points", "check#points", "check?points"])
def test_an_address_means_to_spark_what_is_written_there(tmp_path: Path, name: str) -> None:
    """Where the note was not found, a query that began anew without its checkpoint was taken for a repetition."""
    (tmp_path / name).mkdir()
    (tmp_path / name / "metadata").write_bytes(NOTE)
    escaped = name.replace("%", "%25").replace("#", "%23").replace("?", "%3F")
    open_store(f"memory://literally/{escaped}").put("metadata", NOTE)
    for address in (f"{tmp_path}/{name}", f"file:{tmp_path}/{name}", f"file://{tmp_path}/{name}"):
        assert query_of_checkpoint(address) == "7f0c"
    assert query_of_checkpoint(f"memory://literally/{name}") == "7f0c"


def test_when_a_batch_was_planned_is_in_the_checkpoint(tmp_path: Path) -> None:
    """By that it is told from another one of its number, which Spark plans if its checkpoint is put back."""
    (tmp_path / "offsets").mkdir()
    (tmp_path / "offsets" / "3").write_text('v1\n{"batchWatermarkMs":0,"batchTimestampMs":1794829157077,"conf":{}}\n0')
    assert planned_at(str(tmp_path), 3) == planned_at(tmp_path.as_uri(), 3) == "1794829157077"
    (tmp_path / "offsets" / "4").write_text("v9")
    assert planned_at(str(tmp_path), 4) is None, "notes of another kind"
    assert planned_at(str(tmp_path), 5) is planned_at("dbfs:/checkpoints", 3) is None


def test_a_lake_that_was_put_back_behind_a_stream_is_told(tmp_path: Path) -> None:
    """The batches that it had had since were missing in it, in silence: Spark takes them for done."""
    lake = seiche.create(str(tmp_path / "lake"), durability="os")
    lake.create_namespace("s")
    lake.create_table("s.t", pa.schema([("id", pa.int64())]))
    (tmp_path / "checkpoint").mkdir()
    (tmp_path / "checkpoint" / "metadata").write_bytes(NOTE)
    given = {"lake": lake.uri, "table": "s.t", "checkpointLocation": str(tmp_path / "checkpoint")}

    def batch(number: int, **options: str) -> None:
        columns = spark_schema(lake.table("s.t").schema)
        writer = StreamWriter(Options.of(given | options), columns, overwrite=False)
        rows = pa.RecordBatch.from_pydict({"id": [number]}, pa.schema([("id", pa.int64())]))
        writer.commit([writer.write(iter([rows]))] if number % 2 else [], number)

    for number in range(3):
        batch(number)
    copytree(tmp_path / "lake", tmp_path / "copy")
    for number in range(3, 6):
        batch(number)
    rmtree(tmp_path / "lake")
    (tmp_path / "copy").rename(tmp_path / "lake")
    with pytest.raises(InvalidInput, match="this is batch 6, and the last one that the lake has is batch 2"):
        batch(6)
    batch(3)
    batch(7, stream="another")
    assert seiche.open(lake.uri).table("s.t").to_arrow()["id"].to_pylist() == [1, 3, 7]


def test_a_place_that_does_not_answer_gives_no_other_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """Under that, batches that were committed would be committed again."""

    def silent(self: MemoryStore, path: str) -> bytes:
        raise Unavailable("no answer")

    monkeypatch.setattr(MemoryStore, "get", silent)
    with pytest.raises(Unavailable):
        query_of_checkpoint("memory://checkpoints/one")


@pytest.mark.parametrize(("lake", "load"), [("lake", print), (None, print), ("memory", None)])
def test_a_sink_without_a_lake_or_a_function(lake: Any, load: Any) -> None:
    given = seiche.create("memory://sinks") if lake == "memory" else lake
    with pytest.raises(InvalidInput, match="cannot be"):
        sink(given, load)
