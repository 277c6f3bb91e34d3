"""All commands of `seiche`, and how one is run: from words to an exit code."""

import os
import sys
from collections.abc import Sequence
from io import TextIOWrapper
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from seiche import SeicheError, __version__
from seiche.cli import care, demo, exports, health, history, lake, objects, rows, run, runs, serve, sql, store, table
from seiche.cli.failures import (
    UNPRINTABLE,
    ExitCode,
    describe,
    describe_interrupt,
    describe_panic,
    describe_unprinted,
    describe_usage,
    exit_code,
    interrupt_of,
    is_panic,
)
from seiche.cli.output import print_line

__all__ = ["app", "run_command"]


class _Commands(TyperGroup):
    """All commands. Of a Ctrl-C Typer would keep nothing but the exit code, and not what there is to say about it."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as interrupt:
            raise typer.Abort from interrupt


app = typer.Typer(
    name="seiche",
    cls=_Commands,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["--help", "-h"]},
)
app.add_typer(store.app, name="store")
app.add_typer(table.app, name="table")
app.command()(demo.demo)
app.command()(run.run)
app.command()(runs.runs)
app.command()(sql.sql)
app.command()(lake.init)
app.command()(lake.ls)
app.command()(lake.show)
app.command()(rows.head)
app.command("create-namespace")(objects.create_namespace)
app.command("create-table")(objects.create_table)
app.command()(rows.append)
app.command("rename-table")(objects.rename_table)
app.command("drop-table")(objects.drop_table)
app.command("drop-namespace")(objects.drop_namespace)
app.command()(history.log)
app.command()(history.diff)
app.command()(lake.status)
app.command()(history.tag)
app.command()(history.untag)
app.command()(history.tags)
app.command()(history.rollback)
app.command()(exports.export)
app.command()(exports.exports)
app.command()(exports.unexport)
app.command()(care.expire)
app.command()(care.gc)
app.command()(care.trash)
app.command()(care.fsck)
app.command()(health.health)
app.command()(serve.serve)


def _print_version(wanted: bool) -> None:
    if wanted:
        print_line(f"seiche {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def _root(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """A transactional lakehouse: any number of tables change in one atomic step, or not at all.

    ```sh
    seiche demo
    seiche init new-lake
    seiche ls new-lake --json
    ```

    Exit codes: 0 done, 1 failed, 2 a mistake to correct, 3 a conflict, 4 not known, 5 try later, 130 interrupted.
    """
    if context.invoked_subcommand is None and not version:
        context.get_help()  # with rich it prints


def run_command(arguments: Sequence[str] | None) -> int:
    """Run a command (`None`: that of this process) and return its exit code; never raises for a user's mistake."""
    # What the output has no letters for is spelled out: a name must not end a command, nor be lost. What the input has
    # that is no text is kept as arguments are, and refused where it matters.
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    if isinstance(sys.stdin, TextIOWrapper):
        sys.stdin.reconfigure(errors="surrogateescape")
    try:
        outcome = app(args=arguments, prog_name="seiche", standalone_mode=False)
        print(end="", flush=True)
    except SeicheError as error:
        if interrupt := interrupt_of(error):
            return _interrupted(interrupt)
        print(describe(error), file=sys.stderr)
        return exit_code(error)
    except typer.Abort as error:
        interrupt = interrupt_of(error)
        return ExitCode.INTERRUPTED if interrupt is None else _interrupted(interrupt)
    except typer.TyperException as mistake:
        print(describe_usage(mistake, _named(sys.argv[1:] if arguments is None else arguments)), file=sys.stderr)
        return ExitCode.MISTAKE
    except OSError as error:
        if error.errno not in UNPRINTABLE:
            raise
        print(describe_unprinted(error), file=sys.stderr)
        # What is left in the buffer cannot be written either, and the interpreter would try once more.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return ExitCode.FAILED
    except BaseException as error:
        if interrupt := interrupt_of(error):
            return _interrupted(interrupt)
        if not is_panic(error):
            raise
        print(describe_panic(error), file=sys.stderr)
        return ExitCode.FAILED
    return outcome if isinstance(outcome, int) else ExitCode.DONE


def _interrupted(interrupt: KeyboardInterrupt) -> ExitCode:
    """How a command ends on Ctrl-C: without a word, unless something may have happened all the same."""
    said = describe_interrupt(interrupt)
    if not said:
        return ExitCode.INTERRUPTED
    print(said, file=sys.stderr)
    return ExitCode.UNKNOWN


def _named(words: Sequence[str]) -> str:
    """The command that words name, as far as they name one."""
    path, below = ["seiche"], getattr(typer.main.get_command(app), "commands", {})
    for word in words:
        if word not in below:
            break
        path.append(word)
        below = getattr(below[word], "commands", {})
    return " ".join(path)
