"""Saved transactions that clients send: what is in them is looked at before anything is decided."""

from dataclasses import replace

import pytest

from seiche import InvalidInput, Lake
from seiche.lake.objects.rows import NamespaceRow, TableRow, TagRow, TransactionRow
from seiche.lake.objects.rows import decode as decode_row
from seiche.lake.objects.rows import encode as encode_row
from seiche.lake.saved import encode
from seiche.service.core import Service
from seiche.service.states import State
from tests.service_lake import SCHEMA, numbers_in


def spoiled(lake: Lake, **how: bytes | None) -> bytes:
    """A saved transaction that makes a view and appends rows, with one thing in it replaced."""
    saved = lake.transaction()
    saved.create_view("shop.view", "SELECT 1")
    saved.append("shop.orders", [{"writer": 0, "number": 7}])
    intent = saved.intent()
    assert intent is not None
    message = encode(intent, 2**60)
    (row,), (edit,) = message.rows, message.edits
    for what, value in how.items():
        if value is None:
            row.ClearField("wanted")
        else:
            setattr(edit if what == "edit_key" else row, what.removeprefix("edit_"), value)
    return message.SerializeToString()


@pytest.mark.parametrize(
    "how",
    [
        pytest.param({"wanted": b"\xff\x00garbage"}, id="a row of garbage"),
        pytest.param({"wanted": b""}, id="an empty row"),
        pytest.param({"wanted": b"@\x01V\x0a\x05abcde"}, id="a reference to a file"),
        pytest.param({"wanted": encode_row(NamespaceRow(id="a"))}, id="a row of another kind"),
        pytest.param({"key": b"\xff\xfe"}, id="a key of garbage"),
        pytest.param({"key": b"C===shop \xff"}, id="a name that is no text"),
        pytest.param({"key": b"C===shop a/b"}, id="a name that cannot be"),
        pytest.param({"key": b"C===view"}, id="a name without a namespace"),
        pytest.param({"key": b"C===shop\x1f view"}, id="a name in another spelling"),
        pytest.param({"key": b"G===\xff", "wanted": encode_row(TagRow(version=1))}, id="a tag that is no text"),
        pytest.param({"key": b"E===a", "wanted": encode_row(TransactionRow(version=1))}, id="an outcome"),
        pytest.param({"key": b"C===shop stock", "wanted": None}, id="a table that goes as a row"),
        pytest.param({"edit_key": b"\xff\xfe"}, id="a table's key of garbage"),
        pytest.param({"edit_key": b"C===shop \xff"}, id="a table's name that is no text"),
        pytest.param({"edit_key": b"B=== other"}, id="a table where a namespace stands"),
    ],
)
def test_work_that_could_not_be_read_once_committed_is_refused(
    service: Service, lake: Lake, how: dict[str, bytes | None]
) -> None:
    before = lake.state().version
    ended = service.execute(work=spoiled(lake, **how))
    assert ended.record.state is State.APPLY_FAILED_CONFLICT, ended.record
    assert isinstance(ended.failure, InvalidInput)
    assert [lake.state().version, numbers_in(lake)] == [before, []]
    assert len(list(lake.tables())) == 3


def test_work_that_makes_a_table_gives_it_an_id_that_can_be_one(service: Service, lake: Lake) -> None:
    saved = lake.transaction()
    saved.create_table("shop.more", SCHEMA)
    intent = saved.intent()
    assert intent is not None
    message = encode(intent, 2**60)
    row = decode_row(message.edits[0].row, TableRow)
    message.edits[0].row = encode_row(replace(row, id=""))
    ended = service.execute(work=message.SerializeToString())
    assert ended.record.state is State.APPLY_FAILED_CONFLICT
    assert isinstance(ended.failure, InvalidInput)
    assert "shop.more" not in map(str, lake.tables())
