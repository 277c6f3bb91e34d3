"""What a writer says of the versions before his own: it saves reads, and never hides what is in the way."""

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from seiche.errors import IncompatibleConflict
from seiche.store.local import LocalStore
from seiche.table import runs
from seiche.table.format import transaction_pb2 as pb
from seiche.table.format.manifest_pb2 import DataFragment
from seiche.table.operations import Append, UpdateConfig, UpdateMap
from seiche.table.runs import PROPERTY, Run, attested, following
from seiche.table.table import Table
from seiche.testing import CountingStore

SCHEMA = pa.schema([("id", pa.int64())])


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": ids}, schema=SCHEMA)


@pytest.fixture
def opened(tmp_path: Path) -> Callable[[], tuple[Table, CountingStore]]:
    Table.create(str(tmp_path / "t"), SCHEMA, durability="os")

    def another() -> tuple[Table, CountingStore]:
        store = CountingStore(LocalStore(tmp_path / "t", durability="os"))
        return Table.open(store), store

    return another


def fragments(table: Table) -> tuple[DataFragment, ...]:
    table.append(rows(0))
    return tuple(table.manifest.fragments)


def said(table: Table) -> list[str | None]:
    """What each version says of those before it."""
    return [table._versions.transaction(one).properties.get(PROPERTY) for one in range(1, table.version + 1)]


def test_a_writer_that_is_behind_reads_the_newest_version_only(
    opened: Callable[[], tuple[Table, CountingStore]],
) -> None:
    (one, _), (two, _), (late, store) = opened(), opened(), opened()
    for number in range(20):
        one.append(rows(number))
        two.append(rows(-number))
    store.reset()
    late.commit(Append(tuple(one.manifest.fragments)[:1]))
    # A hint, two looks for a later version, and the newest one.
    assert store.reads <= 4
    assert late.version == 42
    assert len(late.to_arrow()) == 41


def test_a_lone_writer_says_nothing(opened: Callable[[], tuple[Table, CountingStore]]) -> None:
    (one, _) = opened()
    for number in range(5):
        one.append(rows(number))
    assert said(one) == [None] * 6


def test_a_writer_that_is_alone_again_says_nothing_any_more(
    opened: Callable[[], tuple[Table, CountingStore]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runs, "_ALONE", 3)
    (one, _), (two, _) = opened(), opened()
    two.append(rows(1))
    for number in range(5):
        one.append(rows(number))
    assert said(one) == [None, None, "2-3", "2-4", "2-5", None, None]


@pytest.mark.parametrize("before", [True, False])
def test_what_is_in_the_way_ends_a_run(opened: Callable[[], tuple[Table, CountingStore]], before: bool) -> None:
    """An overwrite amid many appends, before or after the first of them is seen, is noticed by whoever is behind."""
    (one, _), (two, _), (late, _) = opened(), opened(), opened()
    change = Append(fragments(one))
    for number in range(6):
        if number == (1 if before else 4):
            (two if number % 2 else one).overwrite(rows(100))
        one.append(rows(number))
        two.append(rows(-number))
    assert any(said(one)[-2:])
    with pytest.raises(IncompatibleConflict):
        late.commit(change, read_version=1)


def test_what_appends_go_past_ends_a_run_too(opened: Callable[[], tuple[Table, CountingStore]]) -> None:
    """Appends and settings do not mind each other; but two settings of one key do, whatever lies between."""
    (one, _), (two, _), (late, _) = opened(), opened(), opened()
    more = Append(fragments(one))
    for writer in (two, one, two):
        writer.commit(more)
    one.commit(UpdateConfig(config_updates=UpdateMap({"owner": "them"})))
    for writer in (two, one, two, one):
        writer.commit(more)
    assert said(one) == [None, None, "2-3", "2-4", "2-5", None, None, "7-8", "7-9", "7-10"]
    with pytest.raises(IncompatibleConflict):
        late.commit(UpdateConfig(config_updates=UpdateMap({"owner": "us"})), read_version=1)


def test_only_appends_are_said_to_be_appends(opened: Callable[[], tuple[Table, CountingStore]]) -> None:
    (one, _), (two, _) = opened(), opened()
    one.append(rows(1))
    two.append(rows(2))
    one.delete("id = 1")
    two.append(rows(3))
    one.append(rows(4))
    assert said(one) == [None, None, "2-3", None, None, "5-6"]


def test_the_same_transaction_is_found_inside_a_run(opened: Callable[[], tuple[Table, CountingStore]]) -> None:
    (one, _), (two, _), (late, _) = opened(), opened(), opened()
    packed = late.pack(UpdateConfig(config_updates=UpdateMap({"owner": "us"})))
    ours = late.pack(Append(fragments(two)))
    for number in range(3):
        one.append(rows(number))
        two.append(rows(number))
    one.commit(ours)
    for number in range(3):
        two.append(rows(number))
        one.append(rows(number))
    assert said(one)[-1] == "2-15"
    assert late.commit(ours).version == 15, "it was there already"
    assert late.commit(packed).version == 16
    assert len([made for _, made in late.transactions() if made.operation.name == "Append"]) == 14


def test_what_a_transaction_says_elsewhere_is_not_believed_here(
    opened: Callable[[], tuple[Table, CountingStore]],
) -> None:
    (one, _), (two, _) = opened(), opened()
    made = fragments(one)
    two.overwrite(rows(2))
    copied = pb.Transaction.FromString(two.pack(Append(made)))
    copied.properties[PROPERTY] = "2-4"
    two.commit(copied.SerializeToString())
    assert two.version == 4
    assert said(two) == [None, None, None, None]


@pytest.mark.parametrize(
    "text",
    ["", "-", "2", "2-", "-9", "0-9", "10-9", "2-8", "2-10", "a-9", "²-9", "2-9-1", " 2-9", "2-99999999999999999999"],
)
def test_what_cannot_be_right_is_as_if_it_was_not_said(text: str) -> None:
    message = pb.Transaction(properties={PROPERTY: text})
    assert attested(message, 9) == 0


def test_what_is_right_is_believed() -> None:
    assert attested(pb.Transaction(properties={PROPERTY: "2-9"}), 9) == 2
    assert attested(pb.Transaction(), 9) == 0


def test_versions_that_nobody_looked_at_end_a_run() -> None:
    """What lies between them may be anything; to call it an append would let it be passed over unchecked."""
    known = Run(2, 5, 5)
    assert following(known, 6, pb.Transaction(), Append) == Run(2, 6, 6)
    assert following(known, 8, pb.Transaction(), Append) == Run(8, 8, 8)
    assert following(known, 8, pb.Transaction(properties={PROPERTY: "7-8"}), Append) == Run(7, 8, 8)
    assert following(known, 6, pb.Transaction(), UpdateConfig) is None
