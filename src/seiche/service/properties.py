"""Names that the service and its clients agree on: of properties of a transaction that mean something, and a header."""

from typing import Final

__all__ = ["FAILURE_CODE", "FAILURE_MESSAGE", "FLUSHED", "LAKE", "LAKE_VERSION", "RESERVED"]

# They hold ids of tables which the transaction may make, by name.
RESERVED: Final = "seiche.reserved-table-id:"
# A client that has flushed the files that it names says so in this one.
FLUSHED: Final = "seiche.flushed"
# A client that knows which lake it means says so in this header: its id.
LAKE: Final = "x-seiche-lake"
# What the service adds once it is decided, for clients that look at properties.
FAILURE_CODE: Final = "seiche.transaction.apply-failure-code"
FAILURE_MESSAGE: Final = "seiche.transaction.apply-failure-message"
LAKE_VERSION: Final = "seiche.transaction.lake-version"
