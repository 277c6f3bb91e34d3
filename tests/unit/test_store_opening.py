"""From an address to a store, and which paths a store takes."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import seiche
from seiche.errors import InvalidInput, NotFound, Unavailable
from seiche.store import open_store
from seiche.store.hdfs import HdfsStore
from seiche.store.local import LocalStore
from seiche.store.memory import MemoryStore
from seiche.store.object import ObjectStore
from seiche.store.paths import TEMPORARY, as_uri_path, check, check_directory, join, parent, valid


@pytest.mark.parametrize(
    ("uri", "kind"),
    [
        ("/data/lake", LocalStore),
        ("lake", LocalStore),
        ("./lake", LocalStore),
        (Path("lake"), LocalStore),
        ("file:///data/lake", LocalStore),
        ("file://localhost/data/lake", LocalStore),
        ("FILE:///data/lake", LocalStore),
        ("memory://name", MemoryStore),
        ("memory://name/below/it", MemoryStore),
        ("s3://bucket", ObjectStore),
        ("s3://bucket/a/prefix/", ObjectStore),
        ("gs://bucket/prefix", ObjectStore),
        ("hdfs://namenode:8020/lake", HdfsStore),
    ],
)
def test_addresses(uri: str, kind: type) -> None:
    assert type(open_store(uri)) is kind


def test_a_path_that_begins_with_a_tilde_lies_at_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    meanings: dict[str | Path, str] = {
        "~/lake": "home/lake",
        "~": "home",
        Path("~/lake"): "home/lake",
        "~lake": "~lake",
    }
    for tilde, meant in meanings.items():
        assert open_store(tilde).uri == open_store(tmp_path / meant).uri
    for literal in ("./~/lake", f"file://{tmp_path}/~/lake"):
        assert open_store(literal).uri == open_store(tmp_path / "~" / "lake").uri


def test_azure_takes_its_account_from_options_or_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    assert type(open_store("az://container/prefix", azure_storage_account_name="account")) is ObjectStore
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", "account")
    assert type(open_store("az://container/prefix")) is ObjectStore


@pytest.mark.parametrize(
    "uri",
    ["", "\x00", "ftp://host/lake", "s4://bucket", "://", "s3://", "s3:///key", "gs://", "az://", "memory://", "memory:///x",
     "memory://a/../b", "s3://bucket/../other", "s3://bucket/a//b", "file://", "file://data/lake", "file:///a%00b",
     "file:/data/lake", "S3:/bucket",
     "hdfs://host:port/x", "http://host/lake", "s3://bucket/a\nb",
     "s3://a bucket/x", "s3://a%60b", "s3://bucket?list/x", "s3://bucket#x/y", "s3://../bucket", "s3://me@bucket",
     "gs://büro"],
)  # fmt: skip
def test_addresses_that_cannot_be_right(uri: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        open_store(uri)
    assert refused.value.remedy


def test_an_unknown_scheme_is_answered_with_those_that_exist() -> None:
    with pytest.raises(InvalidInput, match="'ftp' is unknown") as refused:
        open_store("ftp://host/lake")
    for scheme in ("file", "memory", "s3", "gs", "az", "hdfs"):
        assert f"{scheme}://" in refused.value.remedy


def test_options_and_durability_are_checked() -> None:
    with pytest.raises(InvalidInput, match="aws_region"):
        open_store("/data", aws_region="x")
    with pytest.raises(InvalidInput, match="colour"):
        open_store("memory://x", colour="blue")
    for uri in ("/data", "s3://bucket"):
        with pytest.raises(InvalidInput, match="durability"):
            open_store(uri, durability="maybe")  # type: ignore[arg-type]


def test_opening_touches_nothing(tmp_path: Path) -> None:
    store = open_store(tmp_path / "not" / "there")
    assert list(store.list()) == []
    assert not store.exists("f")
    store.delete("f")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("name", ["plain", "with space", "100%", "a%20b", "a#b", "a?b", "ü", "a:b", "a&b=c+d"])
def test_file_addresses_lead_back(tmp_path: Path, name: str) -> None:
    store = open_store(tmp_path / name)
    store.put("f", b"x")
    assert open_store(store.uri).get("f") == b"x"
    assert Path(open_store(store.uri).native_uri()) == tmp_path / name
    assert (tmp_path / name / "f").read_bytes() == b"x"


def test_file_addresses_with_bytes_that_are_no_text_lead_back(tmp_path: Path) -> None:
    folder = os.fsdecode(os.fsencode(tmp_path) + b"/a\xffb")
    store = open_store(folder)
    store.put("f", b"x")
    assert store.uri.endswith("/a%FFb")
    assert open_store(store.uri).get("f") == b"x"
    assert os.listdir(tmp_path) == [os.path.basename(folder)]
    with pytest.raises(InvalidInput):
        open_store("s3://bucket/a%FFb")


def test_a_file_address_may_leave_special_characters_as_they_are(tmp_path: Path) -> None:
    open_store(f"file://{tmp_path}/a#b?c d").put("f", b"x")
    assert (tmp_path / "a#b?c d" / "f").exists()


def test_relative_paths_stay_where_they_were_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    store = open_store("lake")
    monkeypatch.chdir("/")
    store.put("f", b"x")
    assert (tmp_path / "lake" / "f").exists()


def test_a_relative_path_in_a_directory_that_was_removed_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    with pytest.raises(NotFound, match="lake: the working directory"):
        open_store("lake")
    assert not open_store(tmp_path / "lake").exists("a")


def test_hdfs_without_hadoop_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError("Unable to load libjvm\nmany more lines")

    monkeypatch.setattr("seiche.store.hdfs.fs.HadoopFileSystem", refuse)
    with pytest.raises(Unavailable, match="libjvm") as refused:
        open_store("hdfs://namenode:8020/lake").get("f")
    assert "HADOOP_HOME" in refused.value.remedy


def test_heavy_libraries_are_loaded_when_they_are_needed() -> None:
    script = (
        "import seiche.store, sys; print(sorted({'obstore', 'pyarrow', 'lance', 'numpy', 'rich'} & set(sys.modules)))"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60)
    assert ran.stdout.strip() == "[]"


def test_the_store_is_part_of_the_public_face() -> None:
    assert seiche.store.open_store is open_store


PARTS = st.text(min_size=1, max_size=8).filter(
    lambda part: (
        part not in (".", "..")
        and not part.startswith(TEMPORARY)
        and not any(
            letter in "/\\" or ord(letter) < 32 or 127 <= ord(letter) < 160 or 0xD800 <= ord(letter) < 0xE000
            for letter in part
        )
    )
)


@given(st.lists(PARTS, min_size=1, max_size=4))
def test_good_paths_come_through_unchanged(parts: list[str]) -> None:
    path = "/".join(parts)
    assert check(path) == path
    assert valid(path)
    assert check_directory(path) == path
    assert join(parent(path), parts[-1]) == path


@given(st.text(max_size=12))
def test_whatever_is_accepted_stays_inside(text: str) -> None:
    if valid(text):
        assert not os.path.isabs(text)
        assert os.path.normpath(text) == text
        assert os.path.abspath(os.path.join("/base/dir", text)).startswith("/base/dir/")
        assert not set(text) & {"\\", "\x00", "\n"}
        text.encode()
        assert "#" not in as_uri_path(text)
        assert "?" not in as_uri_path(text)
