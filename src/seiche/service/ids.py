"""Ids of transactions."""

from uuid import UUID

from seiche.core.runtime import Runtime
from seiche.service.requests import checked_key

__all__ = ["Ids"]


class Ids:
    """Ids of an account's transactions on one lake.

    A key determines the id, so that the tree knows one that was used before. Without a key they are in the order of
    time, so that the tree keeps new ones side by side.
    """

    def __init__(self, lake: str, account: str, runtime: Runtime) -> None:
        self._runtime = runtime
        self._space = runtime.derived_uuid(UUID(lake), f"account:{account}")

    def made(self, operation: str, key: str) -> str:
        """The id for a call of this operation with this key; `InvalidInput` if that is none."""
        key = checked_key(key)
        if not key:
            return str(self._runtime.ordered_uuid())
        return str(self._runtime.derived_uuid(self._space, f"{operation}:{key}"))
