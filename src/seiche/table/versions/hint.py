"""The file that remembers a recent version. It may be missing, old, ahead or garbage: it only ever saves a search."""

import json
import re

from seiche.errors import SeicheError
from seiche.store.base import Store

__all__ = ["PATH", "read", "write"]

PATH = "_versions/latest_version_hint.json"

# So long is a hint at most, blanks behind it included; and what it looks like if pylance or Seiche wrote it.
_LONGEST = 64
_USUAL = re.compile(rb'\{"version":([1-9][0-9]{0,17})\}\s*')


def read(store: Store) -> int:
    """The hinted version, 0 if there is no usable hint."""
    try:
        data = store.get_range(PATH, 0, _LONGEST)
    except SeicheError:
        return 0
    if usual := _USUAL.fullmatch(data):
        return int(usual[1])
    try:
        version = json.loads(data)["version"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return 0
    return version if isinstance(version, int) and 0 < version < 1 << 63 else 0


def write(store: Store, version: int) -> None:
    """Leave a hint; a failure is nobody's problem."""
    try:  # noqa: SIM105 - every commit comes by here, and the other way takes three more calls
        store.note(PATH, b'{"version":%d}' % version)
    except SeicheError:
        pass
