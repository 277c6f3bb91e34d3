"""Streams of Spark that end in a lake, exactly once over any number of tables.

    query = frame.writeStream.foreachBatch(sink(lake, load)).option("checkpointLocation", ...).start()

where `load(tx, batch)` does what it likes in the transaction. The number of the batch is committed in the lake's tree
together with the data. A batch that Spark runs again, because it stopped before it had written down that the batch was
done, finds its number there, and nothing happens a second time.

A number alone does not say so: a checkpoint that was put back to an earlier state has the same numbers again for other
rows. So the time at which Spark planned the batch is committed too. Spark notes it before it runs the batch, and does
not plan one twice that it knows of.
"""

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast
from urllib.parse import urlsplit

from seiche.core.given import text, wrong
from seiche.core.retry import Patience
from seiche.errors import InvalidInput, NotFound
from seiche.lake.history.log import history
from seiche.lake.lake import Lake
from seiche.lake.objects.rows import StreamRow
from seiche.lake.streams import StreamClaim
from seiche.spark.transaction import SparkTransaction
from seiche.store import open_store
from seiche.table.given import patience

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["PLANNED", "Load", "Sink", "check_stream", "is_repetition", "planned_at", "query_of_checkpoint", "sink"]

# The property of a transaction that says when Spark planned the batch: milliseconds, in its notes as below.
PLANNED = "spark.planned"
_NOTED = re.compile(r'"batchTimestampMs":\s*(\d+)')

# What Hadoop calls the same store.
_HADOOPS = re.compile(r"^s3[an]://")
# What stands before the path in the address of a local folder; what means something else in addresses of stores.
_HOST = re.compile(r"^//[^/]*/")
_ESCAPED = {"%": "%25", "#": "%23", "?": "%3F"}
# What a batch does to the lake, all of it in the transaction: it may be called again after a conflict.
Load: TypeAlias = "Callable[[SparkTransaction, DataFrame], object]"


def sink(lake: Lake, load: Load, *, stream: str | None = None, attempts: int = 10) -> "Sink":
    """What to give to `foreachBatch`: each batch is one transaction, committed once whatever happens.

    Without a name the stream is known by the id of the query, which stands in the checkpoint. With one, a second query
    under the same name, or the same one begun anew without its checkpoint, is refused rather than taken for a
    repetition.
    """
    if not isinstance(lake, Lake):
        raise wrong("the lake of a sink", lake, "Give what `seiche.open` or `seiche.connect` returned.")
    if not callable(load):
        raise wrong("what a sink does", load, "Give a function of a transaction and a data frame.")
    if stream is not None:
        check_stream(stream)
    patience(Patience(), attempts, None)
    return Sink(lake, load, stream, attempts)


def check_stream(name: str) -> None:
    """Raise if this is no name of a stream. An empty one is one that somebody forgot to fill in."""
    if not text(name, "the name of a stream").strip():
        raise InvalidInput("the name of the stream is empty", remedy="Give `stream` a name, or leave it out.")


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
        planned, run = _running(session, owner)
        if is_repetition(self._lake, claim, planned):
            self._note_done(claim, run)
            return  # the commit would find out as well, after all the work
        batch.persist()
        try:
            _, version = self._lake.run_versioned(
                lambda tx: self._load(cast(SparkTransaction, tx), batch),
                attempts=self._attempts,
                spark=session,
                stream=claim.stream,
                epoch=epoch,
                owner=owner,
                properties={PLANNED: planned} if planned else None,
            )
        finally:
            batch.unpersist()
        if not version:
            # Spark would take the batch for done and never give it again.
            raise InvalidInput(
                f"stream {claim.stream!r}: the function of the sink rolled its transaction back, and batch {epoch} is"
                " not committed",
                remedy="Nothing was written. Raise an error to stop the query, which then gets this batch again; to"
                " pass over a batch, return without a change.",
                stream=claim.stream,
                epoch=epoch,
            )
        self._note_done(claim, run)

    def _note_done(self, claim: StreamClaim, run: str | None) -> None:
        """Raise if another sink has done this batch in this run of the query.

        A run gives each batch once, so that was no repetition: to pass over this one loses what it does.
        """
        key = self._lake.uri, claim.stream
        latest = _LATEST.get(key)
        if run is None or latest is None or latest[:2] != (run, claim.epoch):
            _LATEST[key] = run, claim.epoch, self
        elif latest[2] is not self:
            raise InvalidInput(
                f"stream {claim.stream!r}: another sink of the same query has done batch {claim.epoch}, and what this"
                " one does is not done",
                remedy="Do all of it in one sink, which is one transaction; or give each sink a `stream=` of its own.",
                stream=claim.stream,
                epoch=claim.epoch,
            )


# The run, the batch and the sink that was last done with one, of each stream into each lake. A run is of one process.
_LATEST: Final[dict[tuple[str, str], tuple[str | None, int, Sink]]] = {}


def is_repetition(lake: Lake, claim: StreamClaim, planned: str | None) -> bool:
    """Whether this very batch has been committed. Raises if another one of its number has, or one after it: Spark runs
    only the last one again, so its checkpoint is an older one, and what it gives would be lost if it were passed over.
    """
    last = claim.already_in(lake.state())
    if last is None:
        return False
    noted = _noted(lake, last)
    if claim.epoch < last.epoch or (planned and noted and planned != noted):
        raise InvalidInput(
            f"stream {claim.stream!r}: batch {claim.epoch} is planned anew, but version {last.version} of the lake has"
            f" batch {last.epoch} already: the checkpoint was put back to an earlier state",
            remedy="Nothing was written. Bring the newest checkpoint back; or start with an empty one, under another"
            " stream name if it has one, behind what the lake has.",
            stream=claim.stream,
            epoch=last.epoch,
            version=last.version,
        )
    return True


def _noted(lake: Lake, last: StreamRow) -> str | None:
    """When the last batch was planned, if that was noted and is still known."""
    for entry in history(lake.states, last.version, limit=1):
        for one in entry.transactions:
            if one.id == last.transaction:
                return one.properties.get(PLANNED)
    return None


def query_of_checkpoint(location: str, storage: Mapping[str, Any] | None = None) -> str:
    """The id of the query whose checkpoint this is; of a place that is not known here, the place itself.

    By the place alone a query that begins there anew, without what it knew, is taken for a repetition, and its rows
    are passed over. So the place is asked, with the options of the lake's storage; and no answer is an error, because
    a stream that goes by another name this time would not find what it has done.
    """
    try:
        return str(json.loads(_note(location, "metadata", storage))["id"])
    except (InvalidInput, NotFound, FileNotFoundError):
        return location


def planned_at(location: str, epoch: int, storage: Mapping[str, Any] | None = None) -> str | None:
    """When the batch was planned, by the checkpoint; `None` at a place that is not known here."""
    try:
        found = _NOTED.search(_note(location, f"offsets/{epoch}", storage))
    except (InvalidInput, NotFound, FileNotFoundError):
        return None
    return None if found is None else found[1]


def _note(location: str, path: str, storage: Mapping[str, Any] | None) -> str:
    """A file of a checkpoint. Of an address Spark takes every character for itself: one that has %20 in it is that of a
    folder that is called so.
    """
    scheme = urlsplit(location).scheme
    if scheme in ("", "file"):
        return Path(_HOST.sub("/", location.removeprefix("file:")) if scheme else location, path).read_text()
    options = {name: value for name, value in (storage or {}).items() if name != "durability"}
    address = "".join(_ESCAPED.get(one, one) for one in location)
    return open_store(_HADOOPS.sub("s3://", address), **options).get(path).decode()


def _running(session: "SparkSession", query: str) -> tuple[str | None, str | None]:
    """When the batch that runs now was planned, and in which run of the query: Spark tells a function that it calls
    for a batch nothing of it, nor where the checkpoint is, so its running query is asked.
    """
    from py4j.protocol import Py4JError

    try:
        running = cast(Any, session)._jsparkSession.sharedState().activeStreamingQueries()
        found = running.get(cast(Any, session)._jvm.java.util.UUID.fromString(query))
        return str(found.lastExecution().offsetSeqMetadata().batchTimestampMs()), str(found.runId().toString())
    except (AttributeError, Py4JError):
        return None, None


def _query(session: "SparkSession") -> str:
    context = getattr(session, "sparkContext", None)
    if context is None:
        raise InvalidInput(
            "Spark Connect does not say which query a batch is of, so a batch that is repeated cannot be told from one"
            " that is not",
            remedy="Nothing was written. Start the query in a classic session; for one table,"
            " writeStream.format('seiche') works through Connect too.",
        )
    found = context.getLocalProperty("sql.streaming.queryId")
    if not found:
        raise InvalidInput(
            "the sink was called outside of a streaming query", remedy="Give it to `writeStream.foreachBatch`."
        )
    return str(found)
