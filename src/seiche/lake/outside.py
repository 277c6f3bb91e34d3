"""Which files outside of a lake may be opened through a handle of it."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote

from seiche.errors import PermissionDenied

__all__ = ["ANYWHERE", "Outside", "plain_address"]

_STEPS: Final = frozenset({".", ".."})


def plain_address(where: str) -> str:
    """An address as the lake's storage has it, however an engine has written it."""
    for scheme in ("file://", "file:"):
        if where.startswith(scheme):
            return "/" + where.removeprefix(scheme).lstrip("/")
    scheme, mark, rest = where.partition("://")
    return f"s3{mark}{rest}" if scheme in ("s3a", "s3n") else where


@dataclass(frozen=True, slots=True)
class Outside:
    """The places whose files may be opened besides those of the lake itself; `None`: wherever an address leads.

    Metadata of Iceberg and Lance names files by absolute addresses. In a program of the user's own they are opened with
    the user's rights, and may lead anywhere. A server opens them with *its* rights for whoever sent them: there an
    address that leads out of the lake is refused, unless the operator has named a place above it.
    """

    places: tuple[str, ...] | None = None

    @classmethod
    def below(cls, places: Iterable[str]) -> "Outside":
        """Only what lies below one of these addresses."""
        return cls(_below(*places))

    def check(self, where: str, home: str | None = None) -> None:
        """`PermissionDenied` if nothing may be opened there. The answer does not depend on what is there.

        `home` is the address of the lake itself, for whoever does not know yet whether an address leads there.
        """
        if self.places is None:
            return
        places = self.places if home is None else (*self.places, *_below(home))
        if _is_straight(where) and f"{plain_address(where).rstrip('/')}/".startswith(places):
            return
        raise PermissionDenied(
            f"{where} lies outside of the lake, where this server opens no files",
            remedy="Nothing was written. Keep the files of a table below its own location; an operator can allow other"
            " places with `seiche serve --outside ADDRESS`.",
            location=where,
        )


def _below(*places: str) -> tuple[str, ...]:
    return tuple(f"{plain_address(one).rstrip('/')}/" for one in places)


def _is_straight(where: str) -> bool:
    """Whether an address says where it leads: none of its parts goes back up, however it is spelled."""
    return _STEPS.isdisjoint(unquote(where).replace("\\", "/").split("/"))


ANYWHERE: Final = Outside()
