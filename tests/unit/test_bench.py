"""The benchmark runner: finds what there is, and prints what it is given. (What is measured is not a test.)"""

import json
import re
from collections.abc import Iterable
from pathlib import Path

import pytest

from bench import __main__ as runner
from bench.report import Table


def measured(name: str, part: str | None = None) -> Iterable[Table]:
    name = name if part is None else f"{part} of {name}"
    yield Table(f"about {name}", ("what", "per second", "ratio"), [("put [x]", 1234.5, 2), ("get", 7.0, "-")], "a note")


def test_every_benchmark_is_found_and_can_run() -> None:
    folder = Path(runner.__file__).parent
    modules = {path.stem for path in folder.glob("[!_]*.py")} - {"report"}
    assert set(runner.find()) == modules
    for name in modules:
        assert re.search(r"^def run\(\) ->", (folder / f"{name}.py").read_text(), re.MULTILINE)


def test_tables_are_printed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(runner, "find", lambda: ["one", "two"])
    monkeypatch.setattr(runner, "tables", measured)
    assert runner.main([]) == 0
    shown = capsys.readouterr().out
    assert all(text in shown for text in ("about one", "about two", "put [x]", "1,234.50", "a note", runner.machine()))
    assert runner.main(["two", "--part", "half"]) == 0
    assert "about half of two" in capsys.readouterr().out
    assert runner.main(["two", "--json"]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert json.loads(line)["tables"][0]["rows"] == [["put [x]", 1234.5, 2], ["get", 7.0, "-"]]


def test_an_unknown_benchmark_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        runner.main(["nonsense"])
    assert "there is no benchmark 'nonsense'" in capsys.readouterr().err
    with pytest.raises(SystemExit, match="has no part 'nonsense', but: "):
        runner.main(["store", "--part", "nonsense"])
