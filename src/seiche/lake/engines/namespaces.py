"""A namespace of a lake as catalogs of all engines see it."""

from typing import TYPE_CHECKING

from seiche.lake.objects.names import Name, parts

if TYPE_CHECKING:
    from seiche.lake.transaction import Transaction

__all__ = ["properties_of"]


def properties_of(transaction: "Transaction", name: Name) -> dict[str, str]:
    """The properties of a namespace; `NotFound` if it does not exist. The root always does."""
    if not name:
        return {}
    return dict(transaction.namespace_named(parts(name, what="namespace")).properties)
