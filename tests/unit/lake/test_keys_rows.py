"""Rows behind the keys, and those that are too large for the tree."""

from dataclasses import replace

import pytest

from seiche.core.runtime import Runtime
from seiche.errors import Corrupt, InvalidInput
from seiche.lake.objects import definitions, rows
from seiche.store.paths import check
from seiche.testing import DictStore

MANIFEST = rows.Manifest(path="_staged/m", transaction="u", sha256=b"\x01" * 32, size=10)
ICEBERG = rows.IcebergMetadata(location="metadata/1.json", previous_location="metadata/0.json", uuid="i")
EVERY: list[rows.Row] = [
    rows.NamespaceRow(id="n", properties={"a": "b"}, created_at_millis=5),
    rows.TableRow(id="t", location="tables/t", table_version=3, logical_version=2, manifest=MANIFEST),
    rows.TableRow(id="t", location="tables/t", format="iceberg", iceberg=ICEBERG, properties={"x": ""}),
    rows.TableRow(id="t", type="external", location="s3://elsewhere/t", pointer_version=2**40),
    rows.TableRow(id="t", type="federated", location="", source={"uri": "https://catalog"}),
    rows.ViewRow(id="v", sql="select 1", dialect="spark", default_namespace=("a", "b")),
    rows.ObjectNameRow(key=b"C===a b"),
    rows.TransactionRow(version=7, outcome="aborted", decided_at_millis=9),
    rows.StreamRow(owner="run", epoch=-1, version=7, transaction="t"),
    rows.TagRow(version=7),
    rows.ExportRow(version=7, location="s3://backup", mode="full"),
    rows.TrashRow(location="tables/t", dropped_in_version=7, key=b"C===a b", row=b"T\x01"),
    rows.RetentionRow(maximum_age_millis=1),
]


@pytest.mark.parametrize("row", EVERY, ids=lambda row: type(row).__name__)
def test_a_row_reads_back_as_it_was_written(row: rows.Row) -> None:
    data = rows.encode(row)
    assert rows.decode(data, type(row)) == row
    assert rows.decode(data, rows.Row) == row
    assert rows.kind_of(data) is type(row)
    assert rows.encode(rows.decode(data, type(row))) == data


def test_every_kind_of_row_is_tried() -> None:
    assert {type(row) for row in EVERY} == set(rows._KINDS.values())


def test_fields_of_a_newer_release_survive_a_rewrite() -> None:
    unknown = bytes([0xF8, 0x3F, 7])  # field 1023
    row = rows.decode(rows.encode(EVERY[1]) + unknown, rows.TableRow)
    assert row == EVERY[1]
    again = rows.encode(replace(row, table_version=4, properties={"new": "one"}, manifest=None))
    assert again.endswith(unknown)
    read = rows.decode(again, rows.TableRow)
    assert (read.table_version, read.properties, read.manifest) == (4, {"new": "one"}, None)


def test_fields_inside_a_part_survive_too_while_the_part_does() -> None:
    nested = replace(MANIFEST, unknown=bytes([0xF8, 0x3F, 7]))
    data = rows.encode(rows.TableRow(id="t", location="tables/t", manifest=nested))
    row = rows.decode(data, rows.TableRow)
    assert rows.encode(replace(row, table_version=9)).count(bytes([0xF8, 0x3F, 7])) == 1
    assert bytes([0xF8, 0x3F, 7]) not in rows.encode(replace(row, manifest=MANIFEST))


def test_rows_that_cannot_be_read_are_refused() -> None:
    good = rows.encode(EVERY[0])
    with pytest.raises(Corrupt, match="is a NamespaceRow, not a TableRow"):
        rows.decode(good, rows.TableRow)
    for bad in (b"", b"?", b"N", b"N\x02", b"N\x01\xff", b"?\x01"):
        with pytest.raises(Corrupt):
            rows.decode(bad, rows.NamespaceRow)
    with pytest.raises(Corrupt):
        rows.decode(b"T\x01\x10\x09", rows.TableRow)  # a type that this release does not know
    with pytest.raises(InvalidInput, match="'borrowed' is not a type"):
        rows.encode(rows.TableRow(id="t", type="borrowed", location=""))  # type: ignore[arg-type]


def test_a_large_row_stands_in_a_file_and_the_tree_refers_to_it() -> None:
    store, runtime = DictStore(), Runtime.seeded(1)
    row = rows.NamespaceRow(id="n", properties={f"key{n}": "value" * 20 for n in range(100)})
    data = rows.encode(row)
    value, files = definitions.stow(data, "namespace", ("shop", "../größe"), runtime)
    ((path, content),) = files.items()
    assert content == data
    assert check(path).split("/")[3].split("-", 1)[1].startswith("namespace-shop-~~~gr~~e-")
    assert len(value) < 200
    assert rows.kind_of(value) is rows.NamespaceRow
    with pytest.raises(Corrupt, match="reference"):
        rows.decode(value, rows.NamespaceRow)
    with pytest.raises(Corrupt, match="missing"):
        definitions.resolve(store, value)
    store.put(path, content)
    assert rows.decode(definitions.resolve(store, value), rows.NamespaceRow) == row
    store.put(path, content + b"x")
    with pytest.raises(Corrupt, match="checksum"):
        definitions.resolve(store, value)


def test_a_small_row_stays_in_the_tree() -> None:
    data = rows.encode(EVERY[0])
    assert definitions.stow(data, "namespace", ("shop",), Runtime.seeded(1)) == (data, {})
    assert definitions.resolve(DictStore(), data) is data
    assert definitions.reference(data) is None
    with pytest.raises(Corrupt, match="reference"):
        definitions.reference(b"@\x01N\xff")
