"""Names that the service and its clients agree on: of properties of a transaction that mean something, and a header."""

from collections.abc import Mapping
from typing import Final

__all__ = [
    "FAILURE_CODE",
    "FAILURE_MESSAGE",
    "FAILURE_NAMES",
    "FLUSHED",
    "KEYED",
    "LAKE",
    "LAKE_VERSION",
    "RESERVED",
    "are_few",
]

# They hold ids of tables which the transaction may make, by name.
RESERVED: Final = "seiche.reserved-table-id:"
# A client that has flushed the files that it names says so in this one.
FLUSHED: Final = "seiche.flushed"
# One whose id follows from a key, so that it does the same work anew under the same id, says so in this one.
KEYED: Final = "seiche.keyed"
# A client that knows which lake it means says so in this header: its id.
LAKE: Final = "x-seiche-lake"
# What the service adds once it is decided, for clients that look at properties. Why it was not applied is said under
# our name and under that of the catalog protocol, where its clients look whether it is worth to try anew.
FAILURE_NAMES: Final = ("seiche.transaction.apply-failure-", "floecat.transaction.apply-failure-")
FAILURE_CODE: Final = f"{FAILURE_NAMES[0]}code"
FAILURE_MESSAGE: Final = f"{FAILURE_NAMES[0]}message"
LAKE_VERSION: Final = "seiche.transaction.lake-version"

_MOST: Final = 256
_LONGEST: Final = 16 << 10


def are_few(properties: Mapping[str, str]) -> bool:
    """Whether a request may have so many properties, of such a length."""
    return len(properties) <= _MOST and sum(map(len, (*properties, *properties.values()))) <= _LONGEST
