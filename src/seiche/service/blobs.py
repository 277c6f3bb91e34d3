"""What clients hand in, kept in the lake under the hash of its content until the transaction is decided.

Nothing is ever removed when something fails: another transaction may have handed in the same. The lake's clean-up does
it, when it is old enough that no transaction can ask for it any more.
"""

import re
from collections import OrderedDict
from collections.abc import Iterable
from threading import Lock
from typing import Final
from urllib.parse import quote

from seiche.errors import NotFound, Unavailable
from seiche.lake.care.layout import PAYLOADS
from seiche.service.changes import digest
from seiche.service.refusals import refused
from seiche.store.base import Store

__all__ = ["BLOB_MISSING", "Blobs", "blob_uri", "delete_uri", "hash_in"]

# What is said of a payload that is not there, or not what it was.
BLOB_MISSING: Final = "TABLE_BLOB_MISSING"
_CACHE: Final = 16 << 20
_OBJECT: Final = re.compile(r"/accounts/([^/]+)/(?:transactions/[^/]+/objects|tables/[^/]+/table)/([0-9a-f]{64})\.\w+")


def blob_uri(account: str, tx: str, data: bytes) -> str:
    """What the blob is called on the wire."""
    return f"/accounts/{quote(account, safe='')}/transactions/{quote(tx, safe='')}/objects/{digest(data)}.bin"


def delete_uri(account: str, tx: str, target: str) -> str:
    """The name that stands for the deletion of a target by this transaction, and for nothing else."""
    return f"/accounts/{quote(account, safe='')}/transactions/{quote(tx, safe='')}/delete/{quote(target, safe='')}"


def hash_in(account: str, uri: str) -> str:
    """The hash in the name of a blob of this account. Refuses every other name: it is never used as a path."""
    found = _OBJECT.fullmatch(uri)
    if found is None or found[1] != quote(account, safe=""):
        raise refused(
            f"{uri!r} does not name a blob of this account",
            "blob.scope",
            "Name a blob as it was named when it was prepared.",
        )
    return found[2]


class Blobs:
    """The payloads in one lake. Those that were handled last are remembered."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = Lock()
        self._held: OrderedDict[str, bytes] = OrderedDict()
        self._size = 0

    def put(self, data: bytes) -> str:
        """Keep `data`, durably; returns its hash. Keeping the same twice is keeping it once."""
        name = digest(data)
        # Written again if it is there: what is young is not cleared away.
        self._store.put(self._path(name), data)
        self._remember(name, data)
        return name

    def put_all(self, given: Iterable[bytes]) -> dict[bytes, str]:
        """As `put`, side by side: each waits for the disk or for a distant storage. The hashes, by what has them."""
        each = list(dict.fromkeys(given))
        return dict(zip(each, self._store.in_parallel(self.put, each), strict=True))

    def get_all(self, names: Iterable[str]) -> dict[str, bytes]:
        """As `get`, side by side; what they name."""
        each = list(dict.fromkeys(names))
        return dict(zip(each, self._store.in_parallel(self.get, each), strict=True))

    def get(self, name: str) -> bytes:
        """What has this hash; `Unavailable` if it is not there, or is not what it was."""
        with self._lock:
            held = self._held.get(name)
        if held is not None:
            return held
        try:
            data = self._store.get(self._path(name))
        except NotFound as error:
            raise Unavailable(f"the payload {name} is not there", code=BLOB_MISSING) from error
        if digest(data) != name:
            raise Unavailable(f"the payload {name} is damaged", code=BLOB_MISSING)
        self._remember(name, data)
        return data

    @staticmethod
    def _path(name: str) -> str:
        return f"{PAYLOADS}/{name}.bin"

    def _remember(self, name: str, data: bytes) -> None:
        with self._lock:
            if name in self._held or len(data) > _CACHE // 4:
                return
            self._held[name] = data
            self._size += len(data)
            while self._size > _CACHE:
                self._size -= len(self._held.popitem(last=False)[1])
