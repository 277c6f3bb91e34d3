"""Reading Parquet files to see whether they can be."""

from seiche.errors import Corrupt
from seiche.lake.iceberg.file_io import LakeFileIO
from seiche.lake.iceberg.places import address
from seiche.store.base import Store

__all__ = ["check_parquet"]


def check_parquet(store: Store, path: str, rows: int) -> None:
    """Read a file from end to end, in parts; `Corrupt` if that fails or it has another number of rows than `rows`.

    The footer, the encoding of every page, and the checksums of pages that have them are looked at. A value that became
    another value in a page without a checksum is not noticed.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with (
            LakeFileIO(store).new_input(address(store, path)).open() as stream,
            pq.ParquetFile(stream, page_checksum_verification=True, pre_buffer=False) as file,
        ):
            found = sum(batch.num_rows for batch in file.iter_batches())
    except (pa.ArrowException, OSError, ValueError) as error:
        raise Corrupt(f"{path} cannot be read: {error}", path=path) from error
    if found != rows:
        raise Corrupt(f"{path} has {found} rows instead of {rows}", path=path)
