"""A server process without its ports: who may call, which lake is whose, and the work in the background.

gRPC and HTTP servers of the same process share one host.
"""

import logging
import tomllib
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from threading import Event, Thread
from typing import Any, Final

from seiche.core.runtime import SYSTEM, Runtime
from seiche.errors import InvalidInput, NotFound, PermissionDenied, SeicheError
from seiche.lake.lake import Lake, open_lake
from seiche.lake.state import State
from seiche.lake.tree.latest import read_root
from seiche.lake.tree.root import millis
from seiche.service.auth import Authenticator, Nobody, OpenIdConnect, Tokens
from seiche.service.core import Service, Settings
from seiche.service.state.database import Database
from seiche.service.state.lakes import Seen, claimed, note_seen, seen
from seiche.service.state.opening import open_database
from seiche.service.state.transactions import TransactionStore

__all__ = ["Config", "Host", "read_config"]

log = logging.getLogger("seiche.service")

_SWEEP_SECONDS: Final = 5.0
_SWEPT_AT_ONCE: Final = 100
# How long a decided transaction is remembered in SQL beyond its time; the tree remembers it longer.
_GRACE_MILLIS: Final = 60_000


@dataclass(frozen=True, slots=True)
class Config:
    """What the configuration file says. `accounts` are addresses of lakes by account."""

    accounts: Mapping[str, str] = field(default_factory=dict)
    authenticator: Authenticator | None = None


def read_config(path: str | Path) -> Config:
    """The configuration in a TOML file: `[accounts.NAME] uri=`, `[[tokens]]`, `[oidc]`."""
    try:
        found = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise NotFound(f"{path} cannot be read: {error.strerror}", remedy="Give the path of a TOML file.") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidInput(f"{path} is not TOML: {error}") from error
    _known(found, ("accounts", "tokens", "oidc"), path)
    accounts: dict[str, str] = {}
    for name, entry in _table(found, "accounts", path).items():
        if not isinstance(entry, dict) or not isinstance(entry.get("uri"), str) or not entry["uri"]:
            raise InvalidInput(f"{path}: account {name!r} has no lake", remedy='Write uri = "...".')
        _known(entry, ("uri",), f"{path}: account {name!r}")
        if entry["uri"] in accounts.values():
            # Ids of transactions are looked up in the lake: two accounts in one would see each other's.
            raise InvalidInput(f"{path}: two accounts have the lake {entry['uri']}", remedy="Give each its own.")
        accounts[name] = entry["uri"]
    return Config(accounts, _authenticator(found, path))


def _authenticator(found: Mapping[str, Any], path: str | Path) -> Authenticator | None:
    if "oidc" in found:
        if "tokens" in found:
            raise InvalidInput(f"{path} has tokens and [oidc]", remedy="Give one of them: the others could not call.")
        return _open_id_connect(_table(found, "oidc", path), f"{path}: [oidc]")
    return Tokens(found["tokens"]) if found.get("tokens") else None


def _open_id_connect(entry: Mapping[str, Any], where: str) -> Authenticator:
    needed, more = ("issuer", "audience", "jwks_uri"), ("account_claim", "permissions_claim")
    _known(entry, (*needed, *more, "algorithms"), where)
    for name in (*needed, *more):
        value = entry.get(name, "" if name in needed else name)
        if not isinstance(value, str) or not value:
            raise InvalidInput(
                f"{where} has no text as {name}", remedy=f'Write {name} = "...". It needs {", ".join(needed)}.'
            )
    algorithms = entry.get("algorithms", ["RS256"])
    if not isinstance(algorithms, list) or not algorithms or not all(isinstance(one, str) for one in algorithms):
        raise InvalidInput(
            f"{where} has no list as algorithms", remedy='Write algorithms = ["RS256"], or leave it out.'
        )
    return OpenIdConnect(**entry)


def _table(found: Mapping[str, Any], name: str, path: str | Path) -> Mapping[str, Any]:
    entry = found.get(name, {})
    if not isinstance(entry, dict):
        raise InvalidInput(f"{path}: {name} is not a table", remedy=f"Write [{name}], and settings below it.")
    return entry


def _known(entry: Mapping[str, Any], names: tuple[str, ...], where: str | Path) -> None:
    for name in entry:
        if name not in names:
            raise InvalidInput(
                f"{where} has a setting {name!r} that is not known", remedy=f"Known: {', '.join(names)}."
            )


class Host:
    """Services by account, behind one authenticator, on one database. Opened lakes stay open."""

    def __init__(
        self,
        lakes: Mapping[str, str | Lake],
        database: Database | str,
        *,
        authenticator: Authenticator | None = None,
        settings: Settings | None = None,
        runtime: Runtime = SYSTEM,
        sweep_seconds: float = _SWEEP_SECONDS,
        open_with: Callable[[str], Lake] = open_lake,
    ) -> None:
        self.database = _reached(database, runtime) if isinstance(database, str) else database
        self.authenticator = authenticator or Nobody()
        self.settings = settings or Settings()
        self._runtime = runtime
        self.services = {
            account: Service(
                open_with(lake) if isinstance(lake, str) else lake,
                self.database,
                account=account,
                settings=self.settings,
                runtime=runtime,
            )
            for account, lake in lakes.items()
        }
        self._check_own_lakes()
        _warm_up()
        self._stop = Event()
        self._sweeper = Thread(target=self._sweep, args=(sweep_seconds,), name="seiche-sweep", daemon=True)
        self._sweeper.start()

    def service(self, authorization: str | None, permission: str) -> Service:
        """The service of the one who calls; `PermissionDenied` if there is none, or this is not permitted."""
        principal = self.authenticator.principal(authorization)
        principal.require(permission)
        found = self.services.get(principal.account)
        if found is None:
            raise PermissionDenied(
                f"account {principal.account!r} has no lake here",
                remedy="Ask whoever runs the server to give it one.",
                reason="account.unknown",
            )
        return found

    def close(self) -> None:
        """Decide what waits, then stop. What is not decided can be decided by any other server."""
        self._stop.set()
        for service in self.services.values():
            service.close()
        self._sweeper.join()
        for account, service in self.services.items():
            with suppress(SeicheError):  # a server that dies does not say it either
                self._note_history(account, service.lake)
        self.database.close()

    def _check_own_lakes(self) -> None:
        """Each account has a lake of its own, however its address is spelled, and the same one as in every server with
        this database. What is not decided is looked up in it: two accounts would see each other's transactions, and a
        server with another lake would decide against what the first one has just applied.
        """
        owners: dict[str, str] = {}
        try:
            for account, service in self.services.items():
                self._check_own_lake(account, service.lake, owners)
        except SeicheError:
            for one in self.services.values():
                one.close()
            raise

    def _check_own_lake(self, account: str, lake: Lake, owners: dict[str, str]) -> None:
        lake_id = lake.state().definition.id
        if (other := owners.setdefault(lake_id, account)) != account:
            raise InvalidInput(
                f"the accounts {other!r} and {account!r} have the same lake, {lake.uri}",
                remedy="Give each its own.",
            )
        kept = claimed(self.database, account, lake_id)
        if kept.account != account:
            raise InvalidInput(
                f"{self.database.uri} keeps transactions in {lake.uri} for another account ({kept.account!r}) than"
                f" {account!r}",
                remedy="Give the account of a lake the same name in every server. If it shall have another one now,"
                " give the lake a new database (--state).",
            )
        if kept.lake != lake_id:
            raise InvalidInput(
                f"{self.database.uri} keeps transactions of account {account!r} in another lake ({kept.lake}) than"
                f" {lake.uri} ({lake_id})",
                remedy="Give each lake a database of its own (--state), or its account another name. If the other lake"
                " is gone, remove the file, or the tables named seiche_*.",
            )
        self._check_same_history(account, lake)

    def _check_same_history(self, account: str, lake: Lake) -> None:
        """`InvalidInput` if the lake is not what it was for the servers of this database before: a copy of it, which
        has the same id, or what a backup held. What one of them has committed would be told as committed in the other.
        """
        known = seen(self.database, account)
        # Looked at after what is known: what another server notes meanwhile may be newer than what was seen here.
        newest = lake.state()
        if known is not None and known.version > newest.version:
            raise self._other_history(account, lake, known, f"ends with version {newest.version}")
        self._note(account, lake, known, newest)

    def _note_history(self, account: str, lake: Lake) -> None:
        """Remember how far the lake is, and say so if another server with this database has gone another way."""
        known, newest = seen(self.database, account), lake.states.known
        if known is None or known.version <= newest.version:
            try:
                self._note(account, lake, known, newest)
            except InvalidInput as error:
                log.warning("%s", error)

    def _note(self, account: str, lake: Lake, known: Seen | None, newest: State) -> None:
        now = Seen(newest.version, newest.root.root_id)
        if known == now:
            return
        if known is not None and not _has(lake, known):
            raise self._other_history(account, lake, known, "does not have that one")
        note_seen(self.database, account, now)

    def _other_history(self, account: str, lake: Lake, known: Seen, found: str) -> InvalidInput:
        return InvalidInput(
            f"{self.database.uri} keeps transactions of account {account!r} in a lake that had version {known.version}"
            f" (root {known.root}); {lake.uri}, which has the same id, {found}: it is a copy of that lake, or was put"
            " back from one",
            remedy="Give a copy a database of its own (--state). If the lake was put back, what the database remembers"
            " has not happened in it: remove the file, or the tables named seiche_*.",
        )

    def _sweep(self, seconds: float) -> None:
        tasks: list[Callable[[], None]] = [
            *(partial(self._decide_overdue, one) for one in self.services.values()),
            *(partial(self._note_history, account, one.lake) for account, one in self.services.items()),
            self._collect,
        ]
        while not self._stop.wait(seconds):
            for task in tasks:
                try:
                    task()
                except SeicheError as error:
                    log.warning("could not clear away what is old: %s", error.message)
                except Exception:  # a sweep that fails is not the last one, or there would be no end of what is open
                    log.exception("could not clear away what is old")

    def _decide_overdue(self, service: Service) -> None:
        """Until nothing is left that can be decided now: very many may have been begun and forgotten."""
        while service.sweep(_SWEPT_AT_ONCE) >= _SWEPT_AT_ONCE and not self._stop.is_set():
            pass

    def _collect(self) -> None:
        TransactionStore(self.database).collect(millis(self._runtime.clock.now()) - _GRACE_MILLIS)


def _reached(address: str, runtime: Runtime) -> Database:
    """The database, which answers: otherwise a server would start that refuses every call."""
    database = open_database(address, runtime=runtime)
    database.read(lambda session: session.run("SELECT 1"))
    return database


def _has(lake: Lake, known: Seen) -> bool:
    """Whether this version is the lake's own, also when it has expired: its root stays there, with its id."""
    with suppress(NotFound):
        return read_root(lake.store, known.version).root_id == known.root
    return False


def _warm_up() -> None:
    """Load what the first commit would load: Arrow looks for pandas when it makes its first array, for a second."""
    import pyarrow as pa

    pa.array([b""], pa.binary())
