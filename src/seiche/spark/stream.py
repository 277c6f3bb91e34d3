"""Streams of Spark that end in a lake, exactly once over any number of tables.

    query = frame.writeStream.foreachBatch(sink(lake, load)).option("checkpointLocation", ...).start()

where `load(tx, batch)` does what it likes in the transaction. The number of the batch is committed in the lake's tree
together with the data. A batch that Spark runs again, because it stopped before it had written down that the batch was
done, finds its number there, and nothing happens a second time.
"""

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, cast
from urllib.parse import unquote, urlsplit

from seiche.errors import InvalidInput, NotFound
from seiche.lake.lake import Lake
from seiche.lake.streams import StreamClaim
from seiche.spark.transaction import SparkTransaction
from seiche.store import open_store

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["Load", "Sink", "query_of_checkpoint", "sink"]

# What Hadoop calls the same store.
_HADOOPS = re.compile(r"^s3[an]://")
# What a batch does to the lake, all of it in the transaction: it may be called again after a conflict.
Load: TypeAlias = "Callable[[SparkTransaction, DataFrame], object]"


def sink(lake: Lake, load: Load, *, stream: str | None = None, attempts: int = 10) -> "Sink":
    """What to give to `foreachBatch`: each batch is one transaction, committed once whatever happens.

    Without a name the stream is known by the id of the query, which stands in the checkpoint. With one, a second query
    under the same name, or the same one begun anew without its checkpoint, is refused rather than taken for a
    repetition.
    """
    return Sink(lake, load, stream, attempts)


class Sink:
    """Runs batches as transactions of the lake."""

    def __init__(self, lake: Lake, load: Load, stream: str | None, attempts: int) -> None:
        """Use `sink`."""
        self._lake = lake
        self._load = load
        self._stream = stream
        self._attempts = attempts

    def __call__(self, batch: "DataFrame", epoch: int) -> None:
        session = batch.sparkSession
        owner = _query(session)
        claim = StreamClaim(self._stream or f"spark:{owner}", epoch, owner)
        if claim.already_in(self._lake.state()) is not None:
            return  # the commit would find out as well, after all the work
        batch.persist()
        try:
            self._lake.run(
                lambda tx: self._load(cast(SparkTransaction, tx), batch),
                attempts=self._attempts,
                spark=session,
                stream=claim.stream,
                epoch=epoch,
                owner=owner,
            )
        finally:
            batch.unpersist()


def query_of_checkpoint(location: str, storage: Mapping[str, Any] | None = None) -> str:
    """The id of the query whose checkpoint this is; of a place that is not known here, the place itself.

    By the place alone a query that begins there anew, without what it knew, is taken for a repetition, and its rows
    are passed over. So the place is asked, with the options of the lake's storage; and no answer is an error, because
    a stream that goes by another name this time would not find what it has done.
    """
    parts = urlsplit(location)
    try:
        if parts.scheme in ("", "file"):
            text: str | bytes = Path(unquote(parts.path) if parts.scheme else location, "metadata").read_text()
        else:
            options = {name: value for name, value in (storage or {}).items() if name != "durability"}
            text = open_store(_HADOOPS.sub("s3://", location), **options).get("metadata")
        return str(json.loads(text)["id"])
    except (InvalidInput, NotFound, FileNotFoundError):
        return location


def _query(session: "SparkSession") -> str:
    found = session.sparkContext.getLocalProperty("sql.streaming.queryId")
    if not found:
        raise InvalidInput(
            "the sink was called outside of a streaming query", remedy="Give it to `writeStream.foreachBatch`."
        )
    return str(found)
