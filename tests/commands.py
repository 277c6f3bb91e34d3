"""Commands of `seiche`, run in the process of a test."""

import json
import re
from typing import Any

import pytest

from seiche import cli

__all__ = ["Command"]


class Command:
    """Runs commands, and looks at their errors."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self.capsys = capsys

    def __call__(self, *arguments: str, code: int = 0) -> str:
        ended = cli.main(arguments)
        shown = self.capsys.readouterr()
        assert ended == code, f"{arguments}: {shown.out}{shown.err}"
        if code in (2, 3, 5):
            assert re.fullmatch(r"seiche: \w[\w.]*: .+\.\n", shown.err), shown.err
        return shown.err or shown.out

    def json(self, *arguments: str, code: int = 0) -> Any:
        return json.loads(self(*arguments, "--json", code=code))
