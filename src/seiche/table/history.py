"""What is kept of a table's past: which versions, when each was made and by what."""

from dataclasses import dataclass
from datetime import datetime

from seiche.core.given import number, wrong
from seiche.errors import InvalidInput, NotFound
from seiche.table.transaction import Transaction
from seiche.table.versions.base import Versions

__all__ = ["Version", "kept", "transactions", "version_at"]


@dataclass(frozen=True, slots=True)
class Version:
    """One entry of a table's history."""

    version: int
    timestamp: datetime
    operation: str


def kept(versions: Versions) -> list[Version]:
    """The versions that are kept, oldest first."""

    def described(version: int) -> Version | None:
        try:
            read = versions.read(version)
        except NotFound:
            return None  # cleaned up since the versions were listed
        inline = read.transaction
        made = versions.transaction(version) if inline is None else Transaction.from_proto(inline)
        return Version(version, read.manifest.timestamp, made.operation.name)

    return [one for one in versions.store.in_parallel(described, versions.all()) if one is not None]


def transactions(versions: Versions, since: int) -> list[tuple[int, Transaction]]:
    """What made the kept versions after `since`, with the version each made."""
    after = number(since, "since", "Give the number of a version; `transactions()` lists all.")
    wanted = [version for version in versions.all() if version > after]
    return list(zip(wanted, versions.store.in_parallel(versions.transaction, wanted), strict=True))


def version_at(versions: Versions, moment: datetime) -> int:
    """The newest version that was made at or before `moment`."""
    given: object = moment
    if not isinstance(given, datetime):
        raise wrong("as_of", given, "Give an aware datetime; a version or a tag is given as `version=`.")
    if moment.tzinfo is None:
        raise InvalidInput(f"{moment} has no time zone", remedy="Give an aware datetime, such as one in UTC.")
    numbers = versions.all()
    # Writers' clocks may disagree, so times need not ascend with versions: look at all, take the newest that fits.
    for version in reversed(numbers):
        if versions.read(version).manifest.timestamp <= moment:
            return version
    table = versions.store.uri
    raise NotFound(
        f"{table} has no version as old as {moment.isoformat()}",
        remedy=f"The oldest kept version is {numbers[0]}.",
        table=table,
    )
