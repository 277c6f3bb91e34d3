"""Answers that say 200 and mean something else: nothing is taken for done, empty or whole because of them."""

import hashlib
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, TypeAlias
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

import pytest

from seiche.errors import CommitUnknown, InvalidInput, NotFound, Unavailable
from seiche.store import Store, open_store
from seiche.testing import DictStore

ERROR = b"<?xml version='1.0'?><Error><Code>InternalError</Code><Message>Try again.</Message></Error>"
TIME = "Sun, 15 Nov 2026 10:00:00 GMT"

# Status, headers and body.
Answer: TypeAlias = tuple[int, dict[str, str], bytes]


class Server(ThreadingHTTPServer):
    """A small S3 server with `page` names in an answer. `strange` may answer a request in its place."""

    daemon_threads = True
    block_on_close = False

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.objects: dict[str, bytes] = {}
        self.requests: list[str] = []
        self.page = 1000
        self.older = False  # knows nothing of the newer form of listings, and says nothing of what follows an answer
        self.suffixes = True  # can be asked for the end of an object
        self.tag = digest
        self.strange: Callable[[str, str], Answer | None] = lambda _request, _key: None

    def open(self) -> Store:
        return open_store(
            "s3://bucket",
            aws_endpoint=f"http://127.0.0.1:{self.server_address[1]}",
            aws_access_key_id="key",
            aws_secret_access_key="secret",
            aws_region="us-east-1",
            allow_http=True,
        )

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients that hang up are part of the test."""


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Server

    def log_message(self, *_: object) -> None:
        """Be quiet."""

    def answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        address = urlsplit(self.path)
        key = unquote(address.path).removeprefix("/bucket").lstrip("/")
        request = self.command if key else "LIST"
        self.server.requests.append(request)
        status, headers, content = self.server.strange(request, key) or self.usual(request, key, address.query, body)
        self.send_response(status)
        for name, value in {"Content-Length": str(len(content)), "Last-Modified": TIME, **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    do_GET = do_PUT = do_HEAD = answer

    def usual(self, request: str, key: str, query: str, body: bytes) -> Answer:
        objects = self.server.objects
        if request == "LIST":
            return 200, {}, self.listing({name: values[0] for name, values in parse_qs(query).items()})
        if request == "PUT":
            if "if-none-match" in self.headers and key in objects:
                return 412, {}, ERROR
            objects[key] = body
            return 200, {"ETag": self.server.tag(body)}, b""
        if key not in objects:
            return 404, {}, ERROR
        content, wanted = objects[key], self.headers.get("range")
        if wanted is None:
            return 200, {"ETag": self.server.tag(content)}, content
        start, stop = wanted.removeprefix("bytes=").split("-")
        if not start and not self.server.suffixes:
            return 200, {"ETag": self.server.tag(content)}, content
        first = int(start) if start else max(0, len(content) - int(stop))
        last = min(int(stop), len(content) - 1) if start else len(content) - 1
        part = {"ETag": self.server.tag(content), "Content-Range": f"bytes {first}-{last}/{len(content)}"}
        return 206, part, content[first : last + 1]

    def listing(self, query: dict[str, str]) -> bytes:
        prefix, delimiter = query.get("prefix", ""), query.get("delimiter")
        after = "" if self.server.older else query.get("continuation-token", query.get("start-after", ""))
        found = [key for key in sorted(self.server.objects) if key.startswith(prefix) and key > after]
        page, more = found[: self.server.page], found[self.server.page :]
        inside = {key: key.removeprefix(prefix) for key in page}
        below = {key: rest.partition("/")[0] for key, rest in inside.items() if delimiter and "/" in rest}
        parts = [f"<CommonPrefixes><Prefix>{prefix}{one}/</Prefix></CommonPrefixes>" for one in {*below.values()}]
        parts += [
            f"<Contents><Key>{escape(key)}</Key><Size>{len(self.server.objects[key])}</Size><ETag>etag</ETag>"
            "<LastModified>2026-11-15T10:00:00.000Z</LastModified></Contents>"
            for key in page
            if key not in below
        ]
        if more and not self.server.older:
            parts.append(f"<NextContinuationToken>{escape(page[-1])}</NextContinuationToken>")
        return f"<?xml version='1.0'?><ListBucketResult>{''.join(parts)}</ListBucketResult>".encode()


def digest(content: bytes) -> str:
    return f'"{hashlib.md5(content, usedforsecurity=False).hexdigest()}"'


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as running:
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield running
        running.shutdown()
        thread.join()


def fails_once(server: Server, number: int) -> None:
    """Let the listing request of this number be answered with 200 and an error document."""

    def strange(request: str, _key: str) -> Answer | None:
        return (200, {}, ERROR) if request == "LIST" and server.requests.count("LIST") == number else None

    server.strange = strange


LISTINGS: dict[str, Callable[[Store], set[str]]] = {
    "everything": lambda store: {info.path for info in store.list()},
    "one level": lambda store: {info.path for info in store.list(recursive=False)},
    "folders": lambda store: set(store.folders() or ()),
}


@pytest.mark.parametrize("count", [2, 2000])
@pytest.mark.parametrize("kind", LISTINGS)
def test_an_error_in_place_of_a_page_is_not_the_end_of_a_listing(server: Server, kind: str, count: int) -> None:
    server.objects = {f"{number:04}{'/x' if kind == 'folders' else ''}": b"content" for number in range(count)}
    store = server.open()
    expected = LISTINGS[kind](store)
    assert len(expected) == count
    for number in range(1, count // server.page + 2):
        server.requests.clear()
        fails_once(server, number)
        assert LISTINGS[kind](store) == expected, f"request {number} was answered with an error"


def test_only_listings_that_may_have_been_cut_are_asked_for_again(server: Server) -> None:
    store = server.open()
    for count, requests in ((0, 2), (1, 1), (999, 1), (1000, 2), (1001, 2)):
        server.objects = {f"{number:04}": b"x" for number in range(count)}
        for listing in LISTINGS.values():
            server.requests.clear()
            listing(store)
            assert server.requests == ["LIST"] * requests, f"{count} objects"


def test_that_nothing_follows_a_name_is_asked_once(server: Server) -> None:
    server.objects = {"a": b"x", "b": b"y"}
    assert list(server.open().list(start_after="b", recursive=False)) == []
    assert server.requests == ["LIST"]


def test_a_server_that_cannot_say_what_follows_a_name_is_not_asked_for_ever(server: Server) -> None:
    """Whether there is more than fits into one answer, nobody would know: it may only know the older form of listings,
    in which what follows is asked for in another way.
    """
    server.objects = {f"{number:04}": b"x" for number in range(1500)}
    server.older = True
    with pytest.raises(InvalidInput):
        list(server.open().list())


def see_other(put: str, place: str) -> Callable[[str, str], Answer | None]:
    return lambda request, key: (303, {"Location": f"/bucket/{place}"}, b"") if (request, key) == ("PUT", put) else None


@pytest.mark.parametrize("verb", ["put", "put_if_absent"])
def test_a_put_that_is_sent_elsewhere_is_not_taken_for_done(server: Server, verb: str) -> None:
    store = server.open()
    put = getattr(store, verb)
    server.objects["page"] = b"Please log in."
    server.strange = see_other("root", "page")
    with pytest.raises(CommitUnknown):
        put("root", b"mine")
    assert "root" not in server.objects
    server.strange = lambda _request, _key: None
    put("root", b"mine")
    assert server.objects["root"] == b"mine"


def test_a_put_that_led_to_anothers_object_of_that_name_is_not_taken_for_done(server: Server) -> None:
    server.objects = {"root": b"thei", "page": b"thei"}
    server.strange = see_other("root", "page")
    with pytest.raises(CommitUnknown):
        server.open().put_if_absent("root", b"mine")


@pytest.mark.parametrize("look", [(503, {}, ERROR), (403, {}, ERROR)], ids=["no answer", "not allowed"])
def test_a_put_with_a_strange_answer_that_cannot_be_looked_at_is_unknown(
    server: Server, look: Answer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("seiche.store.object._AGAIN", {"max_retries": 0})
    server.objects["page"] = b"Please log in."
    moved = see_other("root", "page")
    server.strange = lambda request, key: look if (request, key) == ("GET", "root") else moved(request, key)
    with pytest.raises(CommitUnknown):
        server.open().put_if_absent("root", b"mine")


def test_no_request_is_made_to_confirm_a_put_and_one_in_all_where_tags_are_no_digests(server: Server) -> None:
    store = server.open()
    store.put_if_absent("a", b"mine")
    store.put_if_absent("b", [b"mine", b"too"])
    assert server.requests == ["PUT", "PUT"]
    server.tag = lambda content: f'"encrypted-{len(content)}"'
    for name in "cde":
        store.put_if_absent(name, b"mine")
    assert server.requests[2:] == ["PUT", "GET", "PUT", "PUT"]


def in_part(content: bytes, sent: bytes, wanted: str = "") -> Answer:
    """An answer with `sent` for `content`, of which nothing but its tag, or its range, tells that it is not all."""
    headers = {"ETag": digest(content)}
    return (206, {**headers, "Content-Range": wanted}, sent) if wanted else (200, headers, sent)


READS: dict[str, Callable[[Store], object]] = {
    "get": lambda store: store.get("file"),
    "copy_if_absent": lambda store: store.copy_if_absent("file", "other"),
    "rename_if_absent": lambda store: store.rename_if_absent("file", "other"),
}


@pytest.mark.parametrize("verb", READS)
def test_part_of_an_object_is_not_taken_for_all_of_it(server: Server, verb: str) -> None:
    server.objects = {"file": b"0123456789"}
    server.strange = lambda request, _: in_part(b"0123456789", b"01234") if request == "GET" else None
    with pytest.raises(Unavailable, match="5 bytes of 10"):
        READS[verb](server.open())
    assert server.objects == {"file": b"0123456789"}


@pytest.mark.parametrize("start", [2, -8])
@pytest.mark.parametrize("sent", [b"", b"23", b"2345678"])
def test_part_of_a_range_is_not_taken_for_all_of_it(server: Server, start: int, sent: bytes) -> None:
    server.objects = {"file": b"0123456789"}
    wanted = "bytes 2-5/10" if start > 0 else "bytes 2-9/10"
    server.strange = lambda *_: in_part(b"0123456789", sent, wanted)
    with pytest.raises(Unavailable):
        server.open().get_range("file", start, 4)


def test_the_end_of_an_object_is_found_where_a_server_cannot_be_asked_for_it(server: Server) -> None:
    server.suffixes = False
    server.objects = {"file": b"0123456789", "empty": b""}
    store = server.open()
    for start, length, expected in ((-4, 4, b"6789"), (-4, 2, b"67"), (-4, 99, b"6789"), (-99, 3, b"012")):
        assert store.get_range("file", start, length) == expected
    assert store.get_range("empty", -4, 4) == b""
    with pytest.raises(NotFound):
        store.get_range("missing", -4, 4)


def test_no_request_is_made_to_confirm_a_read_and_one_in_all_where_tags_are_no_digests(server: Server) -> None:
    store = server.open()
    server.objects = {"file": b"0123456789"}
    assert [store.get("file"), store.get_range("file", 2, 3)] == [b"0123456789", b"234"]
    assert server.requests == ["GET", "GET"]
    server.tag = lambda content: digest(content)[:-2] + '-2"'  # as of an upload in two parts
    assert store.get("file") == b"0123456789"
    server.tag = lambda content: digest(content + b"encrypted")
    assert [store.get("file"), store.get("file")] == [b"0123456789"] * 2
    assert server.requests[2:] == ["GET", "GET", "HEAD", "GET"]


class EndsEarly(DictStore):
    def get_range(self, path: str, start: int, length: int) -> bytes:
        return super().get_range(path, start, length)[:-1]


def test_a_file_that_ends_early_is_not_copied() -> None:
    source, target = EndsEarly(), DictStore()
    source.put("file", b"0123456789")
    with pytest.raises(Unavailable, match="9 bytes are there of 10"):
        target.copy_from(source, "file", "copy")
    assert list(target.list()) == []
