"""The documentation is built without a warning, and everything it shows exists and does what it says."""

import importlib
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import duckdb
import pytest

import seiche
from seiche.cli.failures import exit_code
from seiche.gateway.iceberg_rest.problems import IcebergProtocol
from seiche.service.wire.statuses import status_of
from tests import documents
from tests.documents import DOCS, ROOT, Block, blocks, run_in_session
from tests.service_process import free_port, serving
from tools import docs

WITH_SPARK = {DOCS / "guides" / name for name in ("pipelines.md", "spark.md", "sql.md")}
WITH_SERVER = {DOCS / "guides" / name for name in ("gateways.md", "service.md")}
PAGES = sorted(path for path in DOCS.rglob("*.md") if path.parent.name not in ("design", "reference"))
EXECUTED = [page for page in PAGES if any(block.language == "python" for block in blocks(page))]
# Every block has a language of which a test here, in test_readme.py or in tests/spark/test_docs.py makes sure.
LANGUAGES = {"console", "python", "sh", "sql", "text", "toml", "yaml"}


def name_of(page: Path) -> str:
    return str(page.relative_to(DOCS))


def blocks_of(language: str) -> list[Any]:
    found = ((page, block) for page in [ROOT / "README.md", *PAGES] for block in blocks(page))
    return [pytest.param(block, id=page.name) for page, block in found if block.language == language]


@pytest.mark.parametrize("page", [one for one in EXECUTED if one not in WITH_SPARK | WITH_SERVER], ids=name_of)
def test_examples_print_what_is_shown(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert list(run_in_session(page))


@pytest.mark.parametrize("page", sorted(WITH_SERVER), ids=name_of)
def test_examples_with_a_server_print_what_is_shown(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["docs"])
    ports = {"7447": free_port(), "8181": free_port(), "8182": free_port()}

    def changed(text: str) -> str:
        return re.sub("|".join(ports), lambda found: str(ports[found[0]]), text)

    session = run_in_session(page, changed)
    next(session)  # makes the lake
    catalogs = ("--iceberg-port", str(ports["8181"]), "--lance-port", str(ports["8182"]))
    with serving(tmp_path, *catalogs, port=ports["7447"]):
        assert list(session)
        for block in blocks(page):
            if block.language == "sql":
                assert in_duckdb(changed(block.text), "FROM ice.shop.orders") == [(2,), (2,)]


def in_duckdb(statements: str, question: str) -> list[Any]:
    """Execute statements in DuckDB, then ask."""
    connection = duckdb.connect()
    for name in ("httpfs", "avro", "iceberg"):
        module = importlib.import_module(f"duckdb_extension_{name}")
        (found,) = Path(str(module.__file__)).parent.rglob("*.duckdb_extension")
        connection.execute(f"LOAD '{found}'")
    connection.execute(statements)
    answer: list[Any] = connection.execute(question).fetchall()
    return answer


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_no_block_escapes(page: Path) -> None:
    assert {block.language for block in blocks(page)} <= LANGUAGES
    assert page.read_text().count("```") == 2 * len(blocks(page)), "a block without a language"


@pytest.mark.parametrize("block", blocks_of("sh"))
def test_every_command_and_option_exists(block: Block) -> None:
    known = dict(docs.all_commands())
    for line in block.text.splitlines():
        words = shlex.split(line)
        if "seiche" not in words:
            assert words[0] in ("make", "pip", "python"), line
            continue
        words = words[words.index("seiche") :]
        name = next(" ".join(words[:size]) for size in (3, 2, 1) if " ".join(words[:size]) in known)
        options = {option for one in known[name].params for option in [*one.opts, *one.secondary_opts]}
        assert {word for word in words if word.startswith("-")} <= options, line


# What stands in backticks and belongs to others.
FOREIGN = {
    *("AbortIncompleteMultipartUpload", "ArrowWriter", "conda"),
    *("HADOOP_CONF_DIR", "LanceFragment", "PutItem", "RENAME_NOREPLACE", "TaskState"),
    *("connect_namespace", "fdatasync", "january", "namespace_path", "qualify", "sizeInBytes", "updateMetrics"),
}


@pytest.fixture(scope="module")
def words() -> set[str]:
    """Every word of the code."""
    places = ("src", "tests", "bench", "tools", "examples", "proto", "Makefile", "pyproject.toml")
    files = [one for place in places for one in (ROOT / place, *(ROOT / place).rglob("*")) if one.is_file()]
    texts = (
        str(one.relative_to(ROOT)) + one.read_text(errors="ignore")
        for one in files
        if one.suffix in SOURCES and one != Path(__file__)
    )
    return {word for text in texts for word in re.findall(r"[A-Za-z_]\w*", text)}


SOURCES = {"", ".json", ".proto", ".py", ".sh", ".toml", ".yaml"}


@pytest.mark.parametrize("page", documents.PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_what_stands_in_backticks_exists(page: Path, words: set[str]) -> None:
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    named = {
        word for span in re.findall(r"`([^`\n]+)`", text) for word in re.findall(r"[A-Za-z_]\w{2,}(?![\w*])", span)
    }
    assert sorted(named - words - FOREIGN) == []


@pytest.mark.parametrize("block", blocks_of("yaml"))
def test_pipelines_are_valid(block: Block, tmp_path: Path) -> None:
    from seiche.spark.pipeline.plan import plan
    from seiche.spark.pipeline.yaml_file import load

    (tmp_path / "shown.yaml").write_text(block.text)
    assert plan(load(tmp_path / "shown.yaml")).steps


def test_statements_of_sql_are_understood() -> None:
    from seiche.spark.sql.grammar import parse
    from seiche.spark.sql.scripts import split

    (block,) = (one for one in blocks(DOCS / "guides" / "sql.md") if one.language == "sql")
    assert len([parse(one) for one in split(block.text)]) > 20


@pytest.mark.parametrize("block", blocks_of("toml"))
def test_configurations_are_valid(block: Block, tmp_path: Path) -> None:
    from seiche.service.host import read_config

    (tmp_path / "server.toml").write_text(block.text)
    assert read_config(tmp_path / "server.toml").authenticator is not None


def test_the_table_of_errors_is_what_the_code_does() -> None:
    text = (DOCS / "failures.md").read_text()
    rows = re.findall(r"^\| `(\w+)` \| `(\S+)` \| (\d) \| (\w+) \| (\d+) \|$", text, re.MULTILINE)
    said = {name: tuple(rest) for name, *rest in rows}
    kinds = [getattr(seiche, name) for name in seiche.__all__ if name[0].isupper()]
    leaves = [one for one in kinds if issubclass(one, seiche.SeicheError) and not one.__subclasses__()]
    assert said == {kind.__name__: _answers(kind("x")) for kind in leaves}


def _answers(error: seiche.SeicheError) -> tuple[str, ...]:
    http = IcebergProtocol().problem(error, None, "").status
    return error.kind, str(int(exit_code(error))), status_of(error)[0].name, str(http)


def test_everything_public_is_in_the_reference() -> None:
    text = "".join(path.read_text() for path in (DOCS / "reference").glob("*.md"))
    listed = set(re.findall(r"^::: seiche\.(\w+)", text, re.MULTILINE))
    assert set(seiche.__all__) <= listed


def test_every_command_and_every_word_of_a_pipeline_is_in_the_reference() -> None:
    made = docs.commands()
    for name, command in docs.all_commands():
        assert f"## {name}\n" in made
        assert all(one.help for one in command.params if one.name not in ("help", "install_completion")), name
    words = {name for part in ("source", "step", "check") for name in docs.words_of(part)}
    assert {name for name in words if f"| `{name}`" in docs.pipeline()} == words


def test_the_site_is_built_without_a_warning(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path / "site")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr
    for page in DOCS.rglob("*.md"):
        built = page.relative_to(DOCS).with_suffix(".html")
        assert (tmp_path / "site" / built.with_name(built.name.replace("README", "index"))).exists()
    assert "when_matched_update_all" in (tmp_path / "site" / "reference" / "python.html").read_text()
    assert "--older-than" in (tmp_path / "site" / "reference" / "cli.html").read_text()
