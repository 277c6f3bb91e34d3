"""Names, keys and their ranges."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seiche.errors import Corrupt, InvalidInput
from seiche.lake.objects import keys
from seiche.lake.objects.names import check_name, parts, text

KEYS = {
    keys.namespace_key(("shop",)): b"B=== shop",
    keys.namespace_key(("shop", "eu")): b"B===shop eu",
    keys.namespace_key(("shop", "eu", "north")): b"B===shop\x1feu north",
    keys.table_key(("shop", "orders")): b"C===shop orders",
    keys.table_key(("shop", "eu", "orders")): b"C===shop\x1feu orders",
    keys.table_key(("größe", "日本")): "C===größe 日本".encode(),
    keys.id_key("6fcb514b-b878-4c9d-95b7-8dc3a7ce6fd8"): b"D===6fcb514b-b878-4c9d-95b7-8dc3a7ce6fd8",
    keys.transaction_key("t1"): b"E===t1",
    keys.stream_key("orders to lake"): b"F===orders to lake",
    keys.tag_key("nightly"): b"G===nightly",
    keys.export_key("nightly"): b"H===nightly",
    keys.trash_key("x"): b"I===x",
    keys.retention_key("default"): b"J===default",
}


@pytest.mark.parametrize(("key", "expected"), KEYS.items())
def test_keys_are_encoded_as_documented(key: bytes, expected: bytes) -> None:
    assert key == expected


def allowed(part: str) -> bool:
    try:
        check_name(part)
    except InvalidInput:
        return False
    return True


Parts = st.text(min_size=1, max_size=4).filter(allowed) | st.sampled_from(["a", "b", "ab", "a!", "a.b", "~", "\u0101"])
Names = st.lists(Parts, min_size=1, max_size=4).map(tuple)


@given(Names, st.lists(Names, max_size=12))
def test_ranges_hold_exactly_what_they_are_for(namespace: tuple[str, ...], names: list[tuple[str, ...]]) -> None:
    """Also for the children of children, and for names that begin like others."""
    family = [*names, *((*namespace, *name) for name in names), namespace]
    for name in family:
        inside = len(name) > len(namespace) and name[: len(namespace)] == namespace
        direct = name[:-1] == namespace
        assert (keys.namespace_key(name) in keys.children_of(namespace)) == direct
        assert (keys.namespace_key(name) in keys.children_of(())) == (len(name) == 1)
        if len(name) > 1:
            assert (keys.table_key(name) in keys.tables_of(namespace)) == direct
            assert (keys.table_key(name) in keys.tables_under(namespace)) == inside
            assert keys.table_key(name) in keys.tables_under(())
        assert keys.namespace_key(name) not in keys.tables_under(())


@given(Names, Names)
def test_names_and_keys_correspond(one: tuple[str, ...], other: tuple[str, ...]) -> None:
    assert keys.name_of(keys.namespace_key(one)) == one
    assert keys.name_of(keys.table_key(one)) == one
    assert (keys.table_key(one) == keys.table_key(other)) == (one == other)


@given(st.lists(st.tuples(Parts, Parts), max_size=20))
def test_tables_sort_by_namespace_then_name_in_bytes(names: list[tuple[str, str]]) -> None:
    by_name = sorted(names, key=lambda name: tuple(part.encode() for part in name))
    assert [keys.table_key(name) for name in by_name] == sorted(map(keys.table_key, names))


@pytest.mark.parametrize("key", [b"", b"B===", b"C===x", b"D===a b", b"C===a "])
def test_other_keys_have_no_name(key: bytes) -> None:
    with pytest.raises(Corrupt, match="not the key of a namespace or table"):
        keys.name_of(key)


CONTROLS = [chr(code) for code in (*range(0x21), 0x7F, *range(0x80, 0xA0), 0x2028, 0x2029)]


@pytest.mark.parametrize("bad", [*CONTROLS, "/", "\\"], ids=lambda bad: f"U+{ord(bad):04X}")
def test_characters_that_can_lead_astray_are_refused_anywhere(bad: str) -> None:
    for name in (bad, f"a{bad}", f"{bad}a", f"a{bad}b"):
        with pytest.raises(InvalidInput, match="cannot be a name"):
            check_name(name)


@pytest.mark.parametrize("bad", ["", ".", "..", "\ud800", "x\udfff"])
def test_other_impossible_names_are_refused(bad: str) -> None:
    with pytest.raises(InvalidInput, match="cannot be a name"):
        check_name(bad)


@pytest.mark.parametrize(
    "good", ["a", "...", "a..b", "größe", "日本", "\u00a0", "\u3000", "$", "%2F", "~", "😀", "-", "#"]
)
def test_other_names_are_kept_as_they_are(good: str) -> None:
    assert check_name(good) is good


def test_names_are_measured_in_bytes() -> None:
    assert check_name("x" * 100)
    assert check_name("é" * 50)
    assert check_name("😀" * 25)
    for long in ("x" * 101, "é" * 50 + "x", "😀" * 25 + "x"):
        with pytest.raises(InvalidInput, match="bytes, more than 100"):
            check_name(long)


def test_a_dotted_name_is_split_and_a_tuple_is_not() -> None:
    assert parts("shop.eu.orders") == ("shop", "eu", "orders")
    assert parts(("shop", "or.ders")) == ("shop", "or.ders")
    assert text(("shop", "or.ders")) == 'shop."or.ders"'
    for bad in ("", "a..b", ".a", "a.", (), ("a", ""), ("a/b",), ["x"] * 18):
        with pytest.raises(InvalidInput):
            parts(bad)
