"""Every command and every example in the README works, and prints what the README says."""

import re
import shutil
from pathlib import Path

import pytest

from tests.documents import PAGES, ROOT, blocks, run, run_in_session


def test_examples_run_in_order_and_print_what_is_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In one folder, as a reader would: a command may use what an example before it made."""
    monkeypatch.chdir(tmp_path)
    assert len(list(run_in_session(ROOT / "README.md", together=False))) >= 3


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
