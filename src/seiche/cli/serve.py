"""`seiche serve`: the transaction service of one lake, or of the lakes in a configuration file."""

import json
import logging
import os
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

import seiche
from seiche.cli.output import print_line
from seiche.core.process import settle_server
from seiche.errors import InvalidInput

if TYPE_CHECKING:
    import asyncio

    from seiche.service.wire.server import Server

__all__ = ["serve"]

# What every record of the log has; anything else was given by whoever logged it.
_PLAIN = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "taskName"}

# gRPC would take a larger one for another port.
_PORTS = 65535


class _Lines(logging.Formatter):
    """One JSON object for each line."""

    def format(self, record: logging.LogRecord) -> str:
        # With its offset: nobody knows where the server stands, and some hours come twice there.
        time = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line = {"time": time, "level": record.levelname.lower(), "message": record.getMessage()}
        line |= {name: value for name, value in record.__dict__.items() if name not in _PLAIN}
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


def serve(
    uri: Annotated[str | None, typer.Argument(help="The lake; not needed if --config names lakes.")] = None,
    host: Annotated[str, typer.Option(help="The address to listen at.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=_PORTS, help="The port; 0 for any free one.")] = 7447,
    state: Annotated[
        str | None, typer.Option(help="Where undecided transactions are kept: sqlite:///file or postgresql://...")
    ] = None,
    no_auth: Annotated[bool, typer.Option("--no-auth", help="Let everybody on this machine in.")] = False,
    config: Annotated[Path | None, typer.Option(help="A TOML file with accounts, tokens and OIDC.")] = None,
    catalog: Annotated[str, typer.Option(help="What the lake is called in catalog.namespace.table.")] = "lake",
    max_operations: Annotated[
        int | None, typer.Option(min=1, help="The most changes that one transaction may have.")
    ] = None,
    metrics_port: Annotated[
        int | None, typer.Option(min=0, max=_PORTS, help="The port where to answer GET /metrics.")
    ] = None,
    iceberg_port: Annotated[
        int | None, typer.Option(min=0, max=_PORTS, help="The port of an Iceberg REST catalog; 0 for any.")
    ] = None,
    lance_port: Annotated[
        int | None, typer.Option(min=0, max=_PORTS, help="The port of a Lance Namespace; 0 for any.")
    ] = None,
    durability: Annotated[
        Literal["fsync", "os"],
        typer.Option(help="On local disk, whether what is answered survives a power failure, or the server's death."),
    ] = "fsync",
    credentials: Annotated[
        str, typer.Option(help="What opens the files for catalog clients: own, none, or package.module:callable.")
    ] = "own",
    outside: Annotated[
        list[str] | None,
        typer.Option(help="Files below this address may be named by clients and opened here, besides the lake's own."),
    ] = None,
    tls_cert: Annotated[Path | None, typer.Option(help="The server's certificate (PEM).")] = None,
    tls_key: Annotated[Path | None, typer.Option(help="Its private key (PEM).")] = None,
    client_ca: Annotated[Path | None, typer.Option(help="Clients need a certificate of this authority (PEM).")] = None,
) -> None:
    """Serve transactions over gRPC until interrupted, and if asked for be a catalog of the lake for other engines.

    ```sh
    seiche serve lake --no-auth
    seiche serve lake --no-auth --iceberg-port 8181 --lance-port 8182
    seiche serve --config server.toml --host 0.0.0.0 --tls-cert cert.pem --tls-key key.pem
    ```
    """
    import asyncio

    try:
        from seiche.service.host import Config, Host, read_config
        from seiche.service.wire.server import Ports, Server
    except ImportError as error:
        raise InvalidInput(
            f"serving needs {error.name}", remedy='Install it with pip install "seiche[server]".'
        ) from error
    from seiche.lake.lake import open_lake
    from seiche.service.core import Settings

    found = Config() if config is None else read_config(config)
    lakes = _lakes(found.accounts, uri, no_auth=no_auth)
    if not catalog:
        raise InvalidInput("the catalog has no name", remedy="Leave --catalog out, or give one.")
    ports = Ports(host, port, metrics_port, tls_cert, tls_key, client_ca)
    if no_auth and not ports.loopback:
        raise InvalidInput("--no-auth is for loopback addresses only", remedy="Listen at 127.0.0.1, or give tokens.")
    if found.authenticator is None and not no_auth:
        raise InvalidInput("nobody could call this server", remedy="Give tokens in --config, or --no-auth.")
    _log_as_json()
    running = Host(
        lakes,
        state or _default_state(next(iter(lakes.values()))),
        authenticator=None if no_auth else found.authenticator,
        settings=Settings(catalog=catalog, max_operations=max_operations),
        open_with=partial(open_lake, durability=durability),
    )
    if outside or not no_auth:
        # Clients name files, which are opened with the server's rights: only who trusts all of them lets them name any.
        for service in running.services.values():
            service.lake.states.confine(outside or ())
    server = Server(running, ports)
    # The loop is closed last: with it goes what takes the signals, and a second one would end the process while its
    # catalogs still answer.
    with (
        asyncio.Runner(loop_factory=_event_loop) as runner,
        _gateways(server, catalog, iceberg_port, lance_port, credentials, outside) as addresses,
    ):
        settle_server()
        runner.run(_until_stopped(server, addresses))


def _lakes(accounts: Mapping[str, str], uri: str | None, *, no_auth: bool) -> dict[str, str]:
    """The lake of each account: those of the configuration, and the one that the command names, if it does."""
    from seiche.service.auth import DEFAULT_ACCOUNT

    lakes = dict(accounts)
    if uri is not None and lakes.setdefault(DEFAULT_ACCOUNT, uri) != uri:
        raise InvalidInput(
            f"{uri} and {lakes[DEFAULT_ACCOUNT]} are both to be the lake of the account {DEFAULT_ACCOUNT!r}",
            remedy="Leave one of them out.",
        )
    if not lakes:
        raise InvalidInput("there is no lake to serve", remedy="Give its URI, or accounts in --config.")
    if no_auth and DEFAULT_ACCOUNT not in lakes:
        raise InvalidInput(
            f"with --no-auth everybody is {DEFAULT_ACCOUNT!r}, an account without a lake here",
            remedy="Give the URI of its lake.",
        )
    return lakes


def _log_as_json() -> None:
    """Standard output is for what the command says to people; the log goes to standard error, for programs."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Lines())
    logging.basicConfig(level=logging.INFO, handlers=[handler])


@contextmanager
def _gateways(
    server: "Server",
    catalog: str,
    iceberg_port: int | None,
    lance_port: int | None,
    credentials: str,
    outside: Sequence[str] | None,
) -> Iterator[Mapping[str, str]]:
    """The catalogs over HTTP that were asked for, on the same lake, for the same callers."""
    if iceberg_port is None and lance_port is None:
        yield {}
        return
    from seiche.gateway.credentials import credentials_called
    from seiche.gateway.http.auth import ServiceAuth
    from seiche.gateway.serving import Tls, serving
    from seiche.service.auth import Nobody

    running, ports = server.host, server.ports
    if len(running.services) != 1:
        raise InvalidInput("catalogs over HTTP serve one lake", remedy="Start one server for each account.")
    ((account, service),) = running.services.items()
    tls = None
    if ports.certificate is not None and ports.key is not None:
        tls = Tls(ports.certificate, ports.key, ports.client_ca)
    trusting = isinstance(running.authenticator, Nobody)
    auth = None if trusting else ServiceAuth(running.authenticator, account)
    with serving(
        service.lake,
        auth,
        iceberg_port=iceberg_port,
        lance_port=lance_port,
        host=ports.host,
        catalog=catalog,
        tls=tls,
        credentials=credentials_called(credentials, service.lake.store),
        outside=outside,
        counted=server.metrics.count,
    ) as addresses:
        yield addresses


def _event_loop() -> "asyncio.AbstractEventLoop":
    """The quickest one that there is."""
    import asyncio

    try:
        import uvloop
    except ImportError:  # not made for every system
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


async def _until_stopped(server: "Server", catalogs: Mapping[str, str]) -> None:
    import asyncio

    await server.start()
    stop = asyncio.Event()
    # Before it says that it listens: whoever has read that may ask it to stop, and that must be in order, too.
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    scheme = "grpc" if server.ports.certificate is None else "grpcs"
    print_line(f"listening at {scheme}://{server.ports.address(server.port)}")
    for name, address in catalogs.items():
        print_line(f"listening at {address} ({name})")
    sys.stdout.flush()
    await stop.wait()
    await server.stop()


def _default_state(uri: str) -> str:
    """A file of this user's, named after the lake: it lasts, and a second server on this machine shares it.

    A copy of the lake has another one, although its id is the same. With one for both, what was committed to the one
    would be told as committed by the server of the other, where it is not.
    """
    lake = seiche.open(uri)
    name = f"{lake.state().definition.id}-{sha256(lake.uri.encode()).hexdigest()[:16]}"
    try:
        base = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "seiche"
        base.mkdir(parents=True, exist_ok=True)
    except (OSError, RuntimeError) as error:  # the latter if nobody knows where home is
        raise InvalidInput(
            f"there is no place for undecided transactions: {error}",
            remedy="Say where to keep them, as in --state sqlite:///var/lib/seiche/lake.db.",
        ) from error
    return f"sqlite://{base / name}.db"
