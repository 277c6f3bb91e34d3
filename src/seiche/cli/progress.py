"""Showing that something long is getting on, to whoever looks at a terminal."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console

__all__ = ["working"]


@contextmanager
def working(what: str) -> Iterator[Callable[[str, int], None]]:
    """Around long work, which calls what it gets with what it is doing and how far it is.

    Shown on stderr, where it is in nobody's way, and only if that is a terminal.
    """
    console = Console(stderr=True, markup=False, emoji=False, highlight=False)
    if not console.is_terminal:
        yield lambda _doing, _done: None
        return
    with console.status(what) as status:
        yield lambda doing, done: status.update(f"{what}: {doing}, {done:,}")
