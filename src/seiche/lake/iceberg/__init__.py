"""Iceberg tables of a lake: their metadata, and what a transaction makes of it.

PyIceberg's models do the metadata work; what is decided, and when, is decided here. Only who works with an Iceberg
table needs PyIceberg, so this package is imported when the first one is met.
"""

from seiche.errors import InvalidInput

try:
    import pyiceberg  # noqa: F401 - only to find out whether it is there
except ImportError as error:
    raise InvalidInput(
        "Iceberg tables need PyIceberg, which is not installed here",
        remedy='Install it with pip install "seiche[iceberg]".',
    ) from error

from seiche.lake.iceberg.blob_types import take_all_blob_types

take_all_blob_types()
