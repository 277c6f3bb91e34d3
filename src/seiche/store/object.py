"""Objects in a bucket: S3 and what speaks its language, Google Cloud Storage, Azure Blob Storage."""

import hashlib
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from obstore import exceptions
from obstore.store import AzureStore, GCSStore, S3Store

from seiche.core.forked import NativeThreads
from seiche.core.retry import Patience
from seiche.core.runtime import SYSTEM, Runtime
from seiche.errors import AlreadyExists, CommitUnknown, InvalidInput, SeicheError, Unavailable
from seiche.store.base import Chunks, Data, ObjectInfo, Store
from seiche.store.files import joined
from seiche.store.object_errors import FAILURES, Purpose, behind_the_end, no_bucket, no_upload, status_of, translate
from seiche.store.paths import as_uri_path, check, check_directory, check_range, check_start_after, join, parent, valid
from seiche.store.read_ahead import read_ahead

if TYPE_CHECKING:
    from obstore import ListResult, ObjectMeta, PutResult, SuffixRange

__all__ = ["ObjectStore"]

Client: TypeAlias = S3Store | GCSStore | AzureStore

_CLIENTS: Mapping[str, Callable[..., Client]] = {"s3": S3Store, "gs": GCSStore, "az": AzureStore}

# Deletes of one object at a time are understood by every server that calls itself S3.
_DEFAULTS: Mapping[str, Mapping[str, str]] = {"s3": {"aws_disable_bulk_delete": "true"}}

# Among the options that native libraries take: where the manifest store is, which is none of the storage's business.
_OF_OTHERS = frozenset({"dynamodb_endpoint"})

# The names of the option that says where the server is, and of the variables that stand for it.
_ENDPOINT = ("aws_endpoint", "aws_endpoint_url", "endpoint", "endpoint_url")

_AGAIN = {"max_retries": 6, "retry_timeout": timedelta(seconds=60)}
# A conditional request that obstore sends twice because the first answer was lost finds its own file and reports it as
# somebody else's. So these are sent once, and what to do next is decided here.
_ONCE = {"max_retries": 0}

# How long to go on with a conditional request that the server keeps calling off because of others (status 409).
_CONFLICTS = Patience(attempts=10, timeout=30.0, first_delay=0.02, longest_delay=1.0)


# Servers list so many objects in one answer, or a multiple of it.
_PAGE = 1000

# The tag of an object that was not uploaded in parts, unless the server makes them otherwise.
_DIGEST = re.compile(r'"?([0-9a-f]{32})"?')

# What S3 copies in one request.
_LARGEST_COPY = 5 * 1024**3


# In a forked child every request would hang.
_threads = NativeThreads("object storage")


class ObjectStore(Store):
    """A store in a bucket, below a prefix. What a returned write wrote is as durable as the bucket.

    `options` are obstore's, which are those of pylance's `storage_options` as well: `aws_access_key_id`,
    `aws_endpoint`, `allow_http` and so on. What is missing is taken from the environment (`AWS_*`, `GOOGLE_*`,
    `AZURE_*`).
    """

    def __init__(
        self, scheme: str, bucket: str, prefix: str = "", *, runtime: Runtime = SYSTEM, options: Mapping[str, Any]
    ) -> None:
        self._uri = f"{scheme}://{bucket}"
        self._prefix = check_directory(prefix)
        self._base = prefix + "/" if prefix else ""
        self._runtime = runtime
        # With most S3 servers the tag of an object is the digest of its bytes, unless these are encrypted.
        self._tags_are_digests = scheme == "s3"
        self._options = {name.lower(): _text(value) for name, value in options.items()}
        own = {name: value for name, value in self._options.items() if name not in _OF_OTHERS}
        config = {**_DEFAULTS.get(scheme, {}), **own}
        if scheme == "s3":
            _check_endpoint(self._uri, own)
        try:
            self._client = _CLIENTS[scheme](bucket, config=config, retry_config=_AGAIN)
            self._client_once = _CLIENTS[scheme](bucket, config=config, retry_config=_ONCE)
        except FAILURES as error:
            raise InvalidInput(
                f"{self._uri}: {str(error).partition(chr(10))[0]}",
                remedy="Check the options of the store.",
                uri=self._uri,
            ) from error

    def __repr__(self) -> str:
        return f"ObjectStore({self.uri!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        scheme, _, bucket = self._uri.partition("://")
        return partial(type(self), scheme, bucket, self._prefix, runtime=self._runtime, options=self._options), ()

    @property
    def uri(self) -> str:
        return join(self._uri, as_uri_path(self._prefix))

    @property
    def native_options(self) -> Mapping[str, str]:
        return self._options

    def native_uri(self, path: str = "") -> str:
        # Native libraries read it as a URL: `#` and `?` would end the path, `%20` would be a space.
        return join(self._uri, as_uri_path(join(self._prefix, check_directory(path))))

    def get(self, path: str) -> bytes:
        with self._asking(path):
            found = self._client.get(self._key(path))
            content = bytes(found.bytes())
        self._check_whole(path, content, found.meta["e_tag"])
        return content

    def get_range(self, path: str, start: int, length: int) -> bytes:
        start, length = check_range(path, start, length)
        if length == 0:
            self.head(path)
            return b""
        try:
            if start < 0:
                return self._part(path, {"suffix": -start})[:length]
            return self._part(path, (start, start + length))
        except FAILURES as error:
            # A range that begins behind the end is refused, even in an empty object. Suffixes are refused in more ways:
            # Azure has none, and some servers send the whole of an empty object. The size settles it.
            if not behind_the_end(error) and (start >= 0 or isinstance(error, FileNotFoundError)):
                raise translate(error, path, self._uri, "read") from error
            return self._range_of_known_size(path, start, length)

    def head(self, path: str) -> ObjectInfo:
        key = self._key(path)
        with self._asking(path):
            try:
                return self._info(self._client.head(key))
            except FAILURES as error:
                if status_of(error) == 400:
                    # The answer to this request has no text, which tells credentials that have expired from a mistake.
                    self._client.get_range(key, start=0, length=1)
                raise

    def put(self, path: str, data: Data, *, durable: bool = True) -> None:
        content = joined(data)
        with self._asking(path, "write"):
            answer = self._client.put(self._key(path), content, mode="overwrite", use_multipart=False)
        self._confirm(path, content, answer)

    def put_if_absent(self, path: str, data: Data, *, durable: bool = True) -> None:
        content = joined(data)
        with self._asking(path, "write"):
            answer = self._create(path, lambda key: self._client_once.put(key, content, mode="create"))
        self._confirm(path, content, answer)

    def copy(self, source: str, target: str) -> None:
        self._copy(self._key(source), source, target)

    def copy_from(self, source: Store, path: str, target: str) -> None:
        origin, inside = source.origin(path)
        same = isinstance(origin, ObjectStore) and origin._uri == self._uri and origin._options == self._options
        if isinstance(origin, ObjectStore) and same and origin.head(inside).size <= _LARGEST_COPY:
            self._copy(origin._key(inside), inside, target)
        else:
            super().copy_from(origin, inside, target)

    def put_stream(self, path: str, chunks: Chunks) -> None:
        key = self._key(path)
        for again in (True, False):
            with read_ahead(chunks) as pieces, self._asking(path, "write"):
                try:
                    self._client.put(key, pieces, mode="overwrite", use_multipart=True)
                    return
                except FAILURES as error:
                    # The answer to its last request was lost, and the repetition found the upload finished, or gone: to
                    # write it anew is right in both cases.
                    if not (again and no_upload(error)):
                        raise

    def copy_if_absent(self, source: str, target: str) -> None:
        # Through this process, because the conditional put is the only request that every server decides correctly. The
        # server-side ways were raced: completing a multipart upload on condition let several of 8 writers win on
        # SeaweedFS, a copy with a condition in its header all of them on moto.
        check(target)
        self.put_if_absent(target, self.get(source))

    def rename_if_absent(self, source: str, target: str) -> None:
        self.copy_if_absent(source, target)
        with suppress(SeicheError):  # the target decides; what is left of the source is garbage
            self.delete(source)

    def delete(self, path: str) -> None:
        try:
            self._client.delete(self._key(path))
        except FAILURES as error:
            if isinstance(error, FileNotFoundError) and not no_bucket(error):
                return
            raise translate(error, path, self._uri, "read") from error

    def list(self, prefix: str = "", *, start_after: str = "", recursive: bool = True) -> Iterator[ObjectInfo]:
        check_start_after(check_directory(prefix), start_after)
        return self._files(prefix, start_after, recursive)

    def folders(self, prefix: str = "") -> Sequence[str]:
        _threads.check()
        with self._asking(prefix or self._prefix, "list"):
            found = self._level(join(self._prefix, check_directory(prefix)) or None)
            folders = (one.rstrip("/")[len(self._base) :] for one in found["common_prefixes"])
            return [one for one in folders if valid(one)]

    def _key(self, path: str) -> str:
        _threads.check()
        return self._base + check(path)

    def _info(self, meta: "ObjectMeta") -> ObjectInfo:
        etag = meta["e_tag"]
        path = meta["path"][len(self._base) :]
        return ObjectInfo(path, meta["size"], meta["last_modified"], etag and etag.strip('"'))

    def _copy(self, source_key: str, source: str, target: str) -> None:
        """Copy within the bucket; nothing to do onto itself, which S3 calls a mistake."""
        try:
            if source_key == self._key(target):
                self._client.head(source_key)
            else:
                self._client.copy(source_key, self._key(target), overwrite=True)
        except FAILURES as error:
            if isinstance(error, FileNotFoundError):
                raise translate(error, source, self._uri, "read") from error
            raise translate(error, target, self._uri, "write") from error

    def _range_of_known_size(self, path: str, start: int, length: int) -> bytes:
        size = self.head(path).size
        begin = start if start >= 0 else max(0, size + start)
        if begin >= size:
            return b""
        with self._asking(path):
            return self._part(path, (begin, min(begin + length, size)))

    def _part(self, path: str, wanted: "tuple[int, int] | SuffixRange") -> bytes:
        """Part of an object; `Unavailable` if it is not as long as the server says. Raises obstore's errors as well."""
        found = self._client.get(self._key(path), options={"range": wanted})
        first, end = found.range
        content = bytes(found.bytes())
        if len(content) != end - first:
            raise _cut(path, self._uri, len(content), end - first)
        return content

    def _check_whole(self, path: str, content: bytes, tag: str | None) -> None:
        """`Unavailable` if an object was sent in part, as if that were all of it.

        Its tag tells, where that is a digest (`_confirm`). If it is another, only the size is asked for.
        """
        digest = _DIGEST.fullmatch(tag or "")
        if self._tags_are_digests and digest is not None and digest[1] != _digest(content):
            size = self.head(path).size
            if size != len(content):
                raise _cut(path, self._uri, len(content), size)
            self._tags_are_digests = False

    def _create(self, path: str, act: "Callable[[str], PutResult]") -> "PutResult":
        """Let `act` create the object, again if the server calls it off; raises `AlreadyExists` or obstore's errors."""
        key = self._key(path)
        for _ in _CONFLICTS.tries(self._runtime):
            try:
                return act(key)
            except (exceptions.AlreadyExistsError, exceptions.PreconditionError) as error:
                # obstore takes 409 (others are at it, nothing was decided) for 412 (somebody owns the name); and Azure
                # answers 409 for both. Neither wrote anything, so what is there now tells.
                if status_of(error) == 412 or self.exists(path):
                    raise AlreadyExists(f"{path}: exists already", path=path) from error
        raise Unavailable(f"{path}: {self._uri} keeps calling it off because of other requests", path=path, status=409)

    def _confirm(self, path: str, content: bytes, answer: "PutResult") -> None:
        """`CommitUnknown` if the answer to a put is about something else than what was put.

        obstore follows the status 303 by getting what it leads to, and takes that answer for the one to the put: a page
        of a proxy, or another object. Its tag tells. Only where that is not the digest of what was put the object is
        read; if it is what was put, and has this tag, the tags of this server are something else, and say nothing more.
        """
        tag = answer["e_tag"]
        if not self._tags_are_digests or (tag or "").strip('"') == _digest(content):
            return
        doubt = f"{path}: the answer of {self._uri} is not about what was written"
        try:
            with self._asking(path):
                standing = self._client.get(self._key(path))
                same = bytes(standing.bytes()) == content
        except SeicheError as error:
            raise CommitUnknown(f"{doubt}: {error.message}", path=path) from error
        if not same:
            raise CommitUnknown(doubt, path=path)
        self._tags_are_digests = standing.meta["e_tag"] != tag

    @contextmanager
    def _asking(self, path: str, purpose: Purpose = "read") -> Iterator[None]:
        try:
            yield
        except FAILURES as error:
            raise translate(error, path, self._uri, purpose) from error

    def _files(self, prefix: str, start_after: str, recursive: bool) -> Iterator[ObjectInfo]:
        _threads.check()
        where = join(self._prefix, prefix) or None
        with self._asking(prefix or self._prefix, "list"):
            if recursive or start_after:
                # The server may only skip what comes first if nothing below is wanted: SeaweedFS lists in the order of
                # a directory tree and would skip whole directories.
                offset = None if recursive else self._base + start_after
                chunks: Iterable[Sequence[ObjectMeta]] = map(self._without_markers, self._pages(where, offset))
            else:
                chunks = [self._level(where)["objects"]]
            for chunk in chunks:
                for meta in chunk:
                    info = self._info(meta)
                    direct = parent(info.path) == prefix
                    if valid(info.path) and (info.path > start_after if direct else recursive):
                        yield info

    def _pages(self, where: str | None, offset: str | None) -> "Iterator[Sequence[ObjectMeta]]":
        """What the server lists, asked once more for what follows if that ends where an answer may have ended.

        Some servers answer with status 200 and an error inside, which obstore takes for an answer without objects, and
        so for the end of the listing. A clean-up would then take what it does not see, such as tags, for gone. That
        nothing follows a given name is no surprise, and not asked twice.
        """
        count, doubtful, first = 0, offset is None, ""
        while True:
            before = count
            for found in self._client.list(where, offset=offset, chunk_size=_PAGE):
                if found[0]["path"] == first:
                    raise InvalidInput(
                        f"{where or self._uri}: asked for what follows {offset!r}, the server lists everything anew",
                        remedy="Not all of a large folder could be listed. Run `seiche store probe` on this store.",
                        path=where or "",
                    )
                first = first or found[0]["path"]
                count, offset = count + len(found), found[-1]["path"]
                yield found
            if count % _PAGE or not (doubtful or count > before):
                return
            doubtful = False

    def _level(self, where: str | None) -> "ListResult[Sequence[ObjectMeta]]":
        """As `_pages`, of one level with the folders in it: of two answers the one with more in it counts."""
        found = self._client.list_with_delimiter(where)
        if _entries(found) % _PAGE:
            return found
        return max(found, self._client.list_with_delimiter(where), key=_entries)

    def _without_markers(self, found: "Sequence[ObjectMeta]") -> "Sequence[ObjectMeta]":
        """The objects without those that stand for a folder, as consoles and file browsers put them.

        Such a one is empty, and its key ends with a slash, which obstore leaves out. So an empty one is listed if there
        is an object of that name, which is asked for: empty files are rare.
        """
        empty = {meta["path"] for meta in found if meta["size"] == 0}
        there = dict(zip(empty, self.in_parallel(self._is_object, empty), strict=True))
        return [meta for meta in found if there.get(meta["path"], True)]

    def _is_object(self, key: str) -> bool:
        try:
            self._client.head(key)
        except FileNotFoundError:
            return False
        return True


def _cut(path: str, bucket: str, sent: int, size: int) -> Unavailable:
    return Unavailable(f"{path}: {bucket} sent {sent:,} bytes of {size:,}", path=path)


def _digest(content: bytes) -> str:
    return hashlib.md5(content, usedforsecurity=False).hexdigest()


def _entries(found: "ListResult[Sequence[ObjectMeta]]") -> int:
    return len(found["objects"]) + len(found["common_prefixes"])


def _check_endpoint(uri: str, options: Mapping[str, str]) -> None:
    # Without a scheme it would be taken, and native code would panic at the first request.
    variables = {name: os.environ[name.upper()] for name in _ENDPOINT[:2] if name.upper() in os.environ}
    for name, endpoint in {**variables, **options}.items():
        if name in _ENDPOINT and not endpoint.startswith(("http://", "https://")):
            raise InvalidInput(
                f"{uri}: {name} {endpoint!r} is not an address",
                remedy="Write it with http:// or https:// before the host.",
                uri=uri,
            )


def _text(value: object) -> str:
    """An option in the form that native libraries take."""
    return str(value).lower() if isinstance(value, bool) else str(value)
