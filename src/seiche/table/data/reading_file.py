"""Reading a data file from end to end."""

from seiche.errors import Corrupt
from seiche.store.base import Store
from seiche.table.data.native_errors import native_message, without_panics
from seiche.table.format.data_layout import DAMAGED, check_layout

__all__ = ["check_data_file"]


def check_data_file(store: Store, path: str, rows: int) -> None:
    """`Corrupt` if a data file cannot be read whole, or has another number of rows than it must have (0: not known).

    Data files carry no checksums: a changed value that is still a value is not noticed.
    """
    check_layout(store, path)
    import lance  # noqa: F401 - waits until another thread has imported all of it, which its parts do not
    from lance.file import LanceFileReader

    try:
        with without_panics():
            reader = LanceFileReader(store.native_uri(path), storage_options=dict(store.native_options) or None)
            found = sum(batch.num_rows for batch in reader.read_all().to_batches())
    except (OSError, ValueError, RuntimeError) as error:
        raise Corrupt(f"{path} cannot be read: {native_message(error)}", remedy=DAMAGED, path=path) from error
    if rows and found != rows:
        raise Corrupt(f"{path} has {found} rows instead of {rows}", remedy=DAMAGED, path=path)
