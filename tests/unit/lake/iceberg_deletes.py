"""Deletes by files of their own in an Iceberg table of a lake, as engines other than PyIceberg leave them.

PyIceberg writes none; its models write the manifests that speak of these.
"""

import io
import struct
import zlib
from typing import Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestWriterV2,
    read_manifest_list,
    write_manifest_list,
)
from pyiceberg.table.snapshots import Operation, Snapshot, Summary
from pyiceberg.table.update import AddSnapshotUpdate, AssertRefSnapshotId, SetSnapshotRefUpdate
from pyiceberg.typedef import Record

from seiche import Lake

PATH_ID, POS_ID = 2147483546, 2147483545
Kind = Literal["parquet", "avro", "puffin"]


class _Deletes(ManifestWriterV2):
    def content(self) -> ManifestContent:
        return ManifestContent.DELETES

    @property
    def _meta(self) -> dict[str, str]:
        return {**super()._meta, "content": "deletes"}


def delete_by_position(lake: Lake, name: str, wanted: int, kind: Kind = "parquet") -> str:
    """Delete the row with this id, by a file of deletions; returns the address of that."""
    table: Any = lake.table(name).to_iceberg()
    for task in table.scan(row_filter=f"id = {wanted}").plan_files():
        with table.io.new_input(task.file.file_path).open() as stream:
            held = pq.read_table(stream)["id"].to_pylist()
        if wanted in held:
            position = held.index(wanted)
            break
    snapshot_id = table.metadata.new_snapshot_id()
    where = f"{table.metadata.location}/data/{snapshot_id}-deletes.{kind}"
    data = {"parquet": _parquet, "puffin": _puffin}[kind](task.file.file_path, position)
    _write(table.io, where, data)
    _commit(lake, name, table, _entry(where, data, task.file, kind, snapshot_id), snapshot_id)
    return where


def delete_by_equality(lake: Lake, name: str, wanted: int) -> str:
    """Delete all rows with this id that are there now, by a file that says no more than the id; returns its address."""
    table: Any = lake.table(name).to_iceberg()
    snapshot_id, number = table.metadata.new_snapshot_id(), table.schema().find_field("id").field_id
    where = f"{table.metadata.location}/data/{snapshot_id}-deletes.parquet"
    out = io.BytesIO()
    schema = pa.schema([pa.field("id", pa.int64(), metadata={"PARQUET:field_id": str(number)})])
    pq.write_table(pa.table({"id": [wanted]}, schema=schema), out, store_schema=False)
    _write(table.io, where, out.getvalue())
    bound = {number: struct.pack("<q", wanted)}
    file = DataFile.from_args(
        content=DataFileContent.EQUALITY_DELETES,
        file_path=where,
        file_format=FileFormat.PARQUET,
        partition=Record(),
        record_count=1,
        file_size_in_bytes=len(out.getvalue()),
        value_counts={number: 1},
        null_value_counts={number: 0},
        nan_value_counts={},
        lower_bounds=bound,
        upper_bounds=bound,
        equality_ids=[number],
    )
    file.spec_id = table.spec().spec_id
    entry = ManifestEntry.from_args(status=ManifestEntryStatus.ADDED, snapshot_id=snapshot_id, data_file=file)
    _commit(lake, name, table, entry, snapshot_id)
    return where


def _commit(lake: Lake, name: str, table: Any, entry: ManifestEntry, snapshot_id: int) -> None:
    """Add a file of deletions to the table."""
    metadata = table.metadata
    manifest_path = f"{metadata.location}/metadata/{snapshot_id}-m0.avro"
    with _Deletes(
        metadata.specs()[entry.data_file.spec_id],
        metadata.schema(),
        table.io.new_output(manifest_path),
        snapshot_id,
        "deflate",
    ) as w:
        w.add_entry(entry)
    manifest = w.to_manifest_file()
    before = metadata.current_snapshot()
    listed = list(read_manifest_list(table.io.new_input(before.manifest_list)))
    list_path = f"{metadata.location}/metadata/snap-{snapshot_id}-0.avro"
    number = metadata.next_sequence_number()
    with write_manifest_list(
        format_version=2,
        output_file=table.io.new_output(list_path),
        snapshot_id=snapshot_id,
        parent_snapshot_id=before.snapshot_id,
        sequence_number=number,
        avro_compression="deflate",
    ) as writer:
        writer.add_manifests([manifest, *listed])
    snapshot = Snapshot(
        **{
            "snapshot-id": snapshot_id,
            "parent-snapshot-id": before.snapshot_id,
            "sequence-number": number,
            "timestamp-ms": max(before.timestamp_ms, metadata.last_updated_ms) + 1,
            "manifest-list": list_path,
            "schema-id": metadata.current_schema_id,
        },
        summary=Summary(Operation.DELETE, **{"added-position-deletes": "1"}),
    )
    with lake.transaction() as tx:
        tx.commit_iceberg(
            name,
            [AssertRefSnapshotId.model_validate({"ref": "main", "snapshot-id": before.snapshot_id})],
            [
                AddSnapshotUpdate(snapshot=snapshot),
                SetSnapshotRefUpdate.model_validate({"ref-name": "main", "type": "branch", "snapshot-id": snapshot_id}),
            ],
        )


def _entry(where: str, data: bytes, of: DataFile, kind: Kind, snapshot_id: int) -> ManifestEntry:
    path = of.file_path.encode()
    file = DataFile.from_args(
        content=DataFileContent.POSITION_DELETES,
        file_path=where,
        file_format=FileFormat(kind.upper()),
        partition=of.partition,
        record_count=1,
        file_size_in_bytes=len(data),
        column_sizes={PATH_ID: 100, POS_ID: 50} if kind == "parquet" else None,
        value_counts={PATH_ID: 1, POS_ID: 1},
        null_value_counts={PATH_ID: 0, POS_ID: 0},
        nan_value_counts={},
        lower_bounds={PATH_ID: path, POS_ID: struct.pack("<q", 0)},
        upper_bounds={PATH_ID: path, POS_ID: struct.pack("<q", 0)},
        split_offsets=[4] if kind == "parquet" else None,
    )
    file.spec_id = of.spec_id
    return ManifestEntry.from_args(status=ManifestEntryStatus.ADDED, snapshot_id=snapshot_id, data_file=file)


def _parquet(path: str, position: int) -> bytes:
    fields = [("file_path", pa.string(), PATH_ID), ("pos", pa.int64(), POS_ID)]
    schema = pa.schema(
        [pa.field(name, kind, False, {"PARQUET:field_id": str(number)}) for name, kind, number in fields]
    )
    out = io.BytesIO()
    pq.write_table(pa.table({"file_path": [path], "pos": [position]}, schema=schema), out, store_schema=False)
    return out.getvalue()


def _puffin(path: str, position: int) -> bytes:
    """A deletion vector: a bitmap, framed as the specification says, and the footer that speaks of it."""
    import json

    from pyroaring import BitMap

    bits = struct.pack("<Q", 1) + struct.pack("<I", 0) + BitMap([position]).serialize()
    body = struct.pack("<I", 1681511377) + bits
    blob = struct.pack(">I", len(body)) + body + struct.pack(">I", zlib.crc32(body))
    about = {
        "type": "deletion-vector-v1",
        "fields": [],
        "snapshot-id": -1,
        "sequence-number": -1,
        "offset": 4,
        "length": len(blob),
        "properties": {"referenced-data-file": path, "cardinality": "1"},
    }
    footer = json.dumps({"blobs": [about]}).encode()
    return b"PFA1" + blob + b"PFA1" + footer + struct.pack("<i4s4s", len(footer), bytes(4), b"PFA1")


def _write(files: Any, where: str, data: bytes) -> None:
    with files.new_output(where).create() as stream:
        stream.write(data)
