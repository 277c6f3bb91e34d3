"""Opaque: an operation that we can keep and name, but neither understand nor make."""

from dataclasses import dataclass

__all__ = ["Opaque"]

_NAMES = {115: "DataOverlay", 200: "blob_append", 202: "blob_overwrite"}


@dataclass(frozen=True, slots=True)
class Opaque:
    """The field of a Transaction message that holds an operation unknown to us, byte for byte.

    Committing one is `InvalidInput`; whatever is committed over one gets a `RetryableConflict` that names it.
    """

    field_number: int
    raw: bytes

    @property
    def name(self) -> str:
        """What the operation is called, or its number if no name is known."""
        return _NAMES.get(self.field_number, f"operation {self.field_number}")
