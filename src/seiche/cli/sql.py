"""`seiche sql`: statements from the command line, from a pipe, or from a prompt that remembers them."""

import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import seiche
from seiche.cli.arguments import AsOf, AtVersion, Uri, open_at
from seiche.cli.failures import describe, describe_interrupt, interrupt_of
from seiche.cli.output import AsJson, print_json, print_line, print_table
from seiche.cli.quiet import quiet_start
from seiche.cli.values import plain, shown
from seiche.core.counts import counted
from seiche.errors import InvalidInput, SeicheError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from seiche.spark.sql.session import SqlSession

__all__ = ["sql"]

# More rows than anybody reads; --json prints all.
_SHOWN = 100
_LEAVING = {"exit", "quit", "\\q"}
_HELP = "End a statement with ; and leave with exit. BEGIN opens a transaction, SHOW TABLES IN namespace lists tables."


def sql(
    uri: Uri,
    given: Annotated[
        list[str] | None, typer.Argument(metavar="[STATEMENT]...", help="Execute this and leave.", show_default=False)
    ] = None,
    also: Annotated[
        list[str] | None, typer.Option("--execute", "-e", help="The same, after those. Can be repeated.")
    ] = None,
    version: AtVersion = None,
    as_of: AsOf = None,
    master: Annotated[str, typer.Option(help="Where Spark runs: on this machine, or at spark://...")] = "local[*]",
    as_json: AsJson = False,
) -> None:
    """Speak SQL with a lake: statements that are given, that come from a pipe, or from a prompt.

    The first statement that fails ends the command, except at the prompt. A transaction that is still open then is
    rolled back.

    ```sh
    seiche sql lake "SELECT count(*) FROM shop.orders"
    seiche sql lake -e "BEGIN" -e "DELETE FROM shop.orders WHERE id = 1" -e "COMMIT" --json
    ```
    """
    from seiche.spark.sql.scripts import split

    lake = open_at(uri, version, as_of)
    texts = [*(given or ()), *(also or ())]
    typed = not texts and sys.stdin.isatty()
    if not texts and not typed:
        texts = [sys.stdin.read()]
    statements = [one for text in texts for one in split(text)]
    if not statements and (given or also):
        raise InvalidInput(
            "there is no statement in what is to be executed", remedy="Give SQL, or leave it out to be asked."
        )
    if not statements and not typed:
        return
    with _session(lake, master) as session:
        if not typed:
            for one in statements:
                _show(session.execute(one), as_json=as_json)
        else:
            _prompt(session, as_json=as_json)


@contextmanager
def _session(lake: "seiche.Lake", master: str) -> "Iterator[SqlSession]":
    from seiche.spark.settings import hush_errors, require_pyspark, session
    from seiche.spark.sql.failures import as_errors
    from seiche.spark.sql.session import SqlSession

    require_pyspark()
    from pyspark.sql import SparkSession

    # What goes wrong is said once, by us, in a line.
    hush_errors()
    with as_errors(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        running = SparkSession.getActiveSession()
        with quiet_start():
            spark = running or session("seiche sql", master=master)
        try:
            yield SqlSession(lake.spark(spark))
        finally:
            # One that somebody else has started is theirs to stop.
            if running is None:
                spark.stop()


def _prompt(session: "SqlSession", *, as_json: bool) -> None:
    """Statements as they are typed, until the end of the input. An error is said, and the next one is awaited."""
    from seiche.spark.sql.failures import as_errors

    print_line(_HELP, style="dim")
    with _history():
        for statement in _typed(session):
            try:
                with as_errors():
                    _show(session.execute(statement), as_json=as_json)
            except (SeicheError, KeyboardInterrupt) as error:
                if interrupt := interrupt_of(error):
                    _stop_jobs(session)
                    print_line("interrupted", style="yellow")
                    if said := describe_interrupt(interrupt):
                        print(said, file=sys.stderr)
                elif isinstance(error, SeicheError):
                    print(describe(error), file=sys.stderr)


def _stop_jobs(session: "SqlSession") -> None:
    """Nobody waits for the answer any more, but Spark would go on working for it."""
    from py4j.protocol import Py4JError

    for _ in range(2):  # the first call may meet the connection that the interrupt broke
        with suppress(Py4JError, ConnectionError):
            session.lake.session.sparkContext.cancelAllJobs()
            return


def _typed(session: "SqlSession") -> "Iterator[str]":
    from seiche.spark.sql.scripts import is_whole, split

    lines: list[str] = []
    while True:
        open_ = "*" if session.transaction is not None else ""
        try:
            line = input(f"     {open_}> " if lines else f"lake{open_}> ")
        except EOFError:
            print_line()
            return
        except KeyboardInterrupt:
            lines = []
            print_line()
            continue
        if not lines and line.strip().rstrip(";").lower() in _LEAVING:
            return
        lines.append(line)
        text = "\n".join(lines)
        if not text.strip():
            lines = []
        elif is_whole(text):
            lines = []
            yield from split(text)


@contextmanager
def _history() -> Iterator[None]:
    """Earlier statements with the arrow keys, also those of earlier days."""
    try:
        import readline
    except ImportError:  # there is none on some systems
        yield
        return
    try:
        place = Path(os.environ.get("SEICHE_HISTORY") or Path.home() / ".seiche_history")
    except RuntimeError:  # nobody knows where home is
        place = Path(os.devnull)
    with suppress(OSError):  # there is none yet, or it cannot be read: the prompt works without
        readline.read_history_file(place)
    readline.set_history_length(1000)
    try:
        yield
    finally:
        with suppress(OSError):  # likewise
            readline.write_history_file(place)


def _show(frame: "DataFrame", *, as_json: bool) -> None:
    from seiche.spark.zones import collected

    if as_json:
        _require_names(frame.columns)
        print_json([dict(zip(frame.columns, map(plain, row), strict=True)) for row in collected(frame)])
        return
    rows = collected(frame.limit(_SHOWN + 1))
    print_table(frame.columns, [list(map(shown, row)) for row in rows[:_SHOWN]], styles={"NULL": "dim"})
    if len(rows) > _SHOWN:
        print_line(f"... and more than these {_SHOWN} rows: say LIMIT, or --json for all of them", style="dim")
    else:
        print_line(counted(len(rows), "row"), style="dim")


def _require_names(columns: list[str]) -> None:
    """An object of JSON has a name once: the second value would take the place of the first, unseen."""
    for name in columns:
        if columns.count(name) > 1:
            raise InvalidInput(f"two columns of the answer are called {name!r}", remedy="Name one of them with AS.")
