"""Every command and every example in the README works, and prints what the README says."""

import doctest
import os
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(sys.executable).parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


@dataclass(frozen=True)
class Block:
    language: str
    text: str


def blocks(page: Path) -> list[Block]:
    found = re.findall(r"^```(\w+)\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL)
    return [Block(language, text) for language, text in found]


def run(command: list[str], folder: Path) -> str:
    environment = os.environ | {"PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{shlex.join(command)}:\n{done.stdout}{done.stderr}"
    return done.stdout


def assert_output(expected: str, printed: str) -> None:
    """Compare as doctest does: `...` stands for anything, and one space for many."""
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    assert doctest.OutputChecker().check_output(expected, printed, flags), printed


def test_examples_run_in_order_and_print_what_is_shown(tmp_path: Path) -> None:
    """In one folder, as a reader would: a command may use what an example before it made."""
    readme = blocks(ROOT / "README.md")
    ran = 0
    for position, block in enumerate(readme):
        if block.language == "python":
            following = readme[position + 1 : position + 2]
            shown = following[0].text if following and following[0].language == "text" else ""
            assert_output(shown, run([sys.executable, "-W", "error", "-c", block.text], tmp_path))
            ran += 1
        elif block.language == "console":
            for command, shown in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", block.text, re.MULTILINE):
                assert_output(shown, run(shlex.split(command), tmp_path))
                ran += 1
    assert ran >= 2


def test_readme_has_no_block_that_is_not_run() -> None:
    assert {block.language for block in blocks(ROOT / "README.md")} <= {"console", "python", "sh", "text"}


@pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")
def test_make_test_is_what_runs_this() -> None:
    assert "make test" in blocks(ROOT / "README.md")[0].text
    assert "-m pytest" in run(["make", "-n", "test", "READY="], ROOT)
    assert re.search(r"^step .* make test$", (ROOT / ".ci" / "run").read_text(), re.MULTILINE)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_make_target_that_is_named_exists(page: Path) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = set(re.findall(r"(?:`|^)make ([a-z-]+)", page.read_text(), re.MULTILINE))
    assert named <= targets


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    links = re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text())
    assert [link for link in links if "://" not in link and not (page.parent / link).exists()] == []
