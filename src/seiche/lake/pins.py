"""Versions that the lake itself needs, and whether a version may still be built upon.

Expiry, and everything that makes an old version needed again, meet in the tree. An expiry first commits a root that
names the versions which it gives up, and of those that a tag or an export in the same tree needs it takes none. From
then on they must not be made needed again. So they can be cleared away: no commit after that root will come to rest on
one of them. (The fence, `min_base`, is no measure for this: a clean-up raises it too, and gives up no version.)
"""

import json

from seiche.errors import NotFound
from seiche.lake.care.given_up import GivenUp
from seiche.lake.objects import rows
from seiche.lake.objects.keys import EXPORT, TAG, TRASH, KeyRange
from seiche.lake.objects.rows import ExportRow, TagRow
from seiche.lake.state import State
from seiche.lake.tree.latest import read_root

__all__ = ["EXPORTS", "TAGS", "check_kept", "pins"]

TAGS = KeyRange(TAG, EXPORT)
EXPORTS = KeyRange(EXPORT, TRASH)


def pins(state: State) -> dict[int, tuple[str, ...]]:
    """The versions that must not expire as long as the tree of `state` is the newest, and who needs each.

    A full export has copies of everything once it is complete; all others share files with the version that they were
    made from.
    """
    found: dict[int, tuple[str, ...]] = {}
    for key, value in state.scan(TAGS):
        version = rows.decode(value, TagRow).version
        found[version] = (*found.get(version, ()), f"tag {_name(key)}")
    for key, value in state.scan(EXPORTS):
        row = rows.decode(value, ExportRow)
        running = row.properties.get("state") == "running"
        who = f"export {_name(key)}" + (", which is not finished," if running else "")
        # While it runs it copies from all versions that it will have: a tag that goes meanwhile must not matter.
        copied = json.loads(row.properties.get("tags", "{}")).values() if running else ()
        for version in {row.version, *copied} if running or row.mode != "full" else ():
            found[version] = (*found.get(version, ()), who)
    return found


def check_kept(state: State, version: int) -> None:
    """`NotFound` if a commit on top of `state` must not make `version` needed: it has expired, or is about to.

    Whether its root still stands is not enough: an expiry whose decision is in `state` may not have come to it yet.
    """
    if version == state.version:
        return
    read_root(state.store, version).live()
    if version in GivenUp.of(state).versions:
        raise NotFound(
            f"version {version} of the lake has expired: it is being given up",
            remedy="Take a later version; `seiche log` lists those that are kept.",
            version=version,
        )


def _name(key: bytes) -> str:
    return key[len(TAG) :].decode()
