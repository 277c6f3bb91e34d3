"""Code in documents, taken out and run as a reader would run it."""

import doctest
import io
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
BIN = Path(sys.executable).parent
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(DOCS.rglob("*.md"))]


@dataclass(frozen=True)
class Block:
    language: str
    text: str
    # What it prints: the block of text that follows.
    shown: str = ""


def blocks(page: Path) -> list[Block]:
    found = re.findall(r"^```(\w+)\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL)
    after = [*found, ("", "")][1:]
    return [
        Block(language, text, shown if following == "text" else "")
        for (language, text), (following, shown) in zip(found, after, strict=True)
    ]


def commands(block: Block) -> list[tuple[str, str]]:
    """The commands of a console, each with what it prints."""
    return re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", block.text, re.MULTILINE)


def run(command: list[str], folder: Path) -> str:
    environment = os.environ | {"PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{shlex.join(command)}:\n{done.stdout}{done.stderr}"
    return done.stdout


def assert_output(expected: str, printed: str) -> None:
    """Compare as doctest does: `...` stands for anything, and one space for many."""
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    assert doctest.OutputChecker().check_output(expected, printed, flags), printed


def run_in_session(
    page: Path, changed: Callable[[str], str] = lambda text: text, *, together: bool = True
) -> Iterator[str]:
    """Run the Python and the commands of a page one after the other, in this process and folder; gives what was run.

    The Python is one session: a block goes on where the one before it ended, unless they do not belong `together`.
    `changed` gives a text as it is run.
    """
    names: dict[str, Any] = {"__name__": "__main__"}
    for number, block in enumerate(blocks(page)):
        if block.language == "python":
            if not together:
                names = {"__name__": "__main__"}
            code = compile(changed(block.text), f"{page.name}, block {number}", "exec")
            assert_output(block.shown, _printed(exec, code, names))
            yield block.text
        elif block.language == "console":
            for command, shown in commands(block):
                assert_output(shown, _printed(_command, changed(command)))
                yield command


def _command(line: str) -> None:
    from seiche.cli import main

    words = shlex.split(line)
    assert words[0] == "seiche", line
    assert main(words[1:]) == 0, line


def _printed(do: Callable[..., Any], *arguments: Any) -> str:
    with redirect_stdout(io.StringIO()) as printed:
        do(*arguments)
    return printed.getvalue()
