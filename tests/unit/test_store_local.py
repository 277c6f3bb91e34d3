"""What only the local store can get wrong: the disk, the operating system, and the order in which they are used."""

import errno
import os
import re
import resource
import subprocess
import sys
import textwrap
import threading
from array import array
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

from seiche.core.clock import SimulatedClock
from seiche.core.runtime import SYSTEM, Runtime
from seiche.errors import (
    AlreadyExists,
    CommitUnknown,
    Corrupt,
    InvalidInput,
    NotFound,
    PermissionDenied,
    SeicheError,
    Unavailable,
)
from seiche.store import open_store
from seiche.store.files import copy_all, write_all
from seiche.store.local import LocalStore
from seiche.store.paths import TEMPORARY
from seiche.store.staging import Staging

WAYS = {"anonymous": (True, True), "named": (False, True), "rename": (False, False)}


@pytest.fixture(params=WAYS)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> LocalStore:
    """A store that may use one way of making names appear."""
    made = LocalStore(tmp_path / "store")
    anonymous, links = WAYS[request.param]
    made._staging = Staging(SYSTEM, anonymous=anonymous, links=links)
    return made


def everything(root: str) -> list[str]:
    """All files on disk, temporary ones too."""
    return sorted(os.path.relpath(os.path.join(top, name), root) for top, _, names in os.walk(root) for name in names)


def failing(
    monkeypatch: pytest.MonkeyPatch, function: str, code: int, *, when: Callable[..., bool] = lambda *_: True
) -> None:
    """Let `os.function` fail with `code` for the calls for which `when` holds."""
    original = getattr(os, function)

    def fail(*arguments: Any, **keywords: Any) -> Any:
        if when(*arguments):
            raise OSError(code, os.strerror(code))
        return original(*arguments, **keywords)

    monkeypatch.setattr(os, function, fail)


WRITES: dict[str, Callable[[LocalStore], None]] = {
    "put": lambda store: store.put("d/target", b"bytes"),
    "put of buffers": lambda store: store.put("d/target", [b"by", b"tes"]),
    "put_if_absent": lambda store: store.put_if_absent("d/target", b"bytes"),
    "put_if_absent of buffers": lambda store: store.put_if_absent("d/target", [b"by", b"tes"]),
    "copy": lambda store: store.copy("source", "d/target"),
    "copy_if_absent": lambda store: store.copy_if_absent("source", "d/target"),
    "rename_if_absent": lambda store: store.rename_if_absent("source", "d/target"),
}
PUT_OWN: dict[str, Callable[[LocalStore], None]] = {"put_own": lambda store: store.put_own("d/target", [b"by", b"tes"])}
CREATES = {name: write for name, write in WRITES.items() if "absent" in name}


@pytest.fixture
def with_source(store: LocalStore) -> LocalStore:
    store.put("source", b"bytes")
    return store


@pytest.mark.parametrize("write", (WRITES | PUT_OWN).values(), ids=WRITES | PUT_OWN)
def test_no_way_leaves_anything_but_the_file(with_source: LocalStore, write: Callable[[LocalStore], None]) -> None:
    write(with_source)
    assert set(everything(with_source.native_uri())) - {"source"} == {"d/target"}
    assert with_source.get("d/target") == b"bytes"


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EFBIG])
@pytest.mark.parametrize("write", [name for name in WRITES | PUT_OWN if not name.startswith("rename")])
def test_a_full_disk_is_unavailable_and_leaves_nothing(
    with_source: LocalStore, monkeypatch: pytest.MonkeyPatch, write: str, code: int
) -> None:
    for function in ("write", "writev", "copy_file_range"):
        failing(monkeypatch, function, code)
    with pytest.raises(Unavailable) as refused:
        (WRITES | PUT_OWN)[write](with_source)
    assert refused.value.errno == code
    assert everything(with_source.native_uri()) == ["source"]


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
@pytest.mark.parametrize("anonymous", [True, False])
@pytest.mark.parametrize("write", WRITES)
def test_a_disk_without_room_for_the_name_is_unavailable_and_not_in_doubt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write: str, anonymous: bool, code: int
) -> None:
    store = LocalStore(tmp_path / "store")
    store._staging = Staging(SYSTEM, anonymous=anonymous)
    store.put("source", b"bytes")
    for function in ("link", "rename"):
        failing(monkeypatch, function, code)
    with pytest.raises(Unavailable) as refused:
        WRITES[write](store)
    assert refused.value.errno == code
    assert everything(store.native_uri()) == ["source"]


def test_a_disk_that_fills_up_in_the_middle_leaves_nothing(store: LocalStore, monkeypatch: pytest.MonkeyPatch) -> None:
    original = os.write
    taken: list[int] = []

    def half(fd: int, data: Any) -> int:
        if taken:
            raise OSError(errno.ENOSPC, "No space left on device")
        taken.append(original(fd, data[: len(data) // 2]))
        return taken[0]

    monkeypatch.setattr(os, "write", half)
    failing(monkeypatch, "writev", errno.ENOSPC)
    with pytest.raises(Unavailable):
        store.put_if_absent("d/f", b"x" * 1000)
    assert taken == [500]
    assert everything(store.native_uri()) == []
    assert list(store.list()) == []


def test_a_real_limit_of_the_file_size_leaves_nothing(tmp_path: Path) -> None:
    script = f"""
        import resource
        from seiche.errors import Unavailable
        from seiche.store import open_store
        resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, {resource.RLIM_INFINITY}))
        store = open_store({str(tmp_path)!r})
        for write in (store.put, store.put_if_absent):
            try:
                write("big", b"x" * 20_000)
            except Unavailable as error:
                print(error.errno)
        store.put("small", b"x" * 1000)
    """
    ran = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, check=True, timeout=60
    )
    assert ran.stdout.split() == [str(errno.EFBIG)] * 2
    assert everything(str(tmp_path)) == ["small"]


@pytest.fixture
def tiny_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 64 kB, where the system lets us mount one."""
    where = tmp_path / "tiny"
    where.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(where)], capture_output=True, text=True, check=False
    )
    if mounted.returncode:
        pytest.skip(f"cannot mount a small file system: {mounted.stderr.strip()}")
    yield where
    subprocess.run(["umount", "--lazy", str(where)], check=True)


def test_a_really_full_disk_leaves_nothing(tiny_disk: Path) -> None:
    store = open_store(tiny_disk)
    store.put_if_absent("fits", b"x" * 20_000)
    for write in (store.put, store.put_if_absent):
        with pytest.raises(Unavailable) as refused:
            write("too-big", [b"x" * 50_000, b"y" * 50_000])
        assert refused.value.errno == errno.ENOSPC
    with pytest.raises(Unavailable):
        store.put("fits", b"x" * 70_000)
    assert everything(str(tiny_disk)) == ["fits"]
    assert store.get("fits") == b"x" * 20_000


@pytest.mark.parametrize("code", [errno.EACCES, errno.EROFS, errno.EPERM])
@pytest.mark.parametrize("function", ["open", "mkdir"])
def test_a_refused_access_is_permission_denied(
    with_source: LocalStore, monkeypatch: pytest.MonkeyPatch, function: str, code: int
) -> None:
    failing(monkeypatch, function, code, when=lambda path, *_: "/store/d" in path)
    with pytest.raises(PermissionDenied):
        with_source.put_if_absent("d/target", b"bytes")
    with pytest.raises(PermissionDenied):
        with_source.put("d/target", b"bytes")
    monkeypatch.undo()
    assert everything(with_source.native_uri()) == ["source"]


def make_read_only(directory: Path) -> Callable[[], object]:
    """Make a directory read-only for everybody, also for root; returns how to undo it."""
    if os.geteuid():
        directory.chmod(0o555)
        return lambda: directory.chmod(0o755)
    bind = subprocess.run(["mount", "--bind", str(directory), str(directory)], capture_output=True, check=False)
    if bind.returncode == 0:
        subprocess.run(["mount", "-o", "remount,bind,ro", str(directory)], check=True)
        return lambda: subprocess.run(["umount", "--lazy", str(directory)], check=True)
    if subprocess.run(["chattr", "+i", str(directory)], capture_output=True, check=False).returncode == 0:
        return lambda: subprocess.run(["chattr", "-i", str(directory)], check=True)
    pytest.skip("root may write everywhere here: no bind mounts, no immutable files")


@pytest.mark.parametrize("way", WAYS)
def test_a_read_only_directory(tmp_path: Path, way: str) -> None:
    store = LocalStore(tmp_path / "store")
    store.put("kept", b"readable")
    anonymous, links = WAYS[way]
    store._staging = Staging(SYSTEM, anonymous=anonymous, links=links)
    undo = make_read_only(tmp_path / "store")
    try:
        for write in (store.put, store.put_if_absent):
            for path in ("new", "d/new"):
                with pytest.raises(PermissionDenied):
                    write(path, b"bytes")
        for verb in (store.copy, store.copy_if_absent, store.rename_if_absent):
            with pytest.raises(PermissionDenied):
                verb("kept", "copy")
        with pytest.raises(PermissionDenied):
            store.delete("kept")
        assert store.get("kept") == b"readable"
        assert [info.path for info in store.list()] == ["kept"]
    finally:
        undo()
    assert everything(str(tmp_path / "store")) == ["kept"]


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_a_path_that_is_a_directory(with_source: LocalStore, write: Callable[[LocalStore], None]) -> None:
    with_source.put("d/target/below", b"x")
    with pytest.raises(InvalidInput, match="directory"):
        write(with_source)
    for read in (with_source.get, with_source.head):
        with pytest.raises(NotFound):
            read("d/target")
    assert everything(with_source.native_uri()) == ["d/target/below", "source"]


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_a_path_below_a_file(with_source: LocalStore, write: Callable[[LocalStore], None]) -> None:
    with_source.put("d", b"a file")
    with pytest.raises(InvalidInput, match="directory"):
        write(with_source)
    with pytest.raises(NotFound):
        with_source.get("d/target")
    assert everything(with_source.native_uri()) == ["d", "source"]


def test_a_folder_whose_name_no_system_can_have_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"\\ud800.* is not a path of this system"):
        LocalStore(tmp_path / "a\ud800b")
    # Bytes that are no UTF-8 are a name all the same.
    odd = LocalStore(tmp_path / os.fsdecode(b"a\xffb"), durability="os")
    odd.put("x", b"1")
    assert odd.get("x") == b"1"


def test_a_name_that_is_too_long(store: LocalStore) -> None:
    store.put("short", b"")
    for path in ("x" * 300, "/".join(["d" * 100] * 60)):
        for call in (store.get, store.head, store.delete):
            with pytest.raises(InvalidInput):
                call(path)
        for write in (store.put, store.put_if_absent):
            with pytest.raises(InvalidInput):
                write(path, b"")
    assert everything(store.native_uri()) == ["short"]


@pytest.mark.parametrize("write", CREATES.values(), ids=CREATES)
@pytest.mark.parametrize("code", [errno.EIO, errno.ESTALE, errno.ETIMEDOUT])
def test_a_lost_answer_to_the_deciding_call_is_unknown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write: Callable[[LocalStore], None], code: int
) -> None:
    for anonymous in (True, False):
        store = LocalStore(tmp_path / str(anonymous))
        store.put("source", b"bytes")
        store.put("d/other", b"so that the directory is there, and the first way is tried")
        store._staging = Staging(SYSTEM, anonymous=anonymous)
        original = os.link

        def link(*arguments: Any, original: Any = original, **keywords: Any) -> None:
            original(*arguments, **keywords)
            raise OSError(code, os.strerror(code))

        monkeypatch.setattr(os, "link", link)
        with pytest.raises(CommitUnknown):
            write(store)
        monkeypatch.undo()
        assert store.get("d/target") == b"bytes"


def test_an_overwrite_whose_answer_is_lost_is_unknown(store: LocalStore, monkeypatch: pytest.MonkeyPatch) -> None:
    failing(monkeypatch, "rename", errno.EIO)
    with pytest.raises(CommitUnknown):
        store.put("f", b"x")
    assert everything(store.native_uri()) == []


def test_a_request_that_a_network_file_system_sent_twice_is_our_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = LocalStore(tmp_path)
    store._staging = Staging(SYSTEM, anonymous=False)
    original = os.link

    def link_twice(source: str, target: str) -> None:
        original(source, target)
        original(source, target)

    monkeypatch.setattr(os, "link", link_twice)
    store.put_if_absent("f", b"mine")
    with pytest.raises(AlreadyExists):
        store.put_if_absent("f", b"other")
    assert everything(str(tmp_path)) == ["f"]
    assert store.get("f") == b"mine"


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_a_file_that_cannot_be_flushed_does_not_appear(
    with_source: LocalStore, monkeypatch: pytest.MonkeyPatch, write: Callable[[LocalStore], None]
) -> None:
    failing(monkeypatch, "fsync", errno.EIO, when=lambda fd: not os.path.isdir(f"/proc/self/fd/{fd}"))
    # What is only renamed is flushed under its old name, and lost; all else is written anew by the next attempt.
    with pytest.raises(Corrupt if write is WRITES["rename_if_absent"] else Unavailable):
        write(with_source)
    assert everything(with_source.native_uri()) == ["source"]


@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC, errno.EDQUOT])
def test_a_file_of_ones_own_that_fails_when_it_is_closed_is_not_there_and_can_be_written_again(
    store: LocalStore, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    store.put("d/other", b"")
    with monkeypatch.context() as patched:
        failing(patched, "close", code, when=lambda fd: os.readlink(f"/proc/self/fd/{fd}").endswith("d/own"))
        with pytest.raises(Unavailable):
            store.put_own("d/own", b"mine")
    assert everything(store.native_uri()) == ["d/other"]
    store.put_own("d/own", b"mine")
    assert store.get("d/own") == b"mine"


@pytest.mark.parametrize("name", ["a\\b", "tab\tname", f"{TEMPORARY}x"])
def test_folders_of_names_that_no_verb_takes_are_passed_over(tmp_path: Path, name: str) -> None:
    store = LocalStore(tmp_path)
    store.put("d/f", b"")
    (tmp_path / name).mkdir()
    (tmp_path / name / "f").touch()
    assert store.folders() == ["d"]
    assert [info.path for folder in store.folders() for info in store.list(folder)] == ["d/f"]


@pytest.mark.parametrize("root", ["link", "link/lake"])
def test_a_folder_that_is_a_link_to_nowhere_is_named(tmp_path: Path, root: str) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "not-mounted")
    with pytest.raises(Unavailable, match="link is a link to a directory that is not there") as refused:
        LocalStore(tmp_path / root).put_if_absent("d/f", b"")
    assert "mount" in refused.value.remedy
    assert not (tmp_path / "not-mounted").exists()


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_a_name_that_cannot_be_flushed_is_unknown(
    with_source: LocalStore, monkeypatch: pytest.MonkeyPatch, write: Callable[[LocalStore], None]
) -> None:
    failing(monkeypatch, "fsync", errno.EIO, when=lambda fd: os.path.isdir(f"/proc/self/fd/{fd}"))
    with pytest.raises(CommitUnknown):
        write(with_source)
    assert with_source.get("d/target") == b"bytes"


@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC, errno.EDQUOT])
@pytest.mark.parametrize(
    "flush",
    [
        lambda store: store.flush(["d/one"]),
        lambda store: store.put_last("last", b"names one", ["d/one"]),
        lambda store: store.rename_if_absent("d/one", "d/two"),
    ],
    ids=["flush", "put_last", "rename_if_absent"],
)
def test_bytes_that_the_disk_did_not_take_are_lost_however_often_they_are_flushed(
    store: LocalStore, monkeypatch: pytest.MonkeyPatch, flush: Callable[[LocalStore], object], code: int
) -> None:
    store.put("d/one", b"1", durable=False)
    with monkeypatch.context() as patched:
        failing(patched, "fsync", code, when=lambda fd: os.readlink(f"/proc/self/fd/{fd}").endswith("d/one"))
        with pytest.raises(Corrupt) as refused:
            flush(store)
    assert (refused.value.path, refused.value.errno, refused.value.retryable) == ("d/one", code, False)
    with pytest.raises(Corrupt):
        flush(store)
    assert [info.path for info in store.list()] == ["d/one"]


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was asked of the disk, in order: `fsync PATH`, `name PATH`."""
    done: list[str] = []
    fsync, link, rename = os.fsync, os.link, os.rename

    def seen_fsync(fd: int) -> None:
        path = os.readlink(f"/proc/self/fd/{fd}")
        done.append("fsync file" if not os.path.isdir(path) else f"fsync {os.path.basename(path)}/")
        fsync(fd)

    def seen_link(source: str, target: str, **keywords: Any) -> None:
        link(source, target, **keywords)
        done.append(f"name {os.path.basename(target)}")

    def seen_rename(source: str, target: str) -> None:
        rename(source, target)
        done.append(f"name {os.path.basename(target)}")

    monkeypatch.setattr(os, "fsync", seen_fsync)
    monkeypatch.setattr(os, "link", seen_link)
    monkeypatch.setattr(os, "rename", seen_rename)
    return done


@pytest.mark.parametrize("write", ["put", "put_if_absent"])
@pytest.mark.parametrize("anonymous", [True, False])
def test_bytes_are_on_disk_before_the_name_and_the_name_before_the_return(
    tmp_path: Path, steps: list[str], write: str, anonymous: bool
) -> None:
    store = LocalStore(tmp_path / "root")
    store._staging = Staging(SYSTEM, anonymous=anonymous)
    getattr(store, write)("a/b/first", b"1")
    # New directories are names too: each is flushed in the one above it, up to the one that the root stands in.
    assert steps[-6:] == ["fsync file", "name first", "fsync b/", "fsync a/", "fsync root/", f"fsync {tmp_path.name}/"]
    steps.clear()
    getattr(store, write)("a/b/second", b"2")
    assert steps == ["fsync file", "name second", "fsync b/"]
    steps.clear()
    getattr(store, write)("a/c/third", b"3")
    assert steps == ["fsync file", "name third", "fsync c/", "fsync a/"]


def test_a_directory_that_was_removed_and_made_again_is_flushed_again(tmp_path: Path, steps: list[str]) -> None:
    store = LocalStore(tmp_path / "root")
    store.put("a/b/first", b"1")
    LocalStore(tmp_path / "root").delete("a/b/first")
    LocalStore(tmp_path / "root").prune("a")
    steps.clear()
    store.put_if_absent("a/b/second", b"2")
    assert [step for step in steps if step.endswith("/")] == ["fsync b/", "fsync a/", "fsync root/"]


def test_so_is_one_that_the_store_itself_removed_and_somebody_else_made_again(tmp_path: Path, steps: list[str]) -> None:
    store = LocalStore(tmp_path / "root")
    store.put("a/first", b"1")
    store.delete("a/first")
    store.prune("a")
    (tmp_path / "root" / "a").mkdir()
    steps.clear()
    store.put_if_absent("a/second", b"2")
    assert [step for step in steps if step.endswith("/")] == ["fsync a/", "fsync root/"]


@pytest.mark.parametrize("code", [errno.EIO, errno.EMFILE])
def test_so_is_one_above_the_root_that_could_not_be_flushed_at_first(
    tmp_path: Path, steps: list[str], monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    store = LocalStore(tmp_path / "a" / "b" / "root")
    with monkeypatch.context() as patched:
        failing(patched, "fsync", code, when=lambda fd: os.readlink(f"/proc/self/fd/{fd}") == str(tmp_path / "a"))
        with pytest.raises(Unavailable):
            store.put_if_absent("first", b"1")
    steps.clear()
    store.put_if_absent("first", b"1")
    assert steps[:2] == ["fsync a/", "fsync b/"]


def test_so_is_one_that_somebody_else_was_quicker_to_make(
    tmp_path: Path, steps: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever that was may not have come to it yet."""
    store, mkdir = LocalStore(tmp_path / "root"), os.mkdir
    store.put("a/b/first", b"1")
    LocalStore(tmp_path / "root").delete("a/b/first")
    LocalStore(tmp_path / "root").prune("a")

    def overtaken(path: str) -> None:
        mkdir(path)
        mkdir(path)

    monkeypatch.setattr(os, "mkdir", overtaken)
    steps.clear()
    store.put_if_absent("a/b/second", b"2")
    assert [step for step in steps if step.endswith("/")] == ["fsync b/", "fsync a/", "fsync root/"]


@pytest.mark.parametrize("anonymous", [True, False])
def test_a_last_file_has_its_name_when_the_bytes_and_names_of_all_others_are_on_disk(
    tmp_path: Path, steps: list[str], anonymous: bool
) -> None:
    store = LocalStore(tmp_path / "root")
    store._staging = Staging(SYSTEM, anonymous=anonymous)
    store.put_many(dict.fromkeys(("a/old", "b/old"), b"x"))
    store.put_many(dict.fromkeys(("a/one", "a/two", "b/three"), b"x"), durable=False)
    steps.clear()
    store.put_last("last", b"names them", ["a/one", "a/two", "b/three"])
    # Their order does not matter, but all of them come before the name.
    assert Counter(steps[:-2]) == {"fsync file": 4, "fsync a/": 1, "fsync b/": 1}
    assert steps[-2:] == ["name last", "fsync root/"]
    with pytest.raises(NotFound):
        store.put_last("other", b"names a file that is gone", ["a/one", "a/none"])
    with pytest.raises(AlreadyExists):
        store.put_last("last", b"too late", ["a/one"])
    assert store.get("last") == b"names them"
    assert [info.path for info in store.list(recursive=False)] == ["last"]


def test_a_last_file_is_flushed_beside_the_others_and_named_when_the_slowest_is_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, fsync, link = LocalStore(tmp_path), os.fsync, os.link
    store.put_if_absent("a/one", b"x", durable=False)
    flushed, named, early = threading.Event(), threading.Event(), []

    def slow(fd: int) -> None:
        path = os.readlink(f"/proc/self/fd/{fd}")
        if path.endswith("/one"):
            assert flushed.wait(10), "the last file was not flushed at the same time"
            early.append(named.wait(0.1))
        fsync(fd)
        if not path.endswith("/one") and not os.path.isdir(path):
            flushed.set()

    def seen_link(source: str, target: str, **keywords: Any) -> None:
        link(source, target, **keywords)
        named.set()

    monkeypatch.setattr(os, "fsync", slow)
    monkeypatch.setattr(os, "link", seen_link)
    store.put_last("last", b"y", ["a/one"])
    assert early == [False]
    assert named.is_set()


def test_a_directory_counts_as_flushed_only_when_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = LocalStore(tmp_path / "root")
    failing(monkeypatch, "fsync", errno.EIO, when=lambda fd: os.readlink(f"/proc/self/fd/{fd}").endswith("/root"))
    with pytest.raises(CommitUnknown):
        store.put_if_absent("a/first", b"1")
    with pytest.raises(CommitUnknown):
        store.put_if_absent("a/second", b"2")
    monkeypatch.undo()
    store.put_if_absent("a/third", b"3")


def test_storage_time_is_exact(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    store.put("f", b"x")
    for nanoseconds in (1_794_736_435_123_456_789, 1_794_736_435_999_999_999, 1):
        os.utime(tmp_path / "f", ns=(0, nanoseconds))
        passed = store.head("f").modified - datetime(1970, 1, 1, tzinfo=UTC)
        assert passed // timedelta(microseconds=1) == nanoseconds // 1000


def test_a_rename_flushes_the_bytes_that_somebody_else_wrote(tmp_path: Path, steps: list[str]) -> None:
    store = LocalStore(tmp_path)
    (tmp_path / "foreign").write_bytes(b"never flushed")
    store.rename_if_absent("foreign", "mine")
    assert steps[:3] == ["fsync file", "name mine", f"fsync {tmp_path.name}/"]


def test_a_file_system_that_cannot_flush_directories_can_be_written_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing(monkeypatch, "fsync", errno.EINVAL, when=lambda fd: os.path.isdir(f"/proc/self/fd/{fd}"))
    store = LocalStore(tmp_path / "above" / "root")
    store.put_if_absent("d/new", b"1")
    store.put("d/over", b"2")
    store.put_last("root", b"3", ["d/new", "d/over"])
    assert store.flush(["d/new"]) == 1
    assert everything(store.native_uri()) == ["d/new", "d/over", "root"]


def test_directories_that_somebody_else_made_are_flushed_too(tmp_path: Path, steps: list[str]) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    LocalStore(tmp_path).put_if_absent("a/b/f", b"1")
    assert steps[2:5] == ["fsync b/", "fsync a/", f"fsync {tmp_path.name}/"]


def test_many_files_are_flushed_once_each_and_so_are_their_directories(tmp_path: Path, steps: list[str]) -> None:
    store = LocalStore(tmp_path)
    files = {f"{directory}/{number}": b"x" for directory in "ab" for number in range(10)}
    store.put_many(dict.fromkeys(("a/old", "b/old"), b"x"))
    steps.clear()
    store.put_many(files, durable=False)
    assert not any(step.startswith("fsync") for step in steps)
    steps.clear()
    assert store.flush(files) == 20
    assert Counter(steps) == {"fsync file": 20, "fsync a/": 1, "fsync b/": 1}
    with pytest.raises(NotFound):
        store.flush([*files, "a/none"])


@pytest.mark.parametrize("durability", ["os", "fsync"])
def test_what_needs_not_last_is_not_flushed(tmp_path: Path, steps: list[str], durability: Any) -> None:
    store = LocalStore(tmp_path, durability=durability)
    durable = durability == "os"
    store.put("a/b", b"1", durable=durable)
    store.put_if_absent("a/c", b"1", durable=durable)
    store.put_many({"a/d": b"1", "a/e": b"2"}, durable=durable)
    if durability == "os":
        store.copy("a/b", "a/f")
        store.copy_if_absent("a/b", "a/g")
        store.rename_if_absent("a/b", "a/h")
    assert [step for step in steps if step.startswith("fsync")] == []


def test_a_directory_that_vanishes_while_writing_is_made_again(
    store: LocalStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.put("d/other", b"x")
    original = os.fsync
    removals: list[int] = []

    def fsync_and_lose_directory(fd: int) -> None:
        original(fd)
        if len(removals) < 4:
            removals.append(fd)
            for name in os.listdir(store.native_uri("d")):
                os.unlink(store.native_uri("d") + "/" + name)
            os.rmdir(store.native_uri("d"))

    monkeypatch.setattr(os, "fsync", fsync_and_lose_directory)
    store.put_if_absent("d/f", b"survives")
    monkeypatch.undo()
    assert removals
    assert store.get("d/f") == b"survives"
    assert everything(store.native_uri()) == ["d/f"]


def test_a_directory_that_cannot_be_made_is_given_up(store: LocalStore, tmp_path: Path) -> None:
    store.put("f", b"x")
    os.symlink(tmp_path / "nowhere" / "at" / "all", store.native_uri("dangling"))
    for write in (store.put, store.put_if_absent):
        with pytest.raises(Unavailable, match="directory"):
            write("dangling/f", b"x")
    assert [info.path for info in store.list()] == ["f"]


def test_writers_and_a_remover_of_empty_directories_do_not_harm_each_other(store: LocalStore) -> None:
    done = threading.Event()

    def prune() -> None:
        while not done.is_set():
            store.prune()

    remover = threading.Thread(target=prune)
    remover.start()
    try:
        for number in range(150):
            store.put_if_absent(f"a/b/{number}", b"x", durable=False)
            assert store.get(f"a/b/{number}") == b"x"
            store.delete(f"a/b/{number}")
    finally:
        done.set()
        remover.join()
    store.prune()
    assert os.listdir(store.native_uri()) == []


def test_temporary_files_are_nobodys_files(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    store.put("t/f", b"x")
    (tmp_path / "t" / f"{TEMPORARY}0123").write_bytes(b"half")
    assert [info.path for info in store.list()] == ["t/f"]
    with pytest.raises(InvalidInput):
        store.exists(f"t/{TEMPORARY}0123")


def test_pylance_does_not_take_a_temporary_file_for_a_version(tmp_path: Path) -> None:
    lance.write_dataset(pa.table({"x": [1]}), tmp_path / "t.lance")
    for folder in ("_versions", "data", "_transactions"):
        (tmp_path / "t.lance" / folder / f"{TEMPORARY}ffffffffffffffff").write_bytes(b"half a manifest")
    appended = lance.write_dataset(pa.table({"x": [2]}), tmp_path / "t.lance", mode="append")
    assert [version["version"] for version in appended.versions()] == [1, 2]
    assert lance.dataset(tmp_path / "t.lance").count_rows() == 2


def test_only_old_temporary_files_are_swept(tmp_path: Path) -> None:
    clock = SimulatedClock(datetime.now(UTC))
    store = LocalStore(tmp_path, runtime=Runtime(clock, SYSTEM.random))
    store.put("d/f", b"x")
    orphan = tmp_path / "d" / f"{TEMPORARY}1"
    orphan.write_bytes(b"half")
    assert store.sweep(timedelta(hours=1)) == 0
    clock.advance(3700)
    assert store.sweep(timedelta(hours=1)) == 1
    assert everything(str(tmp_path)) == ["d/f"]


def test_a_temporary_file_that_cannot_be_removed_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / f"{TEMPORARY}1").write_bytes(b"half")
    failing(monkeypatch, "unlink", errno.EACCES)
    with pytest.raises(PermissionDenied):
        open_store(tmp_path).sweep(timedelta(seconds=-60))


def test_a_writer_whose_temporary_file_is_swept_starts_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = LocalStore(tmp_path)
    store._staging = Staging(SYSTEM, anonymous=False)
    original = os.fsync
    swept: list[int] = []

    def fsync_and_sweep(fd: int) -> None:
        original(fd)
        if not swept:
            swept.append(store.sweep(timedelta(seconds=-60)))

    monkeypatch.setattr(os, "fsync", fsync_and_sweep)
    store.put_if_absent("d/f", b"whole")
    store.put("d/g", b"whole")
    assert swept == [1]
    assert store.get("d/f") == store.get("d/g") == b"whole"


def test_a_source_that_somebody_else_moves_first_is_not_found(
    store: LocalStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.put("source", b"x")
    original = os.fsync

    def fsync_and_lose_source(fd: int) -> None:
        original(fd)
        if os.path.exists(store.native_uri("source")):
            os.unlink(store.native_uri("source"))

    monkeypatch.setattr(os, "fsync", fsync_and_lose_source)
    with pytest.raises(NotFound) as refused:
        store.rename_if_absent("source", "d/target")
    assert refused.value.path == "source"
    assert everything(store.native_uri()) == []


def test_links_inside_the_store(tmp_path: Path) -> None:
    store = open_store(tmp_path / "store")
    store.put("real/f", b"x")
    (tmp_path / "store" / "loop").symlink_to(tmp_path / "store", target_is_directory=True)
    (tmp_path / "store" / "alias").symlink_to(tmp_path / "store" / "real" / "f")
    (tmp_path / "store" / "dangling").symlink_to(tmp_path / "nothing")
    assert sorted(info.path for info in store.list()) == ["alias", "real/f"]
    assert list(store.names()) == ["alias"]
    assert store.get("alias") == b"x"
    with pytest.raises(AlreadyExists):
        store.put_if_absent("dangling", b"x")


def test_names_that_no_verb_takes_are_not_listed(tmp_path: Path) -> None:
    for name in (b"new\nline", b"back\\slash", b"not-utf8-\xff"):
        (tmp_path / os.fsdecode(name)).write_bytes(b"x")
    os.mkfifo(tmp_path / "pipe")
    store = open_store(tmp_path)
    store.put("good", b"x")
    assert [info.path for info in store.list()] == ["good"]
    assert list(store.names()) == ["good"]
    with pytest.raises(NotFound):
        store.head("pipe")


def test_the_folder_that_a_volume_keeps_for_itself_does_not_stop_a_listing(
    store: LocalStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only root may look into it. Of every other folder nobody may think that it is empty."""
    for path in ("a", "lost+found/b", "z/lost+found/c"):
        store.put(path, b"x")
    assert [info.path for info in store.list()] == ["a", "lost+found/b", "z/lost+found/c"]
    failing(monkeypatch, "scandir", errno.EACCES, when=lambda path: path.endswith("store/lost+found"))
    assert [info.path for info in store.list()] == ["a", "z/lost+found/c"]
    assert list(store.list("lost+found")) == []
    monkeypatch.undo()
    failing(monkeypatch, "scandir", errno.EACCES, when=lambda path: path.endswith("z/lost+found"))
    with pytest.raises(PermissionDenied):
        list(store.list())


def test_a_file_deleted_while_listing_is_left_out(store: LocalStore) -> None:
    for name in ("a", "b", "c"):
        store.put(name, b"x")
    listing = store.list()
    assert next(listing).path == "a"
    store.delete("b")
    assert [info.path for info in listing] == ["c"]


@pytest.mark.parametrize("joined", [True, False])
def test_a_view_of_whole_numbers_is_written_to_its_last_byte(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, joined: bool
) -> None:
    """It has fewer elements than bytes: a disk that takes as many bytes as there are elements has not taken all."""
    writev = os.writev
    monkeypatch.setattr(os, "writev", lambda fd, views: writev(fd, [memoryview(views[0]).cast("B")[:3]]))
    view = memoryview(array("i", [1, 2, 3]))
    store = LocalStore(tmp_path, durability="os")
    store.put_if_absent("f", view if joined else [view])
    assert store.get("f") == bytes(view)


def test_short_writes_are_completed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write, writev = os.write, os.writev
    monkeypatch.setattr(os, "write", lambda fd, data: write(fd, data[:7]))
    monkeypatch.setattr(
        os, "writev", lambda fd, views: writev(fd, [views[0][:5], *views[1:2]] if len(views) > 1 else [views[0][:5]])
    )
    parts = [b"abcdefghij" * number for number in range(30)]
    for data in (b"0123456789" * 10, [part for part in parts if len(part) <= 5] + [b"abc"] * 50):
        with (tmp_path / "f").open("wb") as file:
            write_all(file.fileno(), data)
        assert (tmp_path / "f").read_bytes() == (data if isinstance(data, bytes) else b"".join(data))


def test_short_reads_are_completed(store: LocalStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """As of files of more than 2 GiB, which the system never gives at once."""
    content = bytes(range(256)) * 40
    store.put("f", content)
    read = os.pread
    monkeypatch.setattr(os, "pread", lambda fd, length, start: read(fd, min(length, 1000), start))
    assert store.get("f") == content
    assert store.get_range("f", 300, 5000) == content[300:5300]
    assert store.get_range("f", 300, 4000) == content[300:4300]
    assert store.get_range("f", -3000, 5000) == content[-3000:]


@pytest.mark.parametrize("kernel", [True, False])
@pytest.mark.parametrize("write", ["copy", "copy_if_absent"])
def test_a_file_that_ends_early_is_not_copied(
    store: LocalStore, monkeypatch: pytest.MonkeyPatch, write: str, kernel: bool
) -> None:
    store.put("source", b"0123456789")
    fstat = os.fstat
    longer = {6: 1_000_000}  # the length, of what makes a status
    monkeypatch.setattr(
        os, "fstat", lambda fd: os.stat_result([longer.get(n, one) for n, one in enumerate(fstat(fd)[:10])])
    )
    if not kernel:
        failing(monkeypatch, "copy_file_range", errno.EXDEV)
    with pytest.raises(Unavailable, match="ends after 10"):
        getattr(store, write)("source", "target")
    monkeypatch.undo()
    assert everything(store.native_uri()) == ["source"]


def test_copies_without_help_from_the_kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content = os.urandom(2_500_000)
    (tmp_path / "old").write_bytes(content)
    original = os.copy_file_range
    for after in (0, 1_000_000):

        def refuse(source: int, target: int, count: int, offset: int, after: int = after) -> int:
            if offset >= after:
                raise OSError(errno.EXDEV, "Invalid cross-device link")
            return original(source, target, min(count, after - offset), offset)

        monkeypatch.setattr(os, "copy_file_range", refuse)
        with (tmp_path / "old").open("rb") as source, (tmp_path / "new").open("wb") as target:
            copy_all(target.fileno(), source.fileno())
        assert (tmp_path / "new").read_bytes() == content


@pytest.mark.parametrize("code", [errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL])
def test_what_the_file_system_lacks_is_found_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    store = LocalStore(tmp_path)
    failing(monkeypatch, "open", code, when=lambda _, flags, *__: flags & os.O_TMPFILE == os.O_TMPFILE)
    failing(monkeypatch, "link", errno.EPERM)
    store.put_if_absent("d/f", b"first")
    with pytest.raises(AlreadyExists):
        store.put_if_absent("d/f", b"second")
    assert store.get("d/f") == b"first"
    assert everything(str(tmp_path)) == ["d/f"]


def test_a_directory_that_is_just_being_removed_is_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """ext4 answers EPERM, not ENOENT, to somebody who still sees it."""
    store = LocalStore(tmp_path)
    original = os.open
    refused: list[str] = []

    def dying(path: str, flags: int, *mode: int) -> int:
        if flags & os.O_TMPFILE == os.O_TMPFILE and path.endswith("/d") and not refused:
            refused.append(path)
            os.rmdir(path)
            raise PermissionError(errno.EPERM, "Operation not permitted")
        return original(path, flags, *mode)

    (tmp_path / "d").mkdir()
    monkeypatch.setattr(os, "open", dying)
    store.put_if_absent("d/f", b"x")
    assert refused
    assert store.get("d/f") == b"x"
    assert store._staging._anonymous


def test_without_proc_files_still_appear(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = LocalStore(tmp_path)
    failing(monkeypatch, "link", errno.ENOENT, when=lambda source, *_: source.startswith("/proc/"))
    store.put_if_absent("f", b"first")
    with pytest.raises(AlreadyExists):
        store.put_if_absent("f", b"second")
    assert everything(str(tmp_path)) == ["f"]


def test_a_file_system_that_can_do_nothing_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = LocalStore(tmp_path)
    store._staging = Staging(SYSTEM, anonymous=False)
    failing(monkeypatch, "link", errno.EOPNOTSUPP)
    monkeypatch.setattr("seiche.store.staging.ctypes.CDLL", lambda *_, **__: object())
    with pytest.raises(InvalidInput, match="neither link"):
        store.put_if_absent("f", b"x")
    assert everything(str(tmp_path)) == []


def test_an_interrupted_writer_cleans_up(store: LocalStore, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(fd: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupt)
    for write in (store.put, store.put_if_absent):
        with pytest.raises(KeyboardInterrupt):
            write("d/f", b"x")
    assert everything(store.native_uri()) == []


def test_no_descriptors_are_left_open(store: LocalStore) -> None:
    before = len(os.listdir("/proc/self/fd"))
    for number in range(20):
        store.put(f"f{number}", b"x")
        for broken in (
            lambda: store.get("none"),
            lambda: store.put_if_absent("f0", b"y"),
            lambda: store.copy("none", "x"),
        ):
            with pytest.raises(SeicheError):
                broken()
        store.get(f"f{number}")
        store.copy(f"f{number}", f"g{number}")
        list(store.list())
    assert len(os.listdir("/proc/self/fd")) == before


def test_new_files_have_the_mode_that_the_user_asked_for(store: LocalStore) -> None:
    before = os.umask(0o027)
    try:
        store.put_if_absent("d/f", b"x")
        store.put("d/g", b"x")
    finally:
        os.umask(before)
    for name in ("f", "g"):
        assert os.stat(store.native_uri(f"d/{name}")).st_mode & 0o777 == 0o640


def test_it_does_not_remember_every_directory_that_it_ever_wrote_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A lake spreads its nodes over a million of them."""
    monkeypatch.setattr("seiche.store.directories._MOST_SETTLED", 5)
    store = LocalStore(tmp_path)
    for number in range(30):
        store.put_if_absent(f"d{number}/f", b"x")
        assert len(store._directories._settled) <= 5 + 3
    assert [store.get(f"d{number}/f") for number in range(30)] == [b"x"] * 30


def test_a_pipe_under_a_name_is_no_file_and_stops_nobody(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    store.put_if_absent("file", b"x")
    os.mkfifo(tmp_path / "pipe")
    for read in (lambda: store.get("pipe"), lambda: store.get_range("pipe", 0, 5), lambda: store.head("pipe")):
        with pytest.raises(SeicheError):
            read()
    assert not store.exists("pipe")
    assert [info.path for info in store.list()] == ["file"]


def test_a_folder_that_may_not_be_written_to_is_named(store: LocalStore, monkeypatch: pytest.MonkeyPatch) -> None:
    store.put_if_absent("first", b"x")
    opened = os.open

    def refused(path: Any, flags: int, *rest: Any, **more: Any) -> int:
        if flags & (os.O_WRONLY | os.O_RDWR):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
        return opened(path, flags, *rest, **more)

    monkeypatch.setattr(os, "open", refused)
    with pytest.raises(PermissionDenied, match=rf"Permission denied: {re.escape(store._root)}\n"):
        store.put_if_absent("second", b"x")


@pytest.mark.parametrize("below", ["", "deeper"])
def test_a_file_that_stands_where_a_folder_must_be_is_named(tmp_path: Path, below: str) -> None:
    (tmp_path / "stock.csv").write_text("sku,left")
    with pytest.raises(InvalidInput, match=r"Not a directory: .*/stock\.csv\n"):
        LocalStore(tmp_path / "stock.csv" / below).put_if_absent("a", b"x")


def test_a_pipe_in_the_place_of_a_note_stops_no_writer(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    os.mkfifo(tmp_path / "hint")
    refused: list[SeicheError] = []

    def leave_a_note() -> None:
        try:
            store.note("hint", b"7")
        except SeicheError as error:
            refused.append(error)

    writer = threading.Thread(target=leave_a_note, daemon=True)
    writer.start()
    writer.join(10)
    assert refused, "the writer waits for somebody who reads the pipe"


def test_links_that_lead_to_each_other_are_no_files_and_hide_none(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    store.put_if_absent("d/file", b"x")
    os.symlink("two", tmp_path / "d" / "one")
    os.symlink("one", tmp_path / "d" / "two")
    assert [info.path for info in store.list()] == ["d/file"]
    assert [info.path for info in store.list("d", recursive=False)] == ["d/file"]


def test_a_file_that_is_moved_has_the_time_of_the_move(tmp_path: Path) -> None:
    """As on object stores, where moving is writing: a file that comes back from a trash is new there."""
    store = open_store(str(tmp_path), durability="os")
    store.put("old", b"bytes")
    os.utime(tmp_path / "old", (0, 0))
    store.rename_if_absent("old", "d/moved")
    assert store.head("d/moved").modified > datetime.now(UTC) - timedelta(minutes=1)
