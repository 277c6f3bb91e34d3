"""Whose transactions a database keeps: those of one lake for each account."""

from seiche.service.state.database import Database, Session

__all__ = ["lake_of"]


def lake_of(database: Database, account: str, lake: str) -> str:
    """The id of the lake that the transactions of this account belong to: `lake`, unless there was another before."""

    def act(session: Session) -> str:
        session.run("INSERT INTO seiche_lakes (account, lake) VALUES (?, ?) ON CONFLICT DO NOTHING", (account, lake))
        ((found,),) = session.run("SELECT lake FROM seiche_lakes WHERE account = ?", (account,))
        return str(found)

    return database.transact(act)
