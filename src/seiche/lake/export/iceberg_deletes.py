"""Files of deletions of an Iceberg table, written anew with other addresses.

A position delete names the file of the row inside of its own file, by address, and engines compare these names letter
by letter with those in the manifests. So in a copy that has other addresses they must be rewritten too, and with them
what the manifest says of such a file: its size, where its row groups begin, and the bounds of the names in it, by which
engines decide whether to open it at all.
"""

import io
import json
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from seiche.errors import Corrupt
from seiche.lake.export.avro import Record
from seiche.lake.export.avro import rewritten as rewritten_avro

__all__ = ["DeleteFile", "can_rewrite", "rewritten"]

Move = Callable[[str], str]

_FILE_PATH: Final = 2147483546  # the id that the specification gives to the column
_PUFFIN: Final = b"PFA1"
_COMPRESSED: Final = 1
_REFERENCED: Final = "referenced-data-file"


@dataclass(frozen=True, slots=True)
class DeleteFile:
    """A file of deletions as it is in the copy. `bounds` are the first and the last name in it, if they are known."""

    data: bytes = field(repr=False)
    size: int
    bounds: tuple[str, str] | None = None
    column_sizes: Mapping[int, int] | None = None
    offsets: tuple[int, ...] | None = None

    def tell(self, entry: Record) -> None:
        """Correct what a manifest says about the file."""
        entry["file_size_in_bytes"] = self.size
        if self.bounds is not None:
            for name, bound in zip(("lower_bounds", "upper_bounds"), self.bounds, strict=True):
                _set(entry, name, {_FILE_PATH: bound.encode()})
        if self.column_sizes is not None:
            _set(entry, "column_sizes", self.column_sizes)
        if self.offsets is not None and _held(entry, "split_offsets") is not None:
            entry["split_offsets"] = (entry["split_offsets"][0], list(self.offsets))


def can_rewrite(file_format: str) -> bool:
    """Whether files of this format can be."""
    return file_format in _FORMATS


def rewritten(file_format: str, data: bytes, move: Move, path: str) -> DeleteFile:
    """The file with every name in it as `move` gives it; `Corrupt` if it cannot be read."""
    try:
        return _FORMATS[file_format](data, move, path)
    except (ValueError, KeyError, struct.error, OSError) as error:
        raise Corrupt(
            f"{path} is not a file of deletions that can be read: {error}",
            remedy="Restore it from a copy of the lake, or leave the table out of the export.",
            path=path,
        ) from error


def _parquet(data: bytes, move: Move, path: str) -> DeleteFile:  # noqa: ARG001 - all are called alike
    import pyarrow as pa
    import pyarrow.parquet as pq

    source = pq.ParquetFile(io.BytesIO(data))
    table = source.read()
    if not table.num_rows:
        return DeleteFile(data, len(data))
    names = table["file_path"].combine_chunks().dictionary_encode()
    moved = pa.DictionaryArray.from_arrays(names.indices, [move(one) for one in names.dictionary.to_pylist()])
    index = table.schema.get_field_index("file_path")
    column = moved.cast(table.schema.field(index).type)
    # They are sorted by name and place; where only some of the names change, their order may.
    table = table.set_column(index, table.schema.field(index), column).sort_by(
        [("file_path", "ascending"), ("pos", "ascending")]
    )
    out = io.BytesIO()
    codec = source.metadata.row_group(0).column(0).compression
    pq.write_table(table, out, compression="NONE" if codec == "UNCOMPRESSED" else codec, store_schema=False)
    made = out.getvalue()
    metadata = pq.ParquetFile(io.BytesIO(made)).metadata
    ids = {one.name: _field_id(one) for one in table.schema}
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    sizes: dict[int, int] = {}
    for group in groups:
        for number in range(group.num_columns):
            chunk = group.column(number)
            found = ids.get(chunk.path_in_schema)
            if found is not None:
                sizes[found] = sizes.get(found, 0) + chunk.total_compressed_size
    offsets = tuple(_begin(group.column(0)) for group in groups)
    paths = table["file_path"]
    return DeleteFile(made, len(made), (paths[0].as_py(), paths[-1].as_py()), sizes, offsets)


def _begin(chunk: Any) -> int:
    return int(chunk.dictionary_page_offset if chunk.has_dictionary_page else chunk.data_page_offset)


def _field_id(one: Any) -> int | None:
    found = (one.metadata or {}).get(b"PARQUET:field_id")
    return None if found is None else int(found)


def _avro(data: bytes, move: Move, path: str) -> DeleteFile:
    names: list[str] = []

    def change(record: Record) -> Record:
        record["file_path"] = move(record["file_path"])
        names.append(record["file_path"])
        return record

    made = rewritten_avro(data, change, path)
    return DeleteFile(made, len(made), (min(names), max(names)) if names else None)


def _puffin(data: bytes, move: Move, path: str) -> DeleteFile:  # noqa: ARG001 - all are called alike
    """Blobs stay where they are in the file; what is said of them stands behind them."""
    size, flags, magic = struct.unpack("<i4s4s", data[-12:])
    start = len(data) - 12 - size
    if magic != _PUFFIN or data[:4] != _PUFFIN or data[start - 4 : start] != _PUFFIN:
        raise ValueError("it does not begin and end as a Puffin file does")
    if flags[0] & _COMPRESSED:
        raise ValueError("its footer is compressed, which is not known here")
    footer = json.loads(data[start : start + size])
    names: list[str] = []
    for blob in footer["blobs"]:
        properties = blob.get("properties", {})
        if _REFERENCED in properties:
            properties[_REFERENCED] = move(properties[_REFERENCED])
            names.append(properties[_REFERENCED])
    text = json.dumps(footer, separators=(",", ":")).encode()
    made = data[:start] + text + struct.pack("<i4s4s", len(text), flags, _PUFFIN)
    return DeleteFile(made, len(made), (min(names), max(names)) if names else None)


def _held(entry: Record, name: str) -> Any:
    """What an optional field holds: unions are pairs."""
    value = entry.get(name)
    return value[1] if isinstance(value, tuple) else value


def _set(entry: Record, name: str, values: Mapping[int, Any]) -> None:
    """Change values of a map with numbers for keys, where it has them: a list of pairs in Avro."""
    for pair in _held(entry, name) or ():
        if pair["key"] in values:
            pair["value"] = values[pair["key"]]


_FORMATS: Final[Mapping[str, Callable[[bytes, Move, str], DeleteFile]]] = {
    "PARQUET": _parquet,
    "AVRO": _avro,
    "PUFFIN": _puffin,
}
