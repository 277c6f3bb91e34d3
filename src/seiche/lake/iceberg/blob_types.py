"""Statistics files may hold blobs of any type.

The specification of Puffin leaves types open, and engines have some of their own. PyIceberg's models know two of them,
and refuse a table's whole metadata for any other: it could not be registered, nor opened any more.
"""

from pyiceberg.table import CommitTableRequest, CommitTableResponse
from pyiceberg.table.metadata import TableMetadataV1, TableMetadataV2, TableMetadataV3, TableMetadataWrapper
from pyiceberg.table.statistics import BlobMetadata, StatisticsFile
from pyiceberg.table.update import SetStatisticsUpdate

__all__ = ["take_all_blob_types"]

# Each after those that it contains: a model has a copy of what its parts were when it was made.
_CONTAINING = (
    StatisticsFile,
    SetStatisticsUpdate,
    TableMetadataV1,
    TableMetadataV2,
    TableMetadataV3,
    TableMetadataWrapper,
    CommitTableRequest,
    CommitTableResponse,
)


def take_all_blob_types() -> None:
    """From now on a type is any text, in this process. A PyIceberg that has it so itself is left as it is."""
    kind = BlobMetadata.model_fields["type"]
    if kind.annotation is not str:
        kind.annotation = str
        for model in (BlobMetadata, *_CONTAINING):
            model.model_rebuild(force=True)
