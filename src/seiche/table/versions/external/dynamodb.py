"""Records in a DynamoDB table, laid out as pylance lays out its own, so that both can share Lance tables."""

import os
from collections.abc import Mapping
from threading import Lock
from typing import Any, Literal
from urllib.parse import unquote

from seiche.errors import AlreadyExists, InvalidInput, PermissionDenied, SeicheError, Unavailable
from seiche.store.base import Store
from seiche.table.versions.external.base import ManifestStore, lost, not_there, unclear
from seiche.table.versions.external.records import ManifestRecord

__all__ = ["DynamoDBManifestStore"]

_COMMITTER = "seiche"
_ABSENT = "attribute_not_exists(base_uri) AND attribute_not_exists(version)"
_UNCHANGED = "#path IN (:replacing, :path)"
_MINE = "#path = :path"

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

    def __init__(self, table: str, *, endpoint: str = "", region: str = "", options: Mapping[str, str] | None = None) -> None:
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
        self._lock = Lock()
        self._client: Any = None
        self._owner = 0

    @property
    def uri(self) -> str:
        return f"dynamodb://{self._table}"

    def base_uri(self, store: Store) -> str:
        """As pylance: the path of the table without scheme and bucket, not percent-encoded."""
        scheme, _, rest = super().base_uri(store).partition("://")
        path = rest if scheme == "file" else rest.partition("/")[2]
        if not path.strip("/"):
            raise InvalidInput(
                f"{store.uri}: a table at the root of a bucket cannot be recorded in DynamoDB, whose keys are not empty",
                remedy="Put the table below a prefix.",
            )
        return unquote(path).strip("/")

    def get(self, base_uri: str, version: int) -> ManifestRecord | None:
        answer = self._call("get_item", Key=_key(base_uri, version), ConsistentRead=True)
        return _record(answer["Item"]) if "Item" in answer else None

    def get_latest(self, base_uri: str) -> ManifestRecord | None:
        answer = self._call(
            "query",
            KeyConditionExpression="base_uri = :base_uri",
            ExpressionAttributeValues={":base_uri": {"S": base_uri}},
            ConsistentRead=True,
            ScanIndexForward=False,
            Limit=1,
        )
        return _record(answer["Items"][0]) if answer["Items"] else None

    def put_if_absent(self, base_uri: str, record: ManifestRecord) -> None:
        if not self._write("put_item", Item=_item(base_uri, record), ConditionExpression=_ABSENT):
            taken = self.get(base_uri, record.version)
            if taken is None or taken.path != record.path:
                raise lost(record, base_uri, taken)
        self._take_back_if_stale(base_uri, record)

    def put_if_present(self, base_uri: str, record: ManifestRecord, *, replacing: str) -> None:
        if not self._write(
            "put_item",
            Item=_item(base_uri, record),
            ConditionExpression=_UNCHANGED,
            ExpressionAttributeNames={"#path": "path"},
            ExpressionAttributeValues={":replacing": {"S": replacing}, ":path": {"S": record.path}},
        ):
            raise not_there(record, base_uri, replacing)

    def delete(self, base_uri: str, version: int) -> None:
        self._write("delete_item", Key=_key(base_uri, version))

    def create_table(self) -> None:
        """Make the DynamoDB table, paid for by request, and wait until it can be used; nothing if it exists."""
        try:
            self._call(
                "create_table",
                KeySchema=[
                    {"AttributeName": "base_uri", "KeyType": "HASH"},
                    {"AttributeName": "version", "KeyType": "RANGE"},
                ],
                AttributeDefinitions=[
                    {"AttributeName": "base_uri", "AttributeType": "S"},
                    {"AttributeName": "version", "AttributeType": "N"},
                ],
                BillingMode="PAY_PER_REQUEST",
            )
        except AlreadyExists:
            return
        self._connected().get_waiter("table_exists").wait(TableName=self._table)

    def close(self) -> None:
        with self._lock:
            self._client = None

    def _take_back_if_stale(self, base_uri: str, record: ManifestRecord) -> None:
        """Undo a claim below the latest version, which was free only because the records there were cleaned up.

        DynamoDB cannot make the absence of later records a condition. Until the second step nobody takes the record for
        a commit: it is not the latest, and its writer has not been told that it won.
        """
        latest = self.get_latest(base_uri)
        if latest is None or latest.version <= record.version:
            return
        taken = self.get(base_uri, record.version - 1)
        if taken is not None:
            return  # its predecessor is there: it was free because it was next, and others have built on it since
        self._write(
            "delete_item",
            Key=_key(base_uri, record.version),
            ConditionExpression=_MINE,
            ExpressionAttributeNames={"#path": "path"},
            ExpressionAttributeValues={":path": {"S": record.path}},
        )
        raise lost(record, base_uri, None)
