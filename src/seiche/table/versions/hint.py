"""The file that remembers a recent version. It may be missing, old, ahead or garbage: it only ever saves a search."""

import json
from contextlib import suppress

from seiche.errors import SeicheError
from seiche.store.base import Store

__all__ = ["PATH", "read", "write"]

PATH = "_versions/latest_version_hint.json"


def read(store: Store) -> int:
    """The hinted version, 0 if there is no usable hint."""
    try:
        data = store.get(PATH).rstrip()
    except SeicheError:
        return 0
    if data.startswith(b'{"version":') and data.endswith(b"}") and data[11:-1].isdigit() and len(data) < 32:
        return int(data[11:-1])
    try:
        version = json.loads(data)["version"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return 0
    return version if isinstance(version, int) and 0 < version < 1 << 63 else 0


def write(store: Store, version: int) -> None:
    """Leave a hint; a failure is nobody's problem."""
    with suppress(SeicheError):
        store.note(PATH, b'{"version":%d}' % version)
