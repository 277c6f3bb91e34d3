"""Reading the sources of a run, and noting how far they were read."""

from pathlib import Path
from typing import TYPE_CHECKING

from seiche.errors import InvalidInput, SeicheError
from seiche.spark.pipeline.arrivals import arrived
from seiche.spark.pipeline.definition import Source
from seiche.spark.pipeline.frames import short
from seiche.spark.pipeline.records import Offsets

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from seiche.spark.transaction import SparkTransaction

__all__ = ["path_of", "read_source"]


def path_of(source: Source, folder: str) -> str:
    """The path of a source, from the folder of the pipeline on; empty if it has none."""
    if not source.path or "://" in source.path or not folder:
        return source.path
    return str(Path(folder) / source.path)


def read_source(source: Source, tx: "SparkTransaction", offsets: Offsets, folder: str) -> "DataFrame":
    """The rows of a source. What is new in it is noted in the transaction, so that it counts only if that commits."""
    try:
        if source.make is not None:
            return source.make(tx.session)
        if source.table:
            return _new_rows(source, tx, offsets) if source.new else tx.read(source.table)
        path = path_of(source, folder)
        return _new_files(source, tx.session, offsets, path) if source.new else _reader(source, tx.session, path)
    except SeicheError:
        raise
    except Exception as error:
        raise InvalidInput(
            f"{source.place}: source {source.name} cannot be read: {short(error)}",
            remedy="Correct its `format`, `path`, `options` and `schema`.",
        ) from error


def _reader(source: Source, session: "SparkSession", path: str) -> "DataFrame":
    reader = session.read.format(source.format).options(**source.options)
    if source.schema:
        reader = reader.schema(source.schema)
    return reader.load(path) if path else reader.load()


def _new_files(source: Source, session: "SparkSession", offsets: Offsets, path: str) -> "DataFrame":
    """Only files that no published run has read. A file is known by its name: what was read is not read again."""
    everything = _reader(source, session, path)
    place = _file_path(source, everything)
    files = everything.inputFiles()
    seen = offsets.seen(source.name)
    new = sorted(file for file in files if file not in seen)
    offsets.note(source.name, dict.fromkeys(new, ""))
    if len(new) == len(files):
        return everything
    if not new:
        return session.createDataFrame([], everything.schema)
    # Chosen from all: by themselves, files know nothing of their folders, and Spark takes their names for patterns.
    # It writes the names of local files with three slashes here, and there with one.
    return everything.filter(place.isin([*new, *(file.replace(":///", ":/", 1) for file in new)]))


def _file_path(source: Source, everything: "DataFrame") -> "Column":
    """The column that says which file a row is from; of a source without files, nothing is known to be new."""
    from pyspark.errors import AnalysisException

    try:
        found = everything.metadataColumn("_metadata").getField("file_path")
        everything.select(found)
    except AnalysisException as error:
        raise InvalidInput(
            f"{source.place}: source {source.name}: what is new is known by the files, and {source.format} has no files"
            " of its own",
            remedy="Leave out `new`, and choose what is new in the query.",
        ) from error
    return found


def _new_rows(source: Source, tx: "SparkTransaction", offsets: Offsets) -> "DataFrame":
    """Rows that were inserted or updated in a table since the last published run; deleted ones leave no trace here."""
    handle = tx.table(source.table)
    tx.note_read(handle.id)
    row = tx.edit(handle.id).row
    seen = int(offsets.seen(source.name).get(row.id, "0"))
    offsets.note(source.name, {row.id: str(row.table_version)})
    return arrived(tx, handle, seen)
