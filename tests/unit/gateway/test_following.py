"""Desks that are kept up to date while clients try to commit once more."""

import subprocess
import sys
from threading import Event, Thread
from threading import enumerate as threads

from seiche.errors import NotFound
from seiche.gateway.lance_namespace.following import Following


def workers() -> list[Thread]:
    return [one for one in threads() if one.name == "seiche-following"]


def end() -> None:
    for one in workers():
        one.join(60)
    assert not workers(), "a server at rest has no thread for it"


def test_a_table_is_looked_at_until_who_lost_has_committed() -> None:
    following, looks, often = Following(), [0], Event()

    def show() -> int:
        looks[0] += 1
        if looks[0] >= 3:
            often.set()
        return looks[0]

    following.refused("t", "one", show)
    following.refused("t", "two", show)
    assert following.has_lost("t", "one")
    assert not following.has_lost("u", "one")
    following.committed("t", "one")
    assert not following.has_lost("t", "one")
    assert following.has_lost("t", "two")
    assert often.wait(60)
    following.committed("t", "two")
    end()


def test_a_table_that_is_gone_is_not_looked_at_again() -> None:
    following, looks = Following(), [0]

    def show() -> None:
        looks[0] += 1
        raise NotFound("it was dropped")

    following.refused("t", "one", show)
    end()
    assert looks[0] == 1
    assert not following.has_lost("t", "one")


def test_a_process_that_ends_lets_a_look_come_to_its_end() -> None:
    """Native code that comes back to an interpreter which is gone ends the process with a signal."""
    program = """
import os, time
from threading import Event
from seiche.gateway.lance_namespace.following import Following
begun = Event()
def show():
    os.write(1, b"begun\\n")
    begun.set()
    time.sleep(0.5)
    os.write(1, b"done\\n")
Following().refused("t", "one", show)
begun.wait(60)
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, timeout=120)
    said = ended.stdout.split()
    assert said.count(b"begun") == said.count(b"done") > 0
