"""An operation prepared here and committed elsewhere, rows included."""

from pathlib import Path

import pyarrow as pa
import pytest

import seiche
from seiche.store import open_store
from seiche.table import affected
from seiche.table.operations import Delete
from seiche.testing import SimulatedStore


@pytest.mark.parametrize("limit", [1 << 20, 1])
def test_another_process_can_finish_a_delete_and_rebase_it(
    tmp_path: Path, limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rows travel in a property, or in a file if they are many; with them, the delete merges with another one."""
    monkeypatch.setattr(affected, "_LARGEST_PROPERTY", limit)
    monkeypatch.setattr(affected.pack, "__kwdefaults__", {"largest_property": limit})
    table = seiche.Table.create(str(tmp_path / "t"), pa.schema([("id", pa.int64())]))
    table.append([{"id": number} for number in range(5)])
    fragment = table.to_lance().get_fragments()[0]
    from seiche.table.data.fragments import fragment_from_lance

    masked = fragment.delete("id = 1")
    assert masked is not None
    removed = fragment_from_lance(masked)
    packed = table.pack(Delete((removed,), (), "id = 1"), affected_rows={0: [1]})
    assert bool(list((tmp_path / "t" / "_transactions").glob("*.rows"))) == (limit == 1)
    seiche.Table.open(str(tmp_path / "t")).delete("id = 3")
    elsewhere = seiche.Table.open(str(tmp_path / "t"))
    elsewhere.commit(packed)
    assert sorted(elsewhere.to_arrow()["id"].to_pylist()) == [0, 2, 4]
    elsewhere.to_lance().validate()  # type: ignore[no-untyped-call]
    assert affected.ROWS_PROPERTY not in elsewhere.transactions()[-1][1].properties


def test_many_rows_are_written_again_if_the_storage_gives_no_answer(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    seiche.Table.create(path, pa.schema([("id", pa.int64())]))

    def pack(store: SimulatedStore) -> SimulatedStore:
        seiche.Table.open(store).pack(Delete((), (), "true"), affected_rows={0: range(0, 2_000_000, 2)})
        return store

    calls = pack(SimulatedStore(open_store(path))).calls
    (number,) = [at for at, call in enumerate(calls, 1) if call.path.endswith(".rows")]
    # `CommitUnknown` would send people to ask for the outcome of a commit that has not begun.
    assert pack(SimulatedStore(open_store(path), plan={number: "after"})).injected
