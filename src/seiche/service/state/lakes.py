"""Whose transactions a database keeps: those of one lake for each account, and of one account for each lake."""

from typing import NamedTuple

from seiche.service.state.database import Database, Session

__all__ = ["Kept", "Seen", "claimed", "note_seen", "seen"]


class Kept(NamedTuple):
    """An account, and the lake in which its transactions are looked up."""

    account: str
    lake: str


class Seen(NamedTuple):
    """A version of a lake, and the id of the root that made it: no other lake has both, not even a copy that went on by
    itself.
    """

    version: int
    root: str


def claimed(database: Database, account: str, lake: str) -> Kept:
    """Keep the transactions of this account in this lake from now on.

    Returns what holds: just that, or what was claimed before and stands in the way.
    """

    def act(session: Session) -> Kept:
        # A row that is nobody's, which everybody writes first: so those who start at the same time come one after the
        # other. Otherwise two accounts could each find the lake free, and both would have it for good.
        session.run(
            "INSERT INTO seiche_lakes (account, lake) VALUES ('', '')"
            " ON CONFLICT (account) DO UPDATE SET lake = excluded.lake"
        )
        found = session.run("SELECT account FROM seiche_lakes WHERE lake = ? ORDER BY account", (lake,))
        owners = [str(one) for (one,) in found]
        if owners and account not in owners:
            return Kept(owners[0], lake)
        session.run("INSERT INTO seiche_lakes (account, lake) VALUES (?, ?) ON CONFLICT DO NOTHING", (account, lake))
        ((kept,),) = session.run("SELECT lake FROM seiche_lakes WHERE account = ?", (account,))
        return Kept(account, str(kept))

    return database.transact(act)


def seen(database: Database, account: str) -> Seen | None:
    """The newest version of the account's lake that any server has noted."""
    found = database.read(
        lambda session: session.run("SELECT version, root FROM seiche_roots WHERE account = ?", (account,))
    )
    return Seen(int(found[0][0]), str(found[0][1])) if found else None


def note_seen(database: Database, account: str, now: Seen) -> None:
    """Note a version that is there, unless a newer one is noted."""

    def act(session: Session) -> None:
        session.run(
            "INSERT INTO seiche_roots (account, version, root) VALUES (?, ?, ?)"
            " ON CONFLICT (account) DO UPDATE SET version = excluded.version, root = excluded.root"
            " WHERE excluded.version > seiche_roots.version",
            (account, *now),
        )

    database.transact(act)
