"""Where nothing new is made, because native code could not read it there."""

import os
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

import pyarrow as pa
import pytest

import seiche
from seiche.errors import InvalidInput
from seiche.store import open_store

SCHEMA = pa.schema([("id", pa.int64())])


def a_table(place: str, _beside: Path) -> object:
    return seiche.Table.create(place, SCHEMA, durability="os")


def a_clone(place: str, beside: Path) -> object:
    return seiche.Table.create(str(beside / "t"), SCHEMA, durability="os").clone(place)


def a_shallow_clone(place: str, beside: Path) -> object:
    return seiche.Table.create(str(beside / "t"), SCHEMA, durability="os").clone(place, shallow=True)


def a_lake(place: str, _beside: Path) -> object:
    return seiche.create(place, durability="os")


def an_export(place: str, beside: Path) -> object:
    return seiche.create(str(beside / "lake"), durability="os").export("copy", place)


@pytest.mark.parametrize("make", [a_table, a_clone, a_shallow_clone, a_lake, an_export])
@pytest.mark.parametrize(
    "character",
    ["\t", "\n", "\x01", "\x7f", os.fsdecode(b"\xff")],
    ids=["a tab", "a line break", "the code 1", "the code 127", "a byte that is no text"],
)
def test_nothing_is_made_in_a_folder_with_a_control_character_or_bytes_that_are_no_text(
    make: Callable[[str, Path], object], character: str, tmp_path: Path
) -> None:
    """Rows could be written there, and whoever read them was told that the table is damaged."""
    folder = tmp_path / "in" / f"a{character}b"
    for place in (str(folder / "c"), f"file://{quote(os.fsencode(folder / 'c'))}"):
        beside = tmp_path / quote(os.fsencode(place), safe="")
        with pytest.raises(InvalidInput, match=r"control character|not UTF-8"):
            make(place, beside)
    assert not folder.exists()


def test_what_is_there_can_be_opened_still(tmp_path: Path) -> None:
    place = tmp_path / "a"
    seiche.Table.create(str(place), SCHEMA, durability="os")
    place.rename(tmp_path / "a\tb")
    assert seiche.Table.open(open_store(tmp_path / "a\tb")).version == 1
