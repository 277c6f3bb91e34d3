"""Whose transactions a database keeps: those of one lake for each account."""

from seiche.service.state.database import Database, Session

__all__ = ["account_of", "lake_of"]


def lake_of(database: Database, account: str, lake: str) -> str:
    """The id of the lake that the transactions of this account belong to: `lake`, unless there was another before."""

    def act(session: Session) -> str:
        session.run("INSERT INTO seiche_lakes (account, lake) VALUES (?, ?) ON CONFLICT DO NOTHING", (account, lake))
        ((found,),) = session.run("SELECT lake FROM seiche_lakes WHERE account = ?", (account,))
        return str(found)

    return database.transact(act)


def account_of(database: Database, lake: str, account: str) -> str:
    """The account that has this lake here: `account`, unless another one has it and this one has not."""

    def look(session: Session) -> list[str]:
        found = session.run("SELECT account FROM seiche_lakes WHERE lake = ? ORDER BY account", (lake,))
        return [str(one) for (one,) in found]

    known = database.read(look)
    return account if account in known or not known else known[0]
