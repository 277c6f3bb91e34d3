"""A folder with a lake, and commands to run in it."""

from pathlib import Path

import pytest

import seiche
from seiche import Lake
from tests.commands import Command


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lake:
    """A folder to work in, with a lake."""
    monkeypatch.chdir(tmp_path)
    made = seiche.create("lake", durability="os")
    made.create_namespace("shop")
    return made


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Command:
    return Command(capsys)
