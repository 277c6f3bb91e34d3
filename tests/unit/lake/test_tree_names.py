"""Names of files in a lake: known vectors, and the one spelling of each version."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seiche.errors import InvalidInput
from seiche.lake.tree.names import file_word, murmur3_32, optimised, root_name, root_version
from seiche.store.paths import check

ROOTS = {
    0: "_00000000000000000000000000000000.ipc",
    1: "_10000000000000000000000000000000.ipc",
    2: "_01000000000000000000000000000000.ipc",
    3: "_11000000000000000000000000000000.ipc",
    10: "_01010000000000000000000000000000.ipc",
    100: "_00100110000000000000000000000000.ipc",
    255: "_11111111000000000000000000000000.ipc",
    256: "_00000000100000000000000000000000.ipc",
    1000: "_00010111110000000000000000000000.ipc",
    12345678: "_01110010100001100011110100000000.ipc",
    2**31: "_00000000000000000000000000000001.ipc",
    2**32 - 1: "_11111111111111111111111111111111.ipc",
    2**32: "_" + "0" * 32 + "1" + "0" * 31 + ".ipc",
    9223372036854775802: "_0101111111111111111111111111111111111111111111111111111111111110.ipc",
    2**64 - 1: "_" + "1" * 64 + ".ipc",
    2**64: "_" + "0" * 64 + "1" + "0" * 31 + ".ipc",
}


@pytest.mark.parametrize(("version", "name"), ROOTS.items())
def test_a_version_has_the_name_of_the_specification(version: int, name: str) -> None:
    assert root_name(version) == name
    assert root_version(name) == version


@given(st.integers(0, 2**100))
def test_names_and_versions_correspond(version: int) -> None:
    name = root_name(version)
    assert root_version(name) == version
    assert (len(name) - len("_.ipc")) % 32 == 0


@given(st.integers(0, 2**40), st.integers(1, 130))
def test_a_version_has_no_second_spelling(version: int, width: int) -> None:
    spelled = f"_{version:0{width}b}"[::-1]
    other = f"_{spelled[:-1]}.ipc"
    assert root_version(other) in {None, version}
    assert root_version(other) is None or other == root_name(version)


@pytest.mark.parametrize(
    "name",
    [
        "",
        "_.ipc",
        "_1.ipc",
        "_" + "0" * 31 + ".ipc",
        "_" + "0" * 33 + ".ipc",
        "_" + "0" * 64 + ".ipc",
        "_" + "0" * 31 + "2.ipc",
        "_" + "0" * 32,
        "_" + "0" * 32 + ".ipc ",
        "_" + "0" * 32 + ".ipc\n",
        "x_" + "0" * 32 + ".ipc",
        "_" + "٠" * 32 + ".ipc",
        "_latest_hint",
    ],
)
def test_what_is_not_exactly_a_roots_name_is_none(name: str) -> None:
    assert root_version(name) is None


def test_negative_versions_are_refused() -> None:
    with pytest.raises(InvalidInput, match="-1 is not a lake version"):
        root_name(-1)


ID = "6fcb514b-b878-4c9d-95b7-8dc3a7ce6fd8"
HASHES = {
    f"ns1-{ID}.binpb": (0xCE29FE32, f"1001/1111/1110/00110010-ns1-{ID}.binpb"),
    f"ns1-t1-{ID}.binpb": (0xEA1C504D, f"1100/0101/0000/01001101-ns1-t1-{ID}.binpb"),
    f"table-ns1-t1-{ID}.binpb": (0x42E35622, f"0011/0101/0110/00100010-table-ns1-t1-{ID}.binpb"),
    f"node-{ID}.ipc": (0xE6FB0A4E, f"1011/0000/1010/01001110-node-{ID}.ipc"),
    "my-path-my-table-definition.binpb": (0xA0F2253D, "0010/0010/0101/00111101-my-path-my-table-definition.binpb"),
    "my/path/my-table-definition.binpb": (0x06DD737E, "1101/0111/0011/01111110-my-path-my-table-definition.binpb"),
}


@pytest.mark.parametrize(("name", "expected"), HASHES.items())
def test_other_files_are_spread_by_their_hash(name: str, expected: tuple[int, str]) -> None:
    assert (murmur3_32(name.encode()), optimised(name)) == expected


# Published test values of MurmurHash3 x86 32.
@pytest.mark.parametrize(
    ("data", "seed", "value"),
    [
        (b"", 0, 0),
        (b"", 1, 0x514E28B7),
        (b"", 0xFFFFFFFF, 0x81F16F39),
        (b"\xff\xff\xff\xff", 0, 0x76293B50),
        (b"!Ce\x87", 0, 0xF55B516B),
        (b"!Ce", 0, 0x7E4A8634),
        (b"!C", 0, 0xA0F7B07A),
        (b"!", 0, 0x72661CF4),
        (b"\0\0\0\0", 0, 0x2362F9DE),
        (b"Hello, world!", 0x9747B28C, 0x24884CBA),
    ],
)
def test_murmur3(data: bytes, seed: int, value: int) -> None:
    assert murmur3_32(data, seed) == value


@given(st.text(max_size=60))
def test_a_word_in_a_file_name_is_harmless(name: str) -> None:
    word = file_word(name)
    assert len(word) <= 40
    assert word.isascii()
    assert not set(word) & set("/\\.\0 ")
    check(optimised(f"table-{word}-{ID}.binpb"))
