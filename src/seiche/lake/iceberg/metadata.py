"""Metadata files of Iceberg tables: reading, writing, naming."""

import gzip
import json
import re
import warnings
from collections import OrderedDict
from collections.abc import Mapping
from functools import lru_cache
from threading import Lock
from typing import Any, Final, TypeAlias
from weakref import WeakKeyDictionary

from pydantic import ValidationError
from pydantic_core import PydanticSerializationError
from pyiceberg.exceptions import ValidationError as IcebergValidationError
from pyiceberg.table.metadata import TableMetadataUtil, TableMetadataV1, TableMetadataV2, TableMetadataV3
from pyiceberg.table.snapshots import MetadataLogEntry
from pyiceberg.typedef import IcebergBaseModel

from seiche.core.runtime import Runtime
from seiche.errors import Corrupt, InvalidInput, NotFound
from seiche.lake.manifest_cache import ManifestCache
from seiche.lake.objects.rows import TableRow
from seiche.lake.state import State
from seiche.store.base import Store

__all__ = [
    "Metadata",
    "decode",
    "encode",
    "is_packed",
    "json_of",
    "last_number",
    "load",
    "new_path",
    "read",
    "remember",
    "text_of",
]

Metadata: TypeAlias = TableMetadataV1 | TableMetadataV2 | TableMetadataV3

_HELD: Final = 64
_LONG_LOG: Final = 8
_NUMBER: Final = re.compile(r"(\d+)-")

# By the cache of manifests that belongs to a lake's handle: files never change, but two lakes may have files of the
# same names, as an export has.
_caches: WeakKeyDictionary[ManifestCache, OrderedDict[str, tuple[Metadata, bytes]]] = WeakKeyDictionary()
# Logs of earlier files by the last of them, as they were spelled.
_logs: OrderedDict[str, tuple[tuple[MetadataLogEntry, ...], bytes]] = OrderedDict()
_lock = Lock()


def load(state: State, row: TableRow) -> Metadata:
    """The metadata of an Iceberg table as a row of the lake names it."""
    return _held(state, row)[0]


def text_of(state: State, row: TableRow) -> bytes:
    """The same as JSON: word for word what stands in the file, if it was written here."""
    metadata, data = _held(state, row)
    return data or json_of(metadata)


def remember(state: State, path: str, metadata: Metadata, data: bytes = b"") -> None:
    """Spare the next one the reading of what is in memory here; `data` are the bytes of the file, if at hand."""
    with _lock:
        cache = _caches.setdefault(state.manifests, OrderedDict())
        cache[path] = metadata, data
        while len(cache) > _HELD:
            cache.popitem(last=False)


def _held(state: State, row: TableRow) -> tuple[Metadata, bytes]:
    if row.iceberg is None:
        raise Corrupt(f"the row of Iceberg table {row.id} names no metadata", remedy="Run `seiche fsck`.", table=row.id)
    path = row.iceberg.location
    with _lock:
        cache = _caches.setdefault(state.manifests, OrderedDict())
        if path in cache:
            cache.move_to_end(path)
            return cache[path]
    found = read(state.store, path)
    remember(state, path, found)
    return found, b""


def read(store: Store, path: str) -> Metadata:
    """The metadata in a file of the lake; `Corrupt` if it is missing or is none."""
    try:
        return decode(store.get(path), path)
    except NotFound as error:
        raise Corrupt(
            f"{store.uri}: the Iceberg metadata {path} that the lake decided on is missing",
            remedy="Restore it from a copy of the lake, or roll the lake back to the version before.",
            path=path,
        ) from error


def is_packed(data: bytes) -> bool:
    """Whether a metadata file was packed with gzip. Its name need not say so, and may do so in more than one way."""
    return data.startswith(b"\x1f\x8b")


def decode(data: bytes, path: str) -> Metadata:
    """The metadata in the bytes of a file; `InvalidInput` if it has keys, without which nobody could read the table."""
    try:
        text = gzip.decompress(data) if is_packed(data) else data
        keys = _has_keys(text)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # PyIceberg warns of summaries that other engines write
            found: Metadata = TableMetadataUtil.parse_raw(text.decode())
    except (OSError, ValueError, TypeError, AttributeError, ValidationError, IcebergValidationError, EOFError) as error:
        raise Corrupt(
            f"{path} is no Iceberg metadata: {error}", remedy="Restore it from a copy of the lake.", path=path
        ) from error
    if keys:
        raise InvalidInput(
            f"{path} has encryption keys, which would be lost here: the table is encrypted",
            remedy="Copy its rows into a new table, with an engine that reads it.",
            path=path,
        )
    return found


def _has_keys(text: bytes) -> bool:
    """Whether metadata speaks of encryption keys, which PyIceberg drops when it reads it."""
    if b'"encryption-keys"' not in text and b'"key-id"' not in text:
        return False
    found = json.loads(text)
    return bool(found.get("encryption-keys")) or any(one.get("key-id") for one in found.get("snapshots", ()))


def json_of(metadata: Metadata) -> bytes:
    """The metadata as JSON."""
    log = metadata.metadata_log
    if len(log) < _LONG_LOG:
        return _dumped(metadata)
    # The log of earlier files is most of a small table's metadata, and all of it but its end has been written before.
    rest = _dumped(metadata, exclude={"metadata_log"})
    return b'%s,"metadata-log":[%s]}' % (rest[:-1], _spelled(log))


def _spelled(log: list[MetadataLogEntry]) -> bytes:
    """The entries of a log, one behind the other: those of the log before, cut off at the front, and the last one."""
    *earlier, last = log
    with _lock:
        known, spelled = _logs.get(earlier[-1].metadata_file, ((), b""))
    gone = len(known) - len(earlier)
    if gone >= 0 and list(known[gone:]) == earlier:  # mostly the very same objects, which are not looked into
        start = sum(len(_entry(one.metadata_file, one.timestamp_ms)) + 1 for one in known[:gone])
        spelled = spelled[start:]
    else:
        spelled = b",".join([_entry(one.metadata_file, one.timestamp_ms) for one in earlier])
    spelled = b"%s,%s" % (spelled, _entry(last.metadata_file, last.timestamp_ms))
    with _lock:
        _logs[last.metadata_file] = tuple(log), spelled
        while len(_logs) > _HELD:
            _logs.popitem(last=False)
    return spelled


def _dumped(model: IcebergBaseModel, exclude: set[str] | None = None) -> bytes:
    # PyIceberg refuses to write version 3 in its own method; its models hold all that there is to write.
    try:
        text: str = IcebergBaseModel.model_dump_json(model, exclude_none=True, exclude=exclude)
    except PydanticSerializationError as error:  # of half of a pair of surrogates, which JSON may have
        raise InvalidInput(f"the metadata cannot be written: {error}", remedy="Nothing was written.") from error
    return text.encode()


@lru_cache(maxsize=8192)
def _entry(metadata_file: str, timestamp_ms: int) -> bytes:
    return b'{"metadata-file":%s,"timestamp-ms":%d}' % (json.dumps(metadata_file).encode(), timestamp_ms)


def encode(metadata: Metadata, *, checked: bool = False) -> bytes:
    """The bytes of a metadata file. What cannot be read back is never written: `Corrupt` says that it was a mistake.

    What has been read back already, but for its log of files, is `checked`: reading is what costs the most.
    """
    data = json_of(metadata)
    if not checked:
        decode(data, "new metadata")
    return data


def new_path(location: str, before: str, runtime: Runtime) -> str:
    """A name that no metadata file has had, in the table's own place; the number in it only serves the eye."""
    found = _NUMBER.match(before.rpartition("/")[2])
    number = int(found[1]) + 1 if found else 0
    return f"{location}/metadata/{number:05d}-{runtime.uuid()}.metadata.json"


def last_number(metadata: Metadata) -> int:
    """The last sequence number that was given out; tables of format version 1 have none."""
    return 0 if isinstance(metadata, TableMetadataV1) else metadata.last_sequence_number


def summary_of(metadata: Metadata) -> Mapping[str, Any]:
    """The summary of the current snapshot; empty if there is none."""
    snapshot = metadata.current_snapshot()
    return {} if snapshot is None or snapshot.summary is None else dict(snapshot.summary.additional_properties)
