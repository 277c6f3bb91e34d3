"""Deletion vectors: which rows of a fragment are gone, as a set of row offsets in a file of its own."""

import struct
from collections.abc import Iterable, Mapping
from typing import Any

from pyroaring import BitMap

from seiche.core.runtime import SYSTEM, Runtime
from seiche.errors import Corrupt, NotFound
from seiche.store.base import Store
from seiche.table.format import roaring
from seiche.table.format.manifest_pb2 import DataFragment, DeletionFile
from seiche.table.format.side_files import put_new

__all__ = ["DeletionFiles", "decode", "encode_arrow", "encode_bitmap", "is_counted", "path", "rows_left"]

# Up to here pylance writes Arrow, above a bitmap. It reads either at any size.
LARGEST_ARROW = 5000

_MAGIC = b"ARROW1"
_COLUMN = "row_id"
# ZSTD packs the offsets of a deletion vector a few times; more than this is a claim made to exhaust memory.
_MOST_EXPANSION = 256
_ROOT = struct.Struct("<i")


def path(fragment_id: int, file: DeletionFile) -> str:
    """Where the deletion file of a fragment lies, relative to the root of the table."""
    suffix = "bin" if file.file_type == DeletionFile.BITMAP else "arrow"
    return f"_deletions/{fragment_id}-{file.read_version}-{file.id}.{suffix}"


def rows_left(fragment: DataFragment) -> int:
    """How many rows of a fragment are not deleted, as far as the manifest says."""
    return fragment.physical_rows - fragment.deletion_file.num_deleted_rows


def is_counted(fragment: DataFragment) -> bool:
    """Whether the manifest says how many rows a fragment has and how many are deleted; 0 stands for unknown."""
    uncounted = fragment.HasField("deletion_file") and not fragment.deletion_file.num_deleted_rows
    return bool(fragment.physical_rows) and not uncounted


def encode_bitmap(offsets: BitMap) -> bytes:
    """The portable Roaring form."""
    return roaring.encode(offsets)


def encode_arrow(offsets: BitMap) -> bytes:
    """An Arrow IPC file with one batch of one column, `row_id`."""
    import pyarrow as pa

    schema = pa.schema([pa.field(_COLUMN, pa.uint32(), nullable=False)])
    batch = pa.record_batch([pa.array(offsets.to_array(), pa.uint32())], schema=schema)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue())


def decode(data: bytes, file_type: int, *, what: str = "a deletion file") -> BitMap:
    """The row offsets in a deletion file of the given type; anything else than such a file is `Corrupt`."""
    if file_type == DeletionFile.BITMAP:
        return roaring.decode(data, what=what)
    if file_type == DeletionFile.ARROW:
        return _decode_arrow(data, what)
    raise _broken(what, f"has the unknown type {file_type}")


def _decode_arrow(data: bytes, what: str) -> BitMap:
    import pyarrow as pa

    if not (data.startswith(_MAGIC) and data.endswith(_MAGIC) and len(data) > 2 * len(_MAGIC)):
        raise _broken(what, f"is not an Arrow file that is whole: {len(data)} bytes")
    offsets = BitMap()
    try:
        schema = pa.ipc.open_file(data).schema
        if schema.names != [_COLUMN] or schema.types != [pa.uint32()]:
            raise _broken(what, f"has the columns {schema.names}, expected [{_COLUMN!r}] of uint32")
        # Batch by batch, not by the reader: what is checked for its claims is then also what is decoded.
        for start, end in _batches(data):
            message = pa.ipc.read_message(pa.py_buffer(data)[start:end])
            _check_claims(message, len(data), what)
            column = pa.ipc.read_record_batch(message, schema).column(0)
            column.validate(full=True)
            if column.null_count:
                raise _broken(what, "has rows without an offset")
            offsets.update(BitMap(column.to_numpy()))
    except (pa.ArrowException, OSError, EOFError, ValueError, struct.error, KeyError, MemoryError) as error:
        raise _broken(what, f"is not a readable Arrow file: {error}") from error
    return offsets


def _batches(data: bytes) -> list[tuple[int, int]]:
    """Where the record batches of an Arrow file begin and end, as its footer says."""
    trailer = len(data) - len(_MAGIC) - 4
    (length,) = _ROOT.unpack_from(data, trailer)
    if not 0 < length <= trailer:
        raise ValueError(f"the footer claims {length} bytes")
    footer = data[trailer - length : trailer]
    vector = _follow(footer, _table(footer, _ROOT.unpack_from(footer, 0)[0])[3])
    (count,) = struct.unpack_from("<I", footer, vector)
    if 24 * count > length:
        raise ValueError(f"the footer claims {count} batches")
    blocks = (struct.unpack_from("<qixxxxq", footer, vector + 4 + 24 * number) for number in range(count))
    return [(start, start + header + body) for start, header, body in blocks]


def _check_claims(message: Any, file_size: int, what: str) -> None:
    """Refuse a batch that says it unpacks to far more than such a file can hold, before memory is set aside for it."""
    metadata, body = bytes(message.metadata), bytes(message.body)
    root = _table(metadata, _ROOT.unpack_from(metadata, 0)[0])
    batch = _table(metadata, _follow(metadata, root[2]))
    if 3 not in batch:
        return  # not compressed: every buffer lies in the body
    vector = _follow(metadata, batch[2])
    (count,) = struct.unpack_from("<I", metadata, vector)
    for number in range(count):
        start, length = struct.unpack_from("<qq", metadata, vector + 4 + 16 * number)
        if length:
            (claimed,) = struct.unpack_from("<q", body, start)
            if claimed > _MOST_EXPANSION * file_size:
                raise _broken(what, f"claims to unpack to {claimed} bytes from a file of {file_size}")


def _table(buffer: bytes, at: int) -> dict[int, int]:
    """Where the fields of a FlatBuffers table are: field number to position; absent ones are left out."""
    virtual = at - _ROOT.unpack_from(buffer, at)[0]
    (size,) = struct.unpack_from("<H", buffer, virtual)
    slots = struct.unpack_from(f"<{(size - 4) // 2}H", buffer, virtual + 4)
    return {number: at + slot for number, slot in enumerate(slots) if slot}


def _follow(buffer: bytes, at: int) -> int:
    return int(at + struct.unpack_from("<I", buffer, at)[0])


class DeletionFiles:
    """Reads and writes the deletion files of one table.

    A file that was written is on disk when `write` returns. `bases` maps the ids of the manifest's base paths to their
    stores, for fragments whose deletion file lies in another directory than the table's own.
    """

    def __init__(self, store: Store, runtime: Runtime = SYSTEM, *, bases: Mapping[int, Store] | None = None) -> None:
        self.store = store
        self.runtime = runtime
        self.bases = bases or {}

    def read(self, fragment: DataFragment) -> BitMap:
        """The deleted row offsets of the fragment; empty if it has no deletion file."""
        if not fragment.HasField("deletion_file"):
            return BitMap()
        file = fragment.deletion_file
        where = path(fragment.id, file)
        offsets = decode(self._base(file, where).get(where), file.file_type, what=where)
        if file.num_deleted_rows not in (0, len(offsets)):
            raise _broken(where, f"holds {len(offsets)} rows, the manifest says {file.num_deleted_rows}")
        if offsets and fragment.physical_rows and offsets.max() >= fragment.physical_rows:
            raise _broken(where, f"deletes row {offsets.max()} of a fragment of {fragment.physical_rows} rows")
        return offsets

    def read_all(self, fragments: Iterable[DataFragment]) -> dict[int, BitMap]:
        """The deleted row offsets of fragments by their ids, read side by side."""
        wanted = {fragment.id: fragment for fragment in fragments}
        masked = [fragment for fragment in wanted.values() if fragment.HasField("deletion_file")]
        found = dict(zip((one.id for one in masked), self.store.in_parallel(self.read, masked), strict=True))
        return {fragment_id: found.get(fragment_id, BitMap()) for fragment_id in wanted}

    def write(
        self,
        fragment_id: int,
        read_version: int,
        offsets: BitMap,
        *,
        bitmap: bool | None = None,
        durable: bool = True,
    ) -> DeletionFile:
        """Store the whole vector of the fragment under a new name, and return the entry that points to it.

        Who writes many can flush them together: `durable=False` leaves that to the caller.
        """
        if bitmap is None:
            bitmap = len(offsets) > LARGEST_ARROW
        file = DeletionFile(
            file_type=DeletionFile.BITMAP if bitmap else DeletionFile.ARROW,
            read_version=read_version,
            id=self.runtime.u64(),
            num_deleted_rows=len(offsets),
        )
        data = encode_bitmap(offsets) if bitmap else encode_arrow(offsets)
        put_new(self.store, path(fragment_id, file), data, self.runtime, durable=durable)
        return file

    def _base(self, file: DeletionFile, where: str) -> Store:
        if not file.HasField("base_id"):
            return self.store
        try:
            return self.bases[file.base_id]
        except KeyError:
            raise NotFound(
                f"{where} lies under base path {file.base_id}, which is not among {sorted(self.bases)}",
                remedy="The manifest does not list it: restore that from a copy, or open an older version.",
                path=where,
                base_id=file.base_id,
            ) from None


def _broken(what: str, problem: str) -> Corrupt:
    return Corrupt(
        f"{what} {problem}",
        remedy="The deletion file is damaged. Restore it from a copy, or open an older version.",
        path=what,
    )
