"""What the object store makes of every answer that a server can give, or fail to give."""

import socket
import struct
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from hashlib import md5
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from obstore.store import S3Store

from seiche.core.runtime import Runtime
from seiche.errors import (
    AlreadyExists,
    CommitUnknown,
    InvalidInput,
    NotFound,
    PermissionDenied,
    SeicheError,
    Unavailable,
)
from seiche.store import Store, open_store
from seiche.store.object_errors import FAILURES, never_sent, status_of
from tests.servers import S3Server

# Ways to end a request without an answer, after the server has read it.
SILENCES = ("close", "reset", "half an answer", "garbage", "hang")


class Server(ThreadingHTTPServer):
    """A server that does what it is told: `answers` are taken one by one, the last one for ever."""

    daemon_threads = True
    block_on_close = False

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.answers: list[int | str] = [200]
        self.requests: list[str] = []
        self.head_refused = 0
        self.objects: dict[str, bytes] = {}
        self.patience = threading.Event()

    def next_answer(self) -> int | str:
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients that hang up are part of the test."""


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Server

    def log_message(self, *_: object) -> None:
        """Be quiet."""

    def answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        condition = "if-none-match" in self.headers
        self.server.requests.append(f"{self.command}{' if absent' if condition else ''}")
        answer = self.server.next_answer() if self.command != "HEAD" else 200
        if self.command == "HEAD" and self.server.head_refused:
            self.reply(self.server.head_refused)
        elif self.command == "HEAD":
            self.reply(200 if self.path in self.server.objects else 404, len(self.server.objects.get(self.path, b"")))
        elif isinstance(answer, int):
            if answer == 200 and self.command == "PUT":
                if condition and self.path in self.server.objects:
                    answer = 412
                else:
                    self.server.objects[self.path] = body
            self.reply(answer)
        elif answer[:3].isdigit():
            self.reply(int(answer[:3]), code=answer[4:])
        else:
            self.fall_silent(answer, body)

    def fall_silent(self, how: str, body: bytes) -> None:
        if how.startswith("took effect, "):
            self.server.objects[self.path] = body
            how = how.removeprefix("took effect, ")
        if how == "reset":
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        elif how == "half an answer":
            self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Le")
        elif how == "garbage":
            self.wfile.write(b"\x00\x01\x02 what is this\r\n\r\n")
        elif how == "hang":
            self.server.patience.wait(20)
        self.close_connection = True
        self.connection.close()

    def reply(self, status: int, size: int = 0, code: str = "") -> None:
        text = f"<?xml version='1.0'?><Error><Code>{code or f'Code{status}'}</Code>\n  status: 412,\n</Error>".encode()
        body = text if status >= 400 and self.command != "HEAD" else b""
        if self.command == "POST" and status == 200:  # an upload in parts begins, or ends
            body = b"<Upload><UploadId>upload</UploadId><ETag>etag</ETag></Upload>"
        elif self.command == "GET" and status == 200:
            body = self.server.objects.get(self.path, b"")
        self.send_response(status)
        self.send_header("ETag", f'"{md5(self.server.objects.get(self.path, b""), usedforsecurity=False).hexdigest()}"')
        if code == "elsewhere":
            self.send_header("Location", "http://127.0.0.1:1/")
        self.send_header("Last-Modified", "Sun, 15 Nov 2026 10:00:00 GMT")
        self.send_header("Content-Length", str(size or len(body)))
        if status == 206:
            self.send_header("Content-Range", f"bytes {(end := len(self.server.objects[self.path]))}-{end - 1}/{end}")
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = answer


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as running:
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield running
        running.patience.set()
        running.shutdown()
        thread.join()


def options(server: Server | None, **more: str) -> dict[str, Any]:
    port = server.server_address[1] if server else 1
    return {
        "aws_endpoint": f"http://127.0.0.1:{port}",
        "aws_access_key_id": "key",
        "aws_secret_access_key": "secret",
        "aws_region": "us-east-1",
        "allow_http": "true",
        "timeout": "1s",
        **more,
    }


@pytest.fixture
def store(server: Server) -> Store:
    return open_store("s3://bucket/prefix", runtime=Runtime.seeded(1), **options(server))


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (412, AlreadyExists),
        (500, CommitUnknown),
        (502, CommitUnknown),
        (503, CommitUnknown),
        (504, CommitUnknown),
        (408, CommitUnknown),
        ("400 ExpiredToken", PermissionDenied),
        ("400 InvalidToken", PermissionDenied),
        ("400 RequestTimeout", CommitUnknown),
        (400, InvalidInput),
        (405, InvalidInput),
        (501, InvalidInput),
        (401, PermissionDenied),
        (403, PermissionDenied),
        (404, NotFound),
        (429, Unavailable),
        (301, InvalidInput),
        ("301 elsewhere", InvalidInput),
        ("307 elsewhere", InvalidInput),
        *((silence, CommitUnknown) for silence in SILENCES),
        *((f"took effect, {silence}", CommitUnknown) for silence in SILENCES),
    ],
)
def test_a_conditional_put_is_sent_once_and_never_guessed_about(
    server: Server, store: Store, answer: int | str, error: type[SeicheError]
) -> None:
    server.answers = [answer, 200]
    with pytest.raises(SeicheError) as raised:
        store.put_if_absent("f", b"mine")
    assert raised.type is error
    assert server.requests == ["PUT if absent"], "a second one would find the first and take it for somebody else's"


@pytest.mark.parametrize("conflicts", [1, 3])
def test_a_conflict_decides_nothing_and_is_tried_again(server: Server, store: Store, conflicts: int) -> None:
    server.answers = [*[409] * conflicts, 200]
    store.put_if_absent("f", b"mine")
    assert server.objects == {"/bucket/prefix/f": b"mine"}
    assert server.requests.count("PUT if absent") == conflicts + 1


def test_a_conflict_about_a_name_that_is_taken_is_lost(server: Server, store: Store) -> None:
    server.objects["/bucket/prefix/f"] = b"theirs"
    server.answers = [409, 200]
    with pytest.raises(AlreadyExists):
        store.put_if_absent("f", b"mine")
    assert server.objects == {"/bucket/prefix/f": b"theirs"}


def test_endless_conflicts_are_unavailable(server: Server, store: Store) -> None:
    server.answers = [409]
    with pytest.raises(Unavailable) as raised:
        store.put_if_absent("f", b"mine")
    assert raised.value.status == 409
    assert server.objects == {}
    assert server.requests.count("PUT if absent") == 10


def test_a_conflict_and_then_silence_is_unknown(server: Server, store: Store) -> None:
    server.answers = [409, "took effect, close"]
    with pytest.raises(CommitUnknown):
        store.put_if_absent("f", b"mine")


def test_somebody_elses_412_is_not_read_into_a_409(server: Server, store: Store) -> None:
    # The body of every error here contains a line that looks like the status in obstore's debug text.
    server.answers = [409, 200]
    store.put_if_absent("f", b"mine")
    assert server.objects == {"/bucket/prefix/f": b"mine"}


def test_a_server_that_cannot_be_reached_is_unavailable() -> None:
    store = open_store("s3://bucket", **options(None))
    with pytest.raises(Unavailable):
        store.put_if_absent("f", b"mine")


@pytest.mark.parametrize("write", ["put", "copy"])
@pytest.mark.parametrize(("answer", "error"), [(500, CommitUnknown), (403, PermissionDenied), (400, InvalidInput)])
def test_an_overwrite_that_fails_for_good(
    server: Server, write: str, answer: int, error: type[SeicheError], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("seiche.store.object._AGAIN", {"max_retries": 1})
    store = open_store("s3://bucket/prefix", **options(server))
    server.answers = [answer]
    writes: dict[str, Callable[[], None]] = {"put": lambda: store.put("f", b"x"), "copy": lambda: store.copy("e", "f")}
    with pytest.raises(error):
        writes[write]()


def test_reads_and_overwrites_are_repeated_until_they_succeed(server: Server, store: Store) -> None:
    server.answers = [500, "close", 503, 200]
    store.put("f", b"mine")
    assert server.objects == {"/bucket/prefix/f": b"mine"}
    assert server.requests == ["PUT"] * 4
    server.answers = [500, "close", 200]
    assert store.get("f") == b"mine"
    assert server.requests[4:] == ["GET"] * 3


@pytest.mark.parametrize(
    ("again", "outcome"), [([200, 200, 200], None), ([200, 200, "404 NoSuchUpload"], CommitUnknown)]
)
def test_an_upload_that_is_gone_when_its_last_request_is_repeated_is_done_anew_and_never_guessed_about(
    server: Server, store: Store, again: list[int | str], outcome: type[SeicheError] | None
) -> None:
    server.answers = [200, 200, "close", "404 NoSuchUpload", 204, *again, 204]
    begun: list[int] = []

    def pieces() -> Iterator[bytes]:
        begun.append(1)
        yield b"mine"

    with pytest.raises(outcome) if outcome else nullcontext():
        store.put_stream("f", pieces)
    assert len(begun) == 2, "the bucket is not missing, and what is there may not be whole"
    first = ["POST", "PUT", "POST", "POST", "DELETE"]
    assert server.requests[:8] == [*first, "POST", "PUT", "POST"]


READS: dict[str, Callable[[Store], object]] = {
    "get": lambda store: store.get("f"),
    "get_range": lambda store: store.get_range("f", 3, 4),
    "list": lambda store: list(store.list("d")),
    "flat list": lambda store: list(store.list("d", recursive=False)),
    "later list": lambda store: list(store.list("d", start_after="d/x", recursive=False)),
    "delete": lambda store: store.delete("f"),
}


@pytest.mark.parametrize("read", READS)
@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (403, PermissionDenied),
        (401, PermissionDenied),
        (400, InvalidInput),
        ("400 ExpiredToken", PermissionDenied),
        ("400 RequestTimeout", Unavailable),
    ],
)
def test_reads_that_are_refused(
    server: Server, store: Store, read: str, answer: int | str, error: type[SeicheError]
) -> None:
    server.objects["/bucket/prefix/f"] = b"12345678"
    server.answers = [answer]
    with pytest.raises(error):
        READS[read](store)


@pytest.mark.parametrize(
    ("reason", "error"),
    [("400 ExpiredToken", PermissionDenied), ("400 RequestTimeout", Unavailable), (400, InvalidInput), (404, NotFound)],
)
def test_why_a_look_at_a_name_is_refused_is_asked_for_as_its_answer_has_no_text(
    server: Server, store: Store, reason: int | str, error: type[SeicheError]
) -> None:
    server.head_refused = 400
    server.answers = [reason]
    with pytest.raises(error):
        store.head("f")
    assert server.requests[:2] == ["HEAD", "GET"]


@pytest.mark.parametrize("read", READS)
def test_reads_that_are_not_answered_are_unavailable(
    server: Server, read: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("seiche.store.object._AGAIN", {"max_retries": 0})
    store = open_store("s3://bucket/prefix", **options(server))
    server.objects["/bucket/prefix/f"] = b"12345678"
    for answer in (500, *SILENCES[:4]):
        server.answers = [answer]
        with pytest.raises(Unavailable):
            READS[read](store)


@pytest.mark.parametrize("answer", [206, 416])
def test_behind_the_end_is_nothing_whether_the_server_refuses_or_sends_an_empty_part(
    server: Server, store: Store, answer: int
) -> None:
    server.objects["/bucket/prefix/f"] = b"12345678"
    server.answers = [answer]
    assert store.get_range("f", 8, 4) == b""
    assert server.requests == ["GET", "HEAD"]


@pytest.mark.parametrize("status", [304, 400, 401, 403, 404, 408, 409, 412, 416, 429, 500, 501, 503])
def test_the_status_can_still_be_read_from_what_obstore_raises(server: Server, status: int) -> None:
    """If this fails after an upgrade, nothing is unsafe: every status that cannot be read counts as unknown."""
    server.answers = [status]
    once = S3Store("bucket", config=options(server), retry_config={"max_retries": 0})  # type: ignore[arg-type]
    with pytest.raises(FAILURES) as raised:
        once.put("k", b"", mode="create")
    assert status_of(raised.value) == status
    assert not never_sent(raised.value)


@pytest.mark.parametrize("silence", SILENCES)
def test_what_was_sent_and_not_answered_counts_as_sent(server: Server, silence: str) -> None:
    server.answers = [silence]
    once = S3Store("bucket", config=options(server), retry_config={"max_retries": 0})  # type: ignore[arg-type]
    with pytest.raises(FAILURES) as raised:
        once.put("k", b"", mode="create")
    assert status_of(raised.value) is None
    assert not never_sent(raised.value)


@pytest.mark.parametrize("endpoint", ["http://127.0.0.1:1", "http://no-such-host.invalid:80"])
def test_what_could_not_be_sent_is_known(endpoint: str) -> None:
    config = options(None, aws_endpoint=endpoint)
    once = S3Store("bucket", config=config, retry_config={"max_retries": 0})  # type: ignore[arg-type]
    with pytest.raises(FAILURES) as raised:
        once.put("k", b"", mode="create")
    assert never_sent(raised.value)


def test_a_path_cannot_pretend_to_be_a_failed_connection(server: Server) -> None:
    server.answers = ["close"]
    store = open_store("s3://bucket", **options(server))
    with pytest.raises(CommitUnknown):
        store.put_if_absent("HttpError { kind: Connect, status: 412,", b"mine")


@pytest.mark.parametrize("name", ["seaweedfs", "moto"])
def test_a_missing_bucket_is_named(name: str, request: pytest.FixtureRequest) -> None:
    store = open_store("s3://no-such-bucket/p", **request.getfixturevalue(name).options)
    calls: list[Callable[[], object]] = [
        lambda: store.put("f", b"x"),
        lambda: store.put_if_absent("f", b"x"),
        lambda: store.get("f"),
        lambda: list(store.list()),
        lambda: store.copy("f", "g"),
        lambda: store.copy_if_absent("f", "g"),
        lambda: store.delete("f"),
    ]
    for call in calls:
        with pytest.raises(NotFound, match="no-such-bucket") as raised:
            call()
        assert raised.value.bucket == "s3://no-such-bucket"


@pytest.mark.parametrize("name", ["seaweedfs", "moto"])
def test_objects_that_stand_for_folders_are_no_files(name: str, request: pytest.FixtureRequest) -> None:
    server = request.getfixturevalue(name)
    store = open_store(server.uri(), **server.options)
    bucket, _, prefix = store.uri.removeprefix("s3://").partition("/")
    store.put("d/a", b"x")
    store.put("d/empty", b"")
    for folder in ("", "d/", "d/e/", "d/e/f/", "g/"):
        server.client().put_object(Bucket=bucket, Key=f"{prefix}/{folder}", Body=b"")
    for listed in (store.list(), store.list("d"), store.list("d", recursive=False)):
        assert [info.path for info in listed] == ["d/a", "d/empty"]
    assert [info.path for info in store.list("d", start_after="d/a", recursive=False)] == ["d/empty"]
    assert list(store.list("g")) == list(store.list("d/e")) == []


def test_folders_of_names_that_no_verb_takes_are_passed_over(moto: S3Server) -> None:
    store = open_store(moto.uri(), **moto.options)
    bucket, _, prefix = store.uri.removeprefix("s3://").partition("/")
    store.put("d/f", b"")
    moto.client().put_object(Bucket=bucket, Key=f"{prefix}/a\\b/f", Body=b"")
    assert store.folders() == ["d"]
    assert [info.path for info in store.list()] == ["d/f"]


@pytest.mark.parametrize("key", ["x//y", "x/./y", "x/a\ty"])
def test_a_foreign_key_that_is_no_path_is_named_and_not_waited_for(moto: S3Server, key: str) -> None:
    store = open_store(moto.uri(), **moto.options)
    bucket, _, prefix = store.uri.removeprefix("s3://").partition("/")
    store.put("d/good", b"")
    moto.client().put_object(Bucket=bucket, Key=f"{prefix}/{key}", Body=b"")
    for folder in ("", "x"):
        with pytest.raises(InvalidInput) as raised:
            list(store.list(folder))
        assert f"{prefix}/{key}" in raised.value.message
        assert "Remove it" in raised.value.remedy
    assert [info.path for info in store.list("d")] == ["d/good"]


@pytest.mark.parametrize("wrong", [{"aws_secret_access_key": "wrong"}, {"aws_access_key_id": "nobody"}])
def test_wrong_credentials_are_refused_and_write_nothing(seaweedfs: S3Server, wrong: dict[str, str]) -> None:
    uri = seaweedfs.uri()
    good = open_store(uri, **seaweedfs.options)
    good.put("kept", b"x")
    bad = open_store(uri, **{**seaweedfs.options, **wrong})
    calls: list[Callable[[], object]] = [
        lambda: bad.get("kept"),
        lambda: bad.head("kept"),
        lambda: bad.exists("none"),
        lambda: bad.get_range("kept", 0, 1),
        lambda: list(bad.list()),
        lambda: list(bad.list(recursive=False)),
        lambda: bad.put("new", b"x"),
        lambda: bad.put_if_absent("new", b"x"),
        lambda: bad.copy("kept", "new"),
        lambda: bad.copy_if_absent("kept", "new"),
        lambda: bad.rename_if_absent("kept", "new"),
        lambda: bad.delete("kept"),
    ]
    for call in calls:
        with pytest.raises(PermissionDenied):
            call()
    assert [info.path for info in good.list()] == ["kept"]


def test_credentials_come_from_the_environment(seaweedfs: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_ENDPOINT", "AWS_REGION"):
        monkeypatch.setenv(name, seaweedfs.options[name.lower()])
    monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
    store = open_store(seaweedfs.uri())
    store.put_if_absent("f", b"x")
    assert store.get("f") == b"x"


def test_a_forked_child_is_told_instead_of_left_hanging(moto: S3Server) -> None:
    script = f"""
        import os, signal
        from seiche.errors import InvalidInput
        from seiche.store import open_store

        def opened():
            return open_store({moto.uri()!r}, **{moto.options!r})

        def in_child(work):
            child = os.fork()
            if child == 0:
                signal.alarm(20)
                try:
                    print(work(), flush=True)
                except InvalidInput as error:
                    print(error.remedy[:13], flush=True)
                os._exit(0)
            assert os.waitpid(child, 0)[1] == 0

        in_child(lambda: opened().put("f", b"x"))
        store = opened()
        print(store.get("f"), flush=True)
        for work in (lambda: store.get("f"), lambda: opened().get("f"), lambda: list(opened().list())):
            in_child(work)
    """
    ran = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, check=False, timeout=100
    )
    assert ran.stdout.splitlines() == ["None", "b'x'", *["Start workers"] * 3], ran.stderr


@pytest.mark.parametrize("call", [lambda store: store.get("a"), lambda store: store.put_if_absent("a", b"x")])
def test_plain_http_that_is_not_allowed_is_a_mistake_to_correct(
    server: Server, call: Callable[[Store], object]
) -> None:
    given = {name: value for name, value in options(server).items() if name != "allow_http"}
    with pytest.raises(InvalidInput, match="was not sent") as caught:
        call(open_store("s3://bucket/below", **given))
    assert "AWS_ALLOW_HTTP" in caught.value.remedy
    assert not server.requests


@pytest.mark.parametrize("call", [lambda store: store.get("a"), lambda store: store.put_if_absent("a", b"x")])
def test_a_bucket_of_another_region_is_a_mistake_to_correct(
    server: Server, store: Store, call: Callable[[Store], object]
) -> None:
    server.answers = [301]
    with pytest.raises(InvalidInput) as caught:
        call(store)
    assert "region" in caught.value.remedy


@pytest.mark.parametrize("where", ["option", "environment"])
def test_an_endpoint_without_a_scheme_is_refused(where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    given: dict[str, Any] = {"aws_endpoint": "minio:9000"} if where == "option" else {}
    if not given:
        monkeypatch.setenv("AWS_ENDPOINT_URL", "minio:9000")
    with pytest.raises(InvalidInput, match="minio:9000") as caught:
        open_store("s3://bucket", **given)
    assert "http://" in caught.value.remedy


def test_unknown_options_are_refused_by_name() -> None:
    for uri in ("s3://bucket", "gs://bucket", "az://container"):
        with pytest.raises(InvalidInput, match="no_such_option"):
            open_store(uri, no_such_option="x")
