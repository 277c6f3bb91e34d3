"""Damaged files of a table: whatever they say of themselves, reading them takes no more memory than they are worth."""

import ast
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


@pytest.mark.soak
def test_no_damage_makes_a_reader_ask_for_memory_or_fail_without_words(effort: Callable[[int, int], int]) -> None:
    files, tables = effort(3_000, 200_000), effort(150, 8_000)
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-m", "tests.damaged_tables", "7", str(files), str(tables)],
        cwd=ROOT,
        env={**os.environ, "MALLOC_ARENA_MAX": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    outcomes = ast.literal_eval(done.stdout.splitlines()[-1])
    assert sum(outcomes.values()) == files + tables
    assert "failed" not in outcomes, done.stdout[-3000:]
    assert outcomes["corrupt"] > files // 2
    assert outcomes["read"] > (files + tables) // 20
