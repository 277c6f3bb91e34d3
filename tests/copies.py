"""Folders that many tests begin with: each is made once in a process, and every test gets a copy of its own."""

import atexit
import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

__all__ = ["copied"]

_made: dict[str, Path] = {}


def copied(make: Callable[[Path], object], path: Path, *, key: str) -> None:
    """Put at `path` what `make` makes at the place that it is given. It is called for the first copy with this key,
    which says all that it depends on; nobody but this gets to see the original.
    """
    if key not in _made:
        original = _originals() / str(len(_made))
        make(original)
        _made[key] = original
    shutil.copytree(_made[key], path)


@cache
def _originals() -> Path:
    folder = mkdtemp(prefix="seiche-originals-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)
