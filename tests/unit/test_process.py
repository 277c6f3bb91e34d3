"""What a server does for itself once."""

import gc
import sys

from seiche.core.process import settle_server


def test_what_a_server_has_loaded_is_not_looked_through_for_garbage_again() -> None:
    before = sys.getswitchinterval()
    gc.unfreeze()  # as the tests are that were collected
    try:
        sys.setswitchinterval(0.1)
        settle_server()
        assert sys.getswitchinterval() < 0.001
        assert gc.get_freeze_count() > 10_000
        assert len(gc.get_objects()) < gc.get_freeze_count() / 10
        kept: list[object] = []
        kept.append(kept)
        del kept
        assert gc.collect() > 0, "what comes later is collected as ever"
    finally:
        sys.setswitchinterval(before)
