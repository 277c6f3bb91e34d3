"""A client that writes into a copy of the lake is refused, whatever it commits: nobody would find its files."""

import pickle
import shutil
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from threading import Event
from typing import Any

import pyarrow as pa
import pytest

import seiche
from seiche import InvalidInput, Lake, RetryableConflict
from seiche.service.client import channel
from seiche.service.host import Host
from seiche.service.running import running
from seiche.service.state.opening import open_database
from seiche.service.wire.server import Ports
from tests.service_lake import make_lake, numbers_in

ROWS = [{"writer": 1, "number": 7}]


def _merge(lake: Lake) -> None:
    with lake.transaction() as tx:
        tx.merge("shop.orders", ROWS, on="number").when_not_matched_insert_all().execute()


VERBS: dict[str, Callable[[Any], object]] = {
    "append": lambda lake: lake.table("shop.orders").append(ROWS),
    "update": lambda lake: lake.table("shop.orders").update({"writer": "5"}, where="number = 2"),
    "delete": lambda lake: lake.table("shop.orders").delete("number = 2"),
    "merge": _merge,
    "overwrite": lambda lake: lake.table("shop.orders").overwrite(ROWS),
    "column": lambda lake: lake.table("shop.orders").add_columns({"twice": "number * 2"}),
    "index": lambda lake: lake.table("shop.orders").create_index("number", "BTREE"),
    "iceberg": lambda lake: lake.table("shop.facts").append(ROWS),
}


@pytest.fixture
def old(lake: Lake) -> Lake:
    lake.create_table("shop.facts", pa.schema([("writer", pa.int64()), ("number", pa.int64())]), format="iceberg")
    lake.table("shop.orders").append([{"writer": 1, "number": number} for number in (1, 2, 3)])
    return lake


@pytest.fixture
def copy(old: Lake, tmp_path: Path) -> Lake:
    shutil.copytree(old.uri.removeprefix("file://"), tmp_path / "copy")
    return seiche.open(str(tmp_path / "copy"), durability="os")


@pytest.fixture(params=["open call", "a call each"])
def client(
    request: pytest.FixtureRequest, old: Lake, copy: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Lake]:
    """One of a server on the copy, which still finds the lake where it was."""
    if request.param == "a call each":
        monkeypatch.setattr(channel, "_no_proxy", lambda: False)
    host = Host({"default": copy}, open_database(f"sqlite://{tmp_path}/state.db"))
    with running(host, Ports()) as server, seiche.connect(server.address, uri=old.uri, durability="os") as found:
        yield found


@pytest.mark.parametrize("verb", VERBS.values(), ids=VERBS.keys())
def test_what_was_written_into_another_lake_is_refused(
    client: Lake, old: Lake, copy: Lake, verb: Callable[[Lake], object]
) -> None:
    before = copy.version
    with pytest.raises(InvalidInput, match="it was written elsewhere") as caught:
        verb(client)
    assert caught.value.details["reason"] == "files.elsewhere"
    assert (copy.version, old.version) == (before, before)
    assert numbers_in(copy) == [1, 2, 3]


def test_what_has_no_files_says_nothing_about_those_that_come(client: Lake, copy: Lake) -> None:
    client.create_namespace("more")
    assert ("more",) in copy.namespaces()
    with pytest.raises(InvalidInput, match="it was written elsewhere"):
        client.table("shop.orders").append(ROWS)


@pytest.mark.parametrize("way", ["open call", "a call each"])
def test_a_server_that_has_another_lake_by_now_does_nothing_for_who_means_the_first(
    old: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    """What needs no files, such as a namespace, was made in the wrong lake; rows were sent a hundred times."""
    if way == "a call each":
        monkeypatch.setattr(channel, "_no_proxy", lambda: False)
    (tmp_path / "x").mkdir()
    other = make_lake(tmp_path / "x")
    for number in range(old.version):
        other.table("shop.orders").append([{"writer": 1, "number": number}])
    before = other.version
    first = Host({"default": old}, open_database(f"sqlite://{tmp_path}/old.db"))
    with running(first, Ports()) as server:
        found = seiche.connect(server.address, durability="os")
        found.table("shop.orders").append(ROWS)
    second = Host({"default": other}, open_database(f"sqlite://{tmp_path}/other.db"))
    with running(second, Ports(port=server.port)) as server:
        for act in (
            lambda: found.create_namespace("more"),
            lambda: found.table("shop.orders").append(ROWS),
            lambda: pickle.loads(pickle.dumps(found)).create_namespace("more"),
        ):
            with pytest.raises(InvalidInput, match="the server has another lake") as caught:
                act()
            assert caught.value.details["reason"] == "lake.other"
        assert seiche.connect(server.address).namespaces() == [("shop",)], "who connects now means this one"
    found.close()
    assert other.version == before


def test_files_that_a_clean_up_took_are_a_conflict_as_ever(old: Lake, tmp_path: Path) -> None:
    """They are not there either. Whoever wrote them may run its work again."""
    host = Host({"default": old}, open_database(f"sqlite://{tmp_path}/state.db"))
    with running(host, Ports()) as server, seiche.connect(server.address, durability="os") as found:
        late = found.transaction()
        late.append("shop.orders", ROWS)
        late.update("shop.orders", {"writer": "5"}, where="number = 2")
        for _ in range(2):
            Event().wait(0.04)
            old.table("shop.stock").append(ROWS)
            old.gc(dry_run=False, grace=timedelta(milliseconds=20))
        with pytest.raises(RetryableConflict):
            late.commit()
        found.table("shop.orders").append(ROWS)
    assert numbers_in(old) == [1, 2, 3, 7]
