"""Where a PyIceberg catalog keeps its tables: in a lake, each call a transaction, or in one transaction."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeVar

from seiche.errors import InvalidInput, RetryableConflict
from seiche.lake.commit.reads import Aspect
from seiche.lake.engines.iceberg_table import EngineFileIO
from seiche.lake.iceberg.statements import look
from seiche.lake.iceberg.table import IcebergTable, at_state
from seiche.lake.objects.names import Name

if TYPE_CHECKING:
    from seiche.lake.lake import Lake
    from seiche.lake.transaction import Transaction

__all__ = ["Home", "LakeHome", "TransactionHome", "home_of"]

T = TypeVar("T")

# What PyIceberg calls the options of S3, and what the lake's storage does.
_S3: Final = {
    "s3.endpoint": "aws_endpoint",
    "s3.access-key-id": "aws_access_key_id",
    "s3.secret-access-key": "aws_secret_access_key",
    "s3.session-token": "aws_session_token",
    "s3.region": "aws_region",
}


class Home(ABC):
    """What a catalog needs of a lake."""

    @abstractmethod
    def reading(self) -> "Transaction":
        """A transaction to look things up in."""

    @abstractmethod
    def writing(self, do: "Callable[[Transaction], T]") -> T:
        """Do something in a transaction."""

    @abstractmethod
    def committing(self, do: "Callable[[Transaction], None]", name: Name, key: str | None) -> IcebergTable:
        """Commit to a table in a transaction, once however often it is told; returns the table after it."""

    @abstractmethod
    def looks(self, table_id: str) -> Callable[[Aspect], None]:
        """To be called with whatever is looked at of a table."""

    @abstractmethod
    def io(self) -> EngineFileIO:
        """How files are read and written."""

    def looking(self, do: "Callable[[Transaction], T]") -> T:
        """Look something up."""
        return do(self.reading())


class _Refused(Exception):
    """A conflict that is not to be answered by doing the same again."""

    def __init__(self, error: RetryableConflict) -> None:
        super().__init__(error.message)
        self.error = error


class LakeHome(Home):
    """Every call is a transaction of its own, on the latest version or on the one that the lake was opened at."""

    def __init__(self, lake: "Lake") -> None:
        self._lake = lake

    def reading(self) -> "Transaction":
        return self._lake.transaction()

    def looking(self, do: "Callable[[Transaction], T]") -> T:
        with self._lake.reading():
            return do(self._lake.transaction())

    def writing(self, do: "Callable[[Transaction], T]") -> T:
        return self._lake.run(do)

    def committing(self, do: "Callable[[Transaction], None]", name: Name, key: str | None) -> IcebergTable:
        def once(transaction: "Transaction") -> None:
            try:
                do(transaction)
            except RetryableConflict as error:
                # Known before the commit, on the latest version: trying it again as it is finds the same.
                raise _Refused(error) from error

        try:
            _, version = self._lake.run_versioned(once, key=key)
        except _Refused as refused:
            # It may be in its own way: told again after it was done.
            done = None if key is None else self._lake.status(self._lake.transaction(key=key).id)
            if done is None or done.version is None or done.outcome != "committed":
                raise refused.error from refused
            version = done.version
        return at_state(self._lake.states.at(version), name)

    def looks(self, table_id: str) -> Callable[[Aspect], None]:
        return lambda _aspect: None

    def io(self) -> EngineFileIO:
        states = self._lake.states
        return EngineFileIO(self._lake.store, lambda: states.known.version, lambda _path: None)


class TransactionHome(Home):
    """Everything happens in one transaction; what is written is flushed when it is committed."""

    def __init__(self, transaction: "Transaction") -> None:
        self._transaction = transaction

    def reading(self) -> "Transaction":
        self._transaction.check_running()
        return self._transaction

    def writing(self, do: "Callable[[Transaction], T]") -> T:
        return do(self.reading())

    def committing(self, do: "Callable[[Transaction], None]", name: Name, key: str | None) -> IcebergTable:
        do(self.reading())
        return look(self._transaction, name)

    def looks(self, table_id: str) -> Callable[[Aspect], None]:
        return lambda aspect: self._transaction.note_look(table_id, aspect)

    def io(self) -> EngineFileIO:
        transaction = self._transaction
        return EngineFileIO(transaction.state.store, lambda: transaction.base, transaction.unflushed.append)


def home_of(properties: Mapping[str, Any]) -> Home:
    """The lake that a catalog's configuration names."""
    from seiche.lake.lake import open_lake

    uri = properties.get("lake") or properties.get("uri")
    if not uri:
        raise InvalidInput("the catalog does not say which lake", remedy="Give the property `lake`: its address.")
    options = {ours: properties[theirs] for theirs, ours in _S3.items() if theirs in properties}
    if str(options.get("aws_endpoint", "")).startswith("http://"):
        options["allow_http"] = "true"
    options |= {name.removeprefix("store."): value for name, value in properties.items() if name.startswith("store.")}
    version = properties.get("version")
    at = int(version) if isinstance(version, str) and version.isdigit() else version
    return LakeHome(open_lake(str(uri), version=at, **options))
