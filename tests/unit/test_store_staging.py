"""Making files appear where the system answers as it seldom does."""

import ctypes
import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from seiche.core.runtime import SYSTEM, Runtime
from seiche.errors import AlreadyExists, CommitUnknown, InvalidInput
from seiche.store.local import LocalStore
from seiche.store.paths import TEMPORARY
from seiche.store.staging import Staging


def renaming(tmp_path: Path) -> LocalStore:
    """A store on a file system without links, with a file `source` in it."""
    store = LocalStore(tmp_path)
    store.put("source", b"bytes")
    store._staging = Staging(SYSTEM, anonymous=False, links=False)
    return store


def answering(code: int, *, took_effect: bool) -> Callable[..., object]:
    """A system whose rename without replacing answers with an error, whether it was done or not."""

    class System:
        def renameat2(self, _here: int, source: bytes, _there: int, target: bytes, _flags: int) -> int:
            if took_effect:
                os.rename(source, target)
            ctypes.set_errno(code)
            return -1

    return lambda *_, **__: System()


@pytest.mark.parametrize("code", [errno.EIO, errno.ESTALE, errno.ETIMEDOUT])
@pytest.mark.parametrize("took_effect", [True, False])
@pytest.mark.parametrize(
    "write",
    [
        lambda store: store.put_if_absent("target", b"bytes"),
        lambda store: store.rename_if_absent("source", "target"),
    ],
    ids=["put_if_absent", "rename_if_absent"],
)
def test_a_rename_without_a_clear_answer_is_unknown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, took_effect: bool, write: Callable[[LocalStore], None]
) -> None:
    store = renaming(tmp_path)
    monkeypatch.setattr("seiche.store.staging.ctypes.CDLL", answering(code, took_effect=took_effect))
    with pytest.raises(CommitUnknown):
        write(store)
    assert store.exists("target") == took_effect
    assert not [name for name in os.listdir(tmp_path) if name.startswith(TEMPORARY)]


@pytest.mark.parametrize("code", [errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP])
def test_a_file_system_that_can_neither_link_nor_refuse_to_replace_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    store = renaming(tmp_path)
    monkeypatch.setattr("seiche.store.staging.ctypes.CDLL", answering(code, took_effect=False))
    with pytest.raises(InvalidInput, match="neither link") as refused:
        store.put_if_absent("target", b"bytes")
    assert "hard links" in refused.value.remedy
    assert os.listdir(tmp_path) == ["source"]


@pytest.mark.parametrize("links", [True, False])
def test_a_temporary_name_that_somebody_else_has_is_left_to_him_and_another_one_taken(
    tmp_path: Path, links: bool
) -> None:
    """Taken for an answer about the target, it would say that this exists."""
    theirs = f"{TEMPORARY}{Runtime.seeded(1).u64():016x}"
    (tmp_path / theirs).write_bytes(b"theirs")
    store = LocalStore(tmp_path)
    store._staging = Staging(Runtime.seeded(1), anonymous=False, links=links)
    store.put_if_absent("f", b"mine")
    with pytest.raises(AlreadyExists):
        store.put_if_absent("f", b"other")
    assert store.get("f") == b"mine"
    assert (tmp_path / theirs).read_bytes() == b"theirs"


def test_whoever_may_not_open_the_directory_above_the_root_can_write_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "root").mkdir()
    original = os.open

    def refused(path: Any, *arguments: Any, **keywords: Any) -> int:
        if path == str(tmp_path):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
        return original(path, *arguments, **keywords)

    monkeypatch.setattr(os, "open", refused)
    store = LocalStore(tmp_path / "root")
    for name in ("first", "second"):
        store.put_if_absent(name, b"1")
    assert store.flush(["first", "second"]) == 2
