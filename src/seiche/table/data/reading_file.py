"""Reading a data file from end to end."""

from collections.abc import Iterator, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from seiche.errors import Corrupt
from seiche.store.base import Store
from seiche.table.blob_files import side_file
from seiche.table.data.native_errors import native_message, without_panics
from seiche.table.format.data_layout import DAMAGED, check_layout
from seiche.table.format.fields import BLOB
from seiche.table.format.fragments import Fragments
from seiche.table.format.manifest import Manifest
from seiche.table.format.manifest_pb2 import DataFile, DataFragment, Field
from seiche.table.format.manifest_pb2 import Manifest as Header

__all__ = ["check_data_file"]

# In the description of a blob, where it is: among others in a file beside the data file, or in one of its own there.
_PACKED, _ALONE = 1, 2
_FIRST_WITH_BLOBS = (2, 2)
_BESIDE = pa.array([_PACKED, _ALONE], pa.uint8())


def check_data_file(store: Store, path: str, rows: int, file: DataFile, header: Header) -> Mapping[str, int]:
    """`Corrupt` if a data file cannot be read whole, or has another number of rows than it must have (0: not known).

    Data files carry no checksums: a changed value that is still a value is not noticed. Returns the files beside it
    that large values of it lie in, and how many bytes each must have at least; those are not looked at.
    """
    check_layout(store, path)
    beside: dict[str, int] = {}
    found = 0
    try:
        with without_panics():
            for batch in _batches(store, path, rows, file, header):
                found += batch.num_rows
                for field, column in zip(batch.schema, batch.columns, strict=True):
                    for described in _descriptions(field, column):
                        _take_down(described, path, beside)
    except (OSError, ValueError, RuntimeError) as error:
        raise Corrupt(f"{path} cannot be read: {native_message(error)}", remedy=DAMAGED, path=path) from error
    if rows and found != rows:
        raise Corrupt(f"{path} has {found} rows instead of {rows}", remedy=DAMAGED, path=path)
    return beside


def _batches(store: Store, path: str, rows: int, file: DataFile, header: Header) -> Iterator[pa.RecordBatch]:
    import lance  # noqa: F401 - waits until another thread has imported all of it, which its parts do not
    from lance.file import LanceFileReader

    known = {field.id: field for field in header.fields}
    old = (file.file_major_version, file.file_minor_version) < _FIRST_WITH_BLOBS
    if old or all(one in known and known[one].extension_name != BLOB for one in file.fields):
        reader = LanceFileReader(store.native_uri(path), storage_options=dict(store.native_options) or None)
        return iter(reader.read_all().to_batches())
    # Read by itself, a file with a column of blobs (which may have been dropped or replaced since) is refused. As the
    # only file of a table with the columns that the version has of it, it is not.
    from seiche.table.data.native import open_staged

    fragment = DataFragment(physical_rows=rows)
    fragment.files.add().CopyFrom(file)
    fragment.files[0].ClearField("base_id")  # whatever base path of the table it lies in, `store` is there
    alone = Header(version=header.version, data_format=header.data_format, fields=_fields(file, known))
    dataset = open_staged(store, Manifest(alone, Fragments([fragment])))
    return iter(dataset.scanner(blob_handling="blobs_descriptions").to_batches())


def _fields(file: DataFile, known: Mapping[int, Field]) -> list[Field]:
    """Those in the file, what they are inside of, and where a file has a column as one (blobs) what is inside that."""
    kept = {one for one in file.fields if one in known}
    parents = {known[one].parent_id for one in kept}
    whole = {one for one in kept if one not in parents}
    for field in known.values():
        above = list(_above(field, known))
        if whole.intersection(above):
            kept.add(field.id)
        if field.id in kept:
            kept.update(above)
    return [field for field in known.values() if field.id in kept]


def _above(field: Field, known: Mapping[int, Field]) -> Iterator[int]:
    while field.parent_id in known:
        field = known[field.parent_id]
        yield field.id


def _descriptions(field: pa.Field, values: pa.Array) -> Iterator[pa.StructArray]:
    """The descriptions of blobs in a column, however deep inside of others."""
    if isinstance(values, pa.StructArray):
        if (field.metadata or {}).get(b"lance-encoding:blob") == b"true":
            yield values.drop_null()
            return
        for inner, part in zip(values.type, values.flatten(), strict=True):
            yield from _descriptions(inner, part)
    elif isinstance(values, pa.ListArray | pa.LargeListArray | pa.FixedSizeListArray):
        yield from _descriptions(values.type.value_field, values.flatten())


def _take_down(described: pa.StructArray, path: str, beside: dict[str, int]) -> None:
    large = described.filter(pc.is_in(described.field("kind"), value_set=_BESIDE))
    ends = pc.add(large.field("position"), large.field("size")).to_numpy(zero_copy_only=False)
    numbers = large.field("blob_id").to_numpy(zero_copy_only=False)
    for number in np.unique(numbers):
        name = side_file(path, int(number))
        beside[name] = max(beside.get(name, 0), int(ends[numbers == number].max()))
