"""Data files that say wrong things about where their parts are: noticed before native code believes them."""

import struct
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import seiche
from seiche.errors import Corrupt
from seiche.store.local import LocalStore
from seiche.table.format import data_layout
from seiche.table.format.data_layout import check_layout

ROWS = pa.table(
    {
        "number": list(range(2000)),
        "text": [f"value {one % 7}" for one in range(2000)],
        "list": [[one, one + 1] for one in range(2000)],
        "struct": [{"x": one, "y": str(one)} for one in range(2000)],
    }
)
FOOTER = struct.Struct("<QQQIIHH4s")
HUGE = (1 << 31) - 1


def written(folder: Path, version: Any = "2.2") -> Path:
    lance.write_dataset(ROWS, str(folder), data_storage_version=version)
    (path,) = (folder / "data").iterdir()
    return path


def check(path: Path) -> None:
    check_layout(LocalStore(str(path.parent)), path.name)


@pytest.mark.parametrize("version", ["legacy", "2.0", "2.1", "2.2"])
@pytest.mark.parametrize("tail", [64, 64 * 1024])
def test_whole_files_pass(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str, tail: int) -> None:
    monkeypatch.setattr(data_layout, "_TAIL", tail)
    check(written(tmp_path / "t", version))


def test_files_of_our_own_pass(tmp_path: Path) -> None:
    table = seiche.Table.create(str(tmp_path / "t"), pa.schema([("a", pa.int64()), ("b", pa.string())]))
    table.append([{"a": 1, "b": "x"}, {"a": 2, "b": None}])
    (path,) = (tmp_path / "t" / "data").iterdir()
    check(path)


@pytest.mark.parametrize("tail", [64, 64 * 1024])
@pytest.mark.parametrize("version", ["2.0", "2.2"])
def test_a_wrong_number_is_noticed_wherever_it_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str, tail: int
) -> None:
    monkeypatch.setattr(data_layout, "_TAIL", tail)
    path = written(tmp_path / "t", version)
    data = path.read_bytes()
    first, columns, buffers, *_ = FOOTER.unpack(data[-FOOTER.size :])
    footer = len(data) - FOOTER.size
    numbers = [*range(footer, footer + 24, 8), *range(columns, buffers + 8, 8)]
    assert first < columns < buffers < footer
    wrong = [data[:at] + struct.pack("<Q", HUGE) + data[at + 8 :] for at in numbers]
    wrong += [data[:at] + struct.pack("<I", HUGE) + data[at + 4 :] for at in (footer + 24, footer + 28)]
    wrong += [b"", data[: FOOTER.size - 1], data[-FOOTER.size :], data[:-1], data + b"LANC"]
    for each in wrong:
        path.write_bytes(each)
        with pytest.raises(Corrupt, match=path.name) as caught:
            check(path)
        assert "copy" in caught.value.remedy


def test_a_page_that_lies_outside_is_noticed(tmp_path: Path) -> None:
    path = written(tmp_path / "t")
    data = path.read_bytes()
    first, columns, *_ = FOOTER.unpack(data[-FOOTER.size :])
    offset, length = struct.unpack_from("<QQ", data, columns)
    page = bytes([1 << 3 | 2, 5, *b"\xff\xff\xff\xff\x07", 2 << 3 | 2, 1, 1])
    other = bytes([2 << 3 | 2, len(page)]) + page
    pad = length - len(other)
    for replaced, said in (
        (other + bytes([9 << 3 | 2, pad - 2]) + bytes(pad - 2), "where the pages end"),
        (
            bytes([2 << 3 | 2, 7, 1 << 3 | 2, 5, *b"\xff\xff\xff\xff\x07"]) + data[offset + 9 : offset + length],
            "sizes|decoded",
        ),
        (b"\xff" * length, "cannot be decoded"),
    ):
        path.write_bytes(data[:offset] + replaced + data[offset + length :])
        with pytest.raises(Corrupt, match=said):
            check(path)
    assert first <= offset
