"""Files that a client wrote before it began: a clean-up that had noted them by then must not take them from a root."""

from datetime import timedelta
from pathlib import Path
from threading import Event

import pytest

from seiche import Lake
from seiche.lake.commit import Committer
from seiche.service import writing
from seiche.service.states import State
from tests.service_lake import appending, make_service, numbers_in, reopened

GRACE = timedelta(milliseconds=20)


def clean_up(lake: Lake) -> int:
    """A clean-up by another process; returns how many files it took."""
    Event().wait(GRACE.total_seconds() * 2)
    return len(reopened(lake).gc(dry_run=False, grace=GRACE).moved)


def clean_up_before_the_root(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Let a clean-up come between the last look at the files of the next commit and its root."""
    put = Committer._put
    taken: list[int] = []

    def late(self: Committer, *given: object) -> bool:
        monkeypatch.setattr(Committer, "_put", put)
        taken.append(clean_up(lake))
        return put(self, *given)  # type: ignore[arg-type]

    monkeypatch.setattr(Committer, "_put", late)
    return taken


@pytest.mark.parametrize("calls", ["three", "one"])
def test_files_from_before_a_clean_up_are_refused(
    lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, calls: str
) -> None:
    monkeypatch.setattr(writing, "_BLUR", GRACE / 2)
    early = appending(lake, "shop.orders", numbers=[1])
    assert clean_up(lake) == 0, "it only notes them"
    lake.table("shop.stock").append({"writer": [1], "number": [1]})
    service = make_service(lake, tmp_path)
    taken = clean_up_before_the_root(lake, monkeypatch)
    if calls == "three":
        tx = service.begin().id
        service.prepare(tx, [early])
        ended = service.commit(tx)
    else:
        ended = service.execute([early]).record
    assert taken == [1]
    assert ended.state is State.APPLY_FAILED_CONFLICT
    assert "given up by an expiry or clean-up" in ended.error_message
    assert reopened(lake).fsck(deep=True).problems == ()
    # Written anew, they are taken.
    assert service.execute([appending(lake, "shop.orders", numbers=[2])]).record.state is State.APPLIED
    assert numbers_in(lake) == [2]
    service.close()
