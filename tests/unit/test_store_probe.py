"""The probe trusts good stores and finds each kind of bad one."""

import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

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
from seiche.store import ObjectInfo, ProbeReport, Store, open_store, probe
from seiche.store.base import Data
from seiche.testing import CountingStore, DictStore
from tests.servers import S3Server
from tests.store_backends import BACKENDS, backend


@pytest.mark.parametrize("name", [name for name in BACKENDS if name not in ("local-named", "local-rename")])
def test_good_stores_are_trusted_and_left_as_they_were(
    name: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    store = backend(name, tmp_path, request).open()
    store.put("mine", b"x")
    report = probe(store, quick=name in ("seaweedfs", "moto"))
    assert [row for row in report.rows if row.result not in ("ok", "info")] == []
    assert report.trusted
    report.require()
    assert [info.path for info in store.list()] == ["mine"]


def test_a_local_probe_leaves_no_directory_behind(tmp_path: Path) -> None:
    probe(open_store(tmp_path / "store"))
    assert list((tmp_path / "store").iterdir()) == []


class IgnoresConditions(DictStore):
    def put_if_absent(self, path: str, data: Data, *, durable: bool = True) -> None:
        self.put(path, data)


class LooksFirst(DictStore):
    """Correct for one writer at a time."""

    def __init__(self) -> None:
        super().__init__()
        self.meeting = threading.Barrier(4)

    def put_if_absent(self, path: str, data: Data, *, durable: bool = True) -> None:
        if self.exists(path):
            raise AlreadyExists(path)
        if "race" in path:
            self.meeting.wait(10)
        self.put(path, data)


class KeepsTheLoser(DictStore):
    def put_if_absent(self, path: str, data: Data, *, durable: bool = True) -> None:
        try:
            super().put_if_absent(path, data)
        except AlreadyExists:
            self.put(path, data)
            raise


class RefusesEverybody(DictStore):
    def put_if_absent(self, path: str, data: Data, *, durable: bool = True) -> None:
        if "race" in path:
            raise AlreadyExists(path)
        super().put_if_absent(path, data)


class ShowsOldBytes(DictStore):
    def put(self, path: str, data: Data, *, durable: bool = True) -> None:
        if not self.exists(path):
            super().put(path, data)


class ListsLate(DictStore):
    def list(self, prefix: str = "", *, start_after: str = "", recursive: bool = True) -> Iterator[ObjectInfo]:
        found = [*super().list(prefix, start_after=start_after, recursive=recursive)]
        return iter(found[:-1] if "list" in prefix else found)


class CopiesOverOthers(DictStore):
    def copy_if_absent(self, source: str, target: str) -> None:
        self.copy(source, target)


class RenamesOverOthers(DictStore):
    def rename_if_absent(self, source: str, target: str) -> None:
        self.copy(source, target)
        self.delete(source)


class CopiesOnlyToNewNames(DictStore):
    def copy(self, source: str, target: str) -> None:
        with suppress(AlreadyExists):
            self.copy_if_absent(source, target)


class RefusesEverybodyLater(DictStore):
    """After one answer that it lost, in an earlier round."""

    def put_if_absent(self, path: str, data: Data, *, durable: bool = True) -> None:
        if "race" in path and not path.endswith("/0"):
            raise AlreadyExists(path)
        super().put_if_absent(path, data)
        if "race" in path:
            raise CommitUnknown(path)


class SaysNothingHappened(DictStore):
    def put_if_absent(self, path: str, data: Data, *, durable: bool = True) -> None:
        super().put_if_absent(path, data)
        if "race" in path:
            raise Unavailable(path)


class NeverDeletes(DictStore):
    def delete(self, path: str) -> None:
        raise PermissionDenied(f"{path}: may not be deleted")


class ListsBackwards(DictStore):
    def list(self, prefix: str = "", *, start_after: str = "", recursive: bool = True) -> Iterator[ObjectInfo]:
        return reversed([*super().list(prefix, start_after=start_after, recursive=recursive)])


class ForgetsTheStart(DictStore):
    def list(self, prefix: str = "", *, start_after: str = "", recursive: bool = True) -> Iterator[ObjectInfo]:
        return super().list(prefix, recursive=recursive)


class DecodesNames(DictStore):
    def put_if_absent(self, path: str, data: Data, *, durable: bool = True) -> None:
        super().put_if_absent(path.replace("%20", "_"), data)


class CannotReadTheEnd(DictStore):
    def get_range(self, path: str, start: int, length: int) -> bytes:
        return super().get_range(path, max(0, start), length)


class InventsFiles(DictStore):
    def get(self, path: str) -> bytes:
        try:
            return super().get(path)
        except NotFound:
            return b""


@pytest.mark.parametrize(
    ("bad", "check", "quick"),
    [
        (IgnoresConditions, "taken names", True),
        (LooksFirst, "racing creators", True),
        (KeepsTheLoser, "taken names", True),
        (RefusesEverybody, "racing creators", True),
        (ShowsOldBytes, "read after write", True),
        (ListsLate, "list after write", True),
        (CopiesOverOthers, "racing copies", False),
        (CopiesOverOthers, "copies and renames", False),
        (RenamesOverOthers, "racing renames", False),
        (RefusesEverybodyLater, "racing creators", True),
        (SaysNothingHappened, "racing creators", True),
        (CopiesOnlyToNewNames, "copies and renames", False),
        (ListsBackwards, "order of listings", False),
        (ForgetsTheStart, "order of listings", False),
        (DecodesNames, "literal names", False),
        (CannotReadTheEnd, "parts of files", False),
        (InventsFiles, "missing files", False),
    ],
)
def test_every_kind_of_bad_store_is_found(bad: type[DictStore], check: str, quick: bool) -> None:
    store = bad()
    report = probe(store, quick=quick)
    assert check in [row.check for row in report.rows if row.result in ("wrong", "failed")]
    assert not report.trusted
    with pytest.raises(InvalidInput, match="not a store for a lake") as refused:
        report.require()
    assert "external manifest store" in refused.value.remedy
    assert refused.value.kind == "invalid_input"
    assert [info.path for info in DictStore.list(store)] == []


def test_a_store_that_cannot_be_used_at_all_says_why(seaweedfs: S3Server) -> None:
    with pytest.raises(NotFound, match="no-such-bucket"):
        probe(open_store("s3://no-such-bucket", **seaweedfs.options), quick=True)
    with pytest.raises(PermissionDenied):
        probe(open_store(seaweedfs.uri(), **{**seaweedfs.options, "aws_secret_access_key": "wrong"}), quick=True)


def test_a_store_that_deletes_nothing_is_reported_with_all_else_that_was_found() -> None:
    report = probe(NeverDeletes())
    assert {row.check for row in report.rows if row.result == "denied"} >= {"read after write", "tidying up"}
    assert "racing creators" in [row.check for row in report.rows if row.result == "ok"]
    assert not report.trusted


class LosesWritesAndSaysSo(DictStore):
    """Of each race nobody gets an answer, and nothing was written: so it may be, now and then."""

    def put_if_absent(self, path: str, data: Data, *, durable: bool = True) -> None:
        if "race" in path:
            raise CommitUnknown(path)
        super().put_if_absent(path, data)


def test_answers_that_were_lost_are_no_broken_promise() -> None:
    report = probe(LosesWritesAndSaysSo(), quick=True)
    assert report.trusted, str(report)
    assert "8 answers left it open" in str(report)


class Busy(DictStore):
    """Does not answer the first `times` requests of each kind, or says that it is not known what became of them."""

    def __init__(self, times: int, error: type[SeicheError]) -> None:
        super().__init__()
        self.times = times
        self.error = error
        self.asked: dict[str, int] = {}

    def _busy(self, verb: str) -> None:
        self.asked[verb] = self.asked.get(verb, 0) + 1
        if self.asked[verb] <= self.times:
            raise self.error(f"{verb}: slow down")

    def put_if_absent(self, path: str, data: Data, *, durable: bool = True) -> None:
        if "race" in path or "first" in path:
            return super().put_if_absent(path, data)
        self._busy("creating")
        return super().put_if_absent(path, data)

    def list(self, prefix: str = "", *, start_after: str = "", recursive: bool = True) -> Iterator[ObjectInfo]:
        self._busy("listing")
        return super().list(prefix, start_after=start_after, recursive=recursive)


@pytest.mark.parametrize("error", [Unavailable, CommitUnknown])
def test_a_store_that_has_too_much_to_do_for_a_while_is_asked_again(error: type[SeicheError]) -> None:
    store = Busy(2, error)
    report = probe(store, quick=True, runtime=Runtime.seeded(1))
    assert report.trusted, str(report)
    assert [info.path for info in DictStore.list(store)] == []


@pytest.mark.parametrize("error", [Unavailable, CommitUnknown])
def test_a_store_that_stays_busy_is_not_called_unfit(error: type[SeicheError]) -> None:
    report = probe(Busy(1000, error), runtime=Runtime.seeded(1))
    assert {row.result for row in report.rows if row.result not in ("ok", "info")} == {"unanswered"}
    assert not report.trusted
    with pytest.raises(Unavailable, match="slow down"):
        report.require()


class MayNotRead(DictStore):
    def get(self, path: str) -> bytes:
        raise PermissionDenied(f"{path}: refused the credentials")


@pytest.mark.parametrize("kind", [MayNotRead, NeverDeletes])
def test_rights_that_are_not_enough_say_nothing_against_a_store(kind: type[DictStore]) -> None:
    """Whoever may write there and not read was told to use another store, such as S3, which it was."""
    report = probe(kind(), quick=True)
    assert not report.trusted
    assert {row.result for row in report.rows if row.result not in ("ok", "info")} == {"denied"}
    with pytest.raises(PermissionDenied) as caught:
        report.require()
    assert "read, write, list and delete" in caught.value.remedy


class Away(DictStore):
    def put_if_absent(self, path: str, data: Data, *, durable: bool = True) -> None:
        raise CommitUnknown("slow down")


def test_a_store_that_is_away_is_unavailable_and_leaves_nobody_in_doubt_about_a_lake() -> None:
    with pytest.raises(Unavailable, match="slow down"):
        probe(Away(), quick=True, runtime=Runtime.seeded(1))


def test_the_short_form_is_short() -> None:
    store = CountingStore(DictStore())
    report = probe(store, quick=True)
    assert report.trusted
    assert store.requests < 150


def test_a_report_can_be_read_by_people_and_programs() -> None:
    report = probe(DictStore("example"))
    assert report.as_dict()["trusted"] is True
    assert report.as_dict()["uri"] == "dict://example"
    assert {"check", "result", "detail"} == set(report.as_dict()["rows"][0])
    assert "racing creators" in str(report)
    assert str(report).endswith("trusted")


def test_an_untrusted_report_says_so() -> None:
    assert "NOT" in str(probe(IgnoresConditions()))
    assert ProbeReport("x", ()).trusted


def test_probes_do_not_meet(tmp_path: Path) -> None:
    store: Store = open_store(tmp_path, durability="os")
    with_threads = [threading.Thread(target=lambda: probe(store, quick=True).require()) for _ in range(3)]
    for thread in with_threads:
        thread.start()
    for thread in with_threads:
        thread.join()
    assert list(store.list()) == []
