"""Records in a DynamoDB table, laid out as pylance lays out its own, so that both can share Lance tables."""

import os
from collections.abc import Iterator, Mapping
from functools import cache
from threading import Lock
from typing import Any, Literal, TypeAlias
from urllib.parse import unquote

from seiche.core.retry import Patience
from seiche.core.runtime import SYSTEM, Runtime
from seiche.errors import CommitUnknown, InvalidInput, PermissionDenied, SeicheError, Unavailable
from seiche.store.base import Store
from seiche.table.versions.external.base import ManifestStore, lost, not_there, unclear
from seiche.table.versions.external.records import ManifestRecord

__all__ = ["DynamoDBManifestStore"]

Purpose: TypeAlias = Literal["read", "write"]

# How often and how long a request is sent again that was refused for the moment or not answered.
_PATIENCE = Patience(attempts=5, timeout=60.0, first_delay=0.2, longest_delay=2.0)

_COMMITTER = "seiche"
# The attribute that marks a deleted record whose number stays taken. pylance does not look at it.
_DELETED = "tombstone"
_NOTHING: Mapping[str, Any] = {_DELETED: True}
_ABSENT = "attribute_not_exists(base_uri) AND attribute_not_exists(version)"
_SCHEMA: Mapping[str, Any] = {
    "KeySchema": [
        {"AttributeName": "base_uri", "KeyType": "HASH"},
        {"AttributeName": "version", "KeyType": "RANGE"},
    ],
    "AttributeDefinitions": [
        {"AttributeName": "base_uri", "AttributeType": "S"},
        {"AttributeName": "version", "AttributeType": "N"},
    ],
}

# What is said where something is there that must not be: a record, or (to `create_table`) the table.
_CONDITIONS = frozenset({"ConditionalCheckFailedException", "ResourceInUseException"})
_DENIED = frozenset(
    {
        "AccessDeniedException",
        "ExpiredTokenException",
        "IncompleteSignatureException",
        "InvalidClientTokenId",
        "InvalidSignatureException",
        "MissingAuthenticationTokenException",
        "UnrecognizedClientException",
    }
)
# Refused before anything was done: over the limit, or another transaction holds the item.
_REFUSED = frozenset(
    {
        "LimitExceededException",
        "ProvisionedThroughputExceededException",
        "RequestLimitExceeded",
        "ThrottlingException",
        "TransactionConflictException",
    }
)


class DynamoDBManifestStore(ManifestStore):
    """One DynamoDB table with the hash key `base_uri` (string) and the range key `version` (number).

    pylance names a Lance table by its key without the bucket, and so must we: **two buckets must not share a DynamoDB
    table**, or Lance tables at equal keys would take each other's versions. Nor may it be a global table: regions
    overwrite each other's claims.
    """

    def __init__(
        self,
        table: str,
        *,
        endpoint: str = "",
        region: str = "",
        options: Mapping[str, str] | None = None,
        runtime: Runtime = SYSTEM,
    ) -> None:
        """`options` are those of an S3 store (`aws_access_key_id`, `aws_region` ...); the rest is as boto3 finds it.

        Without `endpoint` that of the environment is taken (`DYNAMODB_ENDPOINT`, as pylance does).
        """
        if not table:
            raise InvalidInput("the DynamoDB table has no name", remedy="Write dynamodb://TABLE.")
        given = dict(options or {})
        self._table = table
        self._settings = {
            "endpoint_url": endpoint or given.get("dynamodb_endpoint") or os.environ.get("DYNAMODB_ENDPOINT"),
            "region_name": region or given.get("aws_region") or given.get("region") or os.environ.get("AWS_REGION"),
            "aws_access_key_id": given.get("aws_access_key_id") or given.get("access_key_id"),
            "aws_secret_access_key": given.get("aws_secret_access_key") or given.get("secret_access_key"),
            "aws_session_token": given.get("aws_session_token") or given.get("session_token"),
        }
        self._runtime = runtime
        self._lock = Lock()
        self._client: Any = None
        self._owner = 0

    def __getstate__(self) -> dict[str, Any]:
        # A client belongs to its process.
        return {**vars(self), "_client": None, "_owner": 0, "_lock": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _lock=Lock())

    @property
    def uri(self) -> str:
        return f"dynamodb://{self._table}"

    def base_uri(self, store: Store) -> str:
        """As pylance: the path of the table without scheme and bucket, not percent-encoded."""
        scheme, _, rest = super().base_uri(store).partition("://")
        path = rest if scheme == "file" else rest.partition("/")[2]
        if not path.strip("/"):
            raise InvalidInput(
                f"{store.uri}: a table at the root of a bucket has no key, and DynamoDB takes no empty one",
                remedy="Put the table below a prefix.",
            )
        return unquote(path).strip("/")

    def get(self, base_uri: str, version: int) -> ManifestRecord | None:
        answer = self._read("get_item", Key=_key(base_uri, version), ConsistentRead=True)
        item = answer.get("Item", _NOTHING)
        return None if _DELETED in item else _record(item)

    def get_latest(self, base_uri: str) -> ManifestRecord | None:
        there = (item for item in self._items(base_uri, Limit=1) if _DELETED not in item)
        return next(map(_record, there), None)

    def put_if_absent(self, base_uri: str, record: ManifestRecord) -> None:
        if not self._write("put_item", Item=_item(base_uri, record), ConditionExpression=_ABSENT):
            try:
                taken = self.get(base_uri, record.version)
            except SeicheError as error:
                # Perhaps the condition failed because of ourselves: an answer was lost, and the request sent again.
                raise unclear(self.uri, error.message) from error
            if taken is None or taken.path != record.path:
                raise lost(record, base_uri, taken)

    def put_if_present(self, base_uri: str, record: ManifestRecord, *, replacing: str) -> None:
        if not self._write(
            "put_item",
            Item=_item(base_uri, record),
            ConditionExpression=f"#path IN (:replacing, :path) AND attribute_not_exists({_DELETED})",
            ExpressionAttributeNames={"#path": "path"},
            ExpressionAttributeValues={":replacing": {"S": replacing}, ":path": {"S": record.path}},
        ):
            raise not_there(record, base_uri, replacing)

    def delete(self, base_uri: str, version: int) -> None:
        """Below the latest version a tombstone stays: DynamoDB cannot make "no later record" a condition of a put."""
        latest = self.get_latest(base_uri)
        if latest is not None and latest.version > version:
            self._write(
                "update_item",
                Key=_key(base_uri, version),
                UpdateExpression=f"SET {_DELETED} = :true",
                ConditionExpression="attribute_exists(base_uri)",
                ExpressionAttributeValues={":true": {"BOOL": True}},
            )
        else:
            self._write("delete_item", Key=_key(base_uri, version))

    def delete_all(self, base_uri: str) -> None:
        """Tombstones, too: they say that a number was used, which no longer matters when the name is given up."""
        for item in self._items(base_uri):
            self._write("delete_item", Key={"base_uri": item["base_uri"], "version": item["version"]})

    def create_table(self) -> None:
        """Make the DynamoDB table, paid for by request, and wait until it can be used; nothing if it exists."""
        self._write("create_table", BillingMode="PAY_PER_REQUEST", **_SCHEMA)
        from botocore.exceptions import WaiterError

        try:
            self._connected().get_waiter("table_exists").wait(TableName=self._table)
        except WaiterError as error:
            raise self._meaning(error, "read") from error

    def close(self) -> None:
        with self._lock:
            if self._client is not None and self._owner == os.getpid():
                self._client.close()
            self._client = None

    def _read(self, operation: str, **request: Any) -> dict[str, Any]:
        failure = Unavailable(f"{self.uri}: no answer", uri=self.uri)
        for _ in _PATIENCE.tries(self._runtime):
            try:
                return self._ask("read", operation, **request)
            except Unavailable as error:
                failure = error
        raise failure

    def _items(self, base_uri: str, **how: Any) -> Iterator[Mapping[str, Any]]:
        """What there is of a table, tombstones included, from the highest version down."""
        start: dict[str, Any] = {}
        while True:
            answer = self._read(
                "query",
                KeyConditionExpression="base_uri = :base_uri",
                ExpressionAttributeValues={":base_uri": {"S": base_uri}},
                ConsistentRead=True,
                ScanIndexForward=False,
                **how,
                **start,
            )
            yield from answer["Items"]
            if "LastEvaluatedKey" not in answer:
                return
            start = {"ExclusiveStartKey": answer["LastEvaluatedKey"]}

    def _write(self, operation: str, **request: Any) -> bool:
        """Whether the condition of the request held. Sent again where that may help: twice is the same as once.

        Once an answer was lost, nothing but an answer of the table itself says what became of it: that later requests
        were refused, or that nobody was reached any more, says nothing about the first.
        """
        failure: SeicheError = Unavailable(f"{self.uri}: no answer", uri=self.uri)
        for _ in _PATIENCE.tries(self._runtime):
            try:
                self._ask("write", operation, **request)
                return True
            except _ConditionFailed:
                return False
            except SeicheError as error:
                if not isinstance(failure, CommitUnknown):
                    failure = error
                if not isinstance(error, CommitUnknown | Unavailable):
                    break
        raise failure

    def _ask(self, purpose: Purpose, operation: str, **request: Any) -> dict[str, Any]:
        client = self._connected()  # says so if there is no boto3
        from botocore.exceptions import BotoCoreError, ClientError

        try:
            answer: dict[str, Any] = getattr(client, operation)(TableName=self._table, **request)
        except (BotoCoreError, ClientError) as error:
            raise self._meaning(error, purpose) from error
        return answer

    def _connected(self) -> Any:
        """A client of this process; what a forked child inherits must not be used by it."""
        with self._lock:
            if self._client is None or self._owner != os.getpid():
                self._client, self._owner = _client(self._settings), os.getpid()
            return self._client

    def _meaning(self, error: Exception, purpose: Purpose) -> Exception:
        from botocore import exceptions

        message = f"{self.uri}: {error}"
        if isinstance(error, exceptions.ClientError):
            return self._refused(error.response, message, purpose)
        if isinstance(error, _missing_settings()):
            return PermissionDenied(message, remedy="Give credentials and a region, as for S3.", uri=self.uri)
        if purpose == "read" or isinstance(error, exceptions.EndpointConnectionError | exceptions.ConnectTimeoutError):
            return Unavailable(message, uri=self.uri)
        return unclear(self.uri, str(error))

    def _refused(self, response: Any, message: str, purpose: Purpose) -> Exception:
        code = response.get("Error", {}).get("Code", "")
        if code in _CONDITIONS:
            return _ConditionFailed(message)
        if code in _DENIED:
            return PermissionDenied(message, remedy="Check the credentials and the policy.", uri=self.uri, code=code)
        if code in _REFUSED:
            return Unavailable(message, uri=self.uri, code=code)
        if response.get("ResponseMetadata", {}).get("HTTPStatusCode", 500) >= 500:
            if purpose == "read":
                return Unavailable(message, uri=self.uri, code=code)
            return unclear(self.uri, message)
        return InvalidInput(
            message,
            remedy=f"There must be a DynamoDB table {self._table!r} with the hash key base_uri (S) and the range key"
            " version (N); `DynamoDBManifestStore.create_table()` makes it.",
            uri=self.uri,
            code=code,
        )


class _ConditionFailed(Exception):
    """The condition of a write did not hold: nothing was written."""


def _client(settings: Mapping[str, str | None]) -> Any:
    try:
        import botocore.session
        from botocore.config import Config
    except ImportError as error:
        raise InvalidInput(
            "a manifest store in DynamoDB needs the library boto3",
            remedy='Install it with pip install "seiche[dynamodb]".',
        ) from error
    # boto3 would send requests again by itself and tell how the last attempt ended, "refused" or "not reached", when
    # the first may have been done and its answer lost. So each is sent once, and what to do next is decided here.
    once = Config(retries={"mode": "standard", "total_max_attempts": 1}, connect_timeout=10, read_timeout=30)
    try:
        # A session of our own: the default one is shared by the whole process and not safe to make clients in threads.
        session = botocore.session.get_session()
        session.register_component("data_loader", _models(session.get_config_variable("data_path")))
        return session.create_client("dynamodb", config=once, **settings)
    except _missing_settings() as error:
        raise PermissionDenied(f"DynamoDB: {error}", remedy="Give credentials and a region, as for S3.") from error


@cache
def _models(path: str | None) -> Any:
    """The description of AWS's interfaces, shared by all sessions: reading it is most of what a client takes."""
    from botocore.loaders import create_loader

    return create_loader(path)


def _missing_settings() -> tuple[type[Exception], ...]:
    from botocore import exceptions

    return (
        exceptions.NoCredentialsError,
        exceptions.NoRegionError,
        exceptions.PartialCredentialsError,
        exceptions.ProfileNotFound,
        exceptions.TokenRetrievalError,
    )


def _key(base_uri: str, version: int) -> dict[str, Any]:
    return {"base_uri": {"S": base_uri}, "version": {"N": str(version)}}


def _item(base_uri: str, record: ManifestRecord) -> dict[str, Any]:
    item = _key(base_uri, record.version) | {
        "path": {"S": record.path},
        "size": {"N": str(record.size)},
        "committer": {"S": _COMMITTER},
    }
    return item if record.e_tag is None else item | {"e_tag": {"S": record.e_tag}}


def _record(item: Mapping[str, Any]) -> ManifestRecord:
    e_tag = item.get("e_tag", {}).get("S")
    return ManifestRecord(int(item["version"]["N"]), item["path"]["S"], int(item["size"]["N"]), e_tag)
