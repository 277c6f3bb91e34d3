"""`seiche sql`: its examples run, it speaks JSON, errors are a line, and the prompt goes on after them."""

import builtins
import inspect
import io
import json
import re
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from seiche import Lake, cli
from seiche.cli.sql import sql as command
from seiche.spark.sql.scripts import is_whole, split

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def here(shop: Lake, spark: "SparkSession", monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Lake:
    """The shop as ./lake, as the examples have it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "stdin", Terminal())
    return shop


def test_statements_of_the_command_line(here: Lake, capsys: pytest.CaptureFixture[str]) -> None:
    query = "SELECT id, sku FROM shop.orders WHERE id > 1 ORDER BY id; SHOW NAMESPACES"
    assert cli.main(["sql", "lake", "-e", query]) == 0
    shown = capsys.readouterr().out
    assert cli.main(["sql", "lake", *query.split("; ")]) == 0
    assert capsys.readouterr().out == shown
    assert cli.main(["sql", "lake", query.partition("; ")[0], "-e", "SHOW NAMESPACES"]) == 0
    assert capsys.readouterr().out == shown, "what -e says comes after"
    assert [line.split() for line in shown.splitlines() if line.startswith(("2", "3"))][:2] == [
        ["2", "b"],
        ["3", "NULL"],
    ]
    assert "2 rows" in shown
    assert "shop" in shown


@pytest.mark.parametrize("example", re.findall(r"^seiche (.+)$", inspect.getdoc(command) or "", re.MULTILINE))
def test_examples(here: Lake, example: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(shlex.split(example)) == 0, capsys.readouterr().err


def test_json_and_a_transaction(here: Lake, capsys: pytest.CaptureFixture[str]) -> None:
    deleted = ["-e", "BEGIN", "-e", "DELETE FROM shop.orders WHERE id = 1"]
    assert cli.main(["sql", "lake", *deleted]) == 0
    assert here.version == 3, "what is open at the end is rolled back"
    capsys.readouterr()
    assert cli.main(["sql", "lake", *deleted, "-e", "COMMIT", "--json"]) == 0
    decoder, text, found = json.JSONDecoder(), capsys.readouterr().out, []
    while text.strip():
        value, end = decoder.raw_decode(text.lstrip())
        found.append(value)
        text = text.lstrip()[end:]
    assert found[2] == [{"version": 4}]
    assert found[1][0]["num_deleted_rows"] == 1
    assert cli.main(["sql", "lake", "-e", "SELECT named_struct('a', array(1)) AS s, X'00ff' AS b", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == [{"s": {"a": [1]}, "b": "00ff"}]
    assert cli.main(["sql", "lake", "SELECT TIMESTAMP'2030-01-31 12:00:00+03:00' AS at", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == [{"at": "2030-01-31T09:00:00+00:00"}]
    far = "DATE'+12000-01-01'"  # Python has no such day
    assert cli.main(["sql", "lake", f"SELECT {far} AS d, named_struct('d', {far}) AS s, 1 AS n", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == [{"d": "+12000-01-01", "s": "{+12000-01-01}", "n": 1}]
    assert cli.main(["sql", "lake", f"SELECT {far} AS a, 1 AS a"]) == 0
    assert "+12000-01-01" in capsys.readouterr().out
    assert cli.main(["sql", "lake", "SELECT 1 AS a, 2 AS a", "--json"]) == 2
    assert "two columns of the answer are called 'a'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("START TRANSACTION", "seiche: invalid_input: START is not understood"),
        ("SELECT nope FROM shop.orders", "seiche: invalid_input: "),
        ("SELECT * FROM shop.nothing", "seiche: not_found: "),
        ("SELECT 1 / (id - id) FROM shop.orders", "seiche: invalid_input: "),
        ("SELECT 'abc", "seiche: invalid_input: "),
    ],
)
def test_an_error_is_one_line(here: Lake, statement: str, said: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["sql", "lake", "-e", statement, "-e", "DELETE FROM shop.orders"]) == 2
    shown = capfd.readouterr().err
    assert shown.startswith(said)
    assert shown.count("\n") == 1, shown
    assert "Traceback" not in shown
    assert here.version == 3, "nothing after the error is executed"


def test_a_pipe(here: Lake, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("-- a comment;\nSELECT ';' AS x;\n\nSELECT 2 AS y"))
    assert cli.main(["sql", "lake", "--json"]) == 0
    assert capsys.readouterr().out.replace(" ", "").replace("\n", "") == '[{"x":";"}][{"y":2}]'


def test_the_prompt(
    here: Lake, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    typed = iter(
        ["BEGIN;", "DELETE FROM", "  shop.orders;", "SAVEPOINT a;", "SELECT count(*) FROM shop.orders;", "COMMIT;"]
    )
    prompts: list[str] = []

    def answer(prompt: str) -> Any:
        prompts.append(prompt)
        line = next(typed, None)
        if line is None:
            raise EOFError
        return line

    monkeypatch.setattr(builtins, "input", answer)
    monkeypatch.setenv("SEICHE_HISTORY", str(tmp_path / "history"))
    assert cli.main(["sql", "lake"]) == 0
    shown = capsys.readouterr()
    assert "SAVEPOINT is not understood" in shown.err
    assert prompts == ["lake> ", "lake*> ", "     *> ", "lake*> ", "lake*> ", "lake*> ", "lake> "]
    assert here.version == 4
    assert (tmp_path / "history").exists()


def test_statements_of_a_script() -> None:
    assert split("a; b ';' ;; /* ; */ -- ;\n c;") == ["a", "b ';'", "/* ; */ -- ;\n c"]
    assert split(" ; -- nothing") == []
    assert [is_whole(text) for text in ("a;", "a", "a ';", "-- a;", "a; -- b", "a; b")] == [
        True,
        False,
        False,
        True,
        True,
        False,
    ]
