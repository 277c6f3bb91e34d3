"""What a server does for itself once."""

import gc
import resource
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


def test_a_server_may_have_as_many_connections_as_the_system_allows() -> None:
    """Those of a thousand clients that do nothing took all that a process has by default: no file could be opened."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
        settle_server()
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (
            65_536 if hard == resource.RLIM_INFINITY else min(65_536, hard),
            hard,
        )
        settle_server()
        assert resource.getrlimit(resource.RLIMIT_NOFILE)[1] == hard, "what the system grants stays as it is"
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
