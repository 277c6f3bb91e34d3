"""What is not installed is asked for by the name of its extra, wherever it is first needed; everything else works."""

import json
import subprocess
import sys

import pytest

# Run in a process of its own, in which nothing of these can be imported.
SCRIPT = """
import contextlib, importlib.abc, io, json, sys

class Missing(importlib.abc.MetaPathFinder):
    gone = {"boto3", "botocore", "grpc", "hpack", "hyperframe", "jsonschema", "pandas", "polars", "psycopg",
            "pyiceberg", "pyspark", "sqlglot", "uvicorn", "yaml"}
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in self.gone:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Missing())
import pydoc
import pyarrow as pa
import seiche
from seiche import *  # every public name is there, also one that needs an extra to be called
from seiche.cli import main

described = pydoc.plain(pydoc.render_doc(seiche))

SCHEMA = pa.schema([("id", pa.int64())])
lake = seiche.create("memory://extras")
lake.create_namespace("s")
lake.create_table("s.t", SCHEMA).append([{"id": 1}])

def command(*words):
    if (code := main(words)) != 2:
        raise AssertionError(code)

ASKED = {
    "iceberg table": lambda: lake.create_table("s.i", SCHEMA, format="iceberg"),
    "iceberg catalog": lambda: lake.iceberg_catalog(),
    "iceberg catalog in a transaction": lambda: lake.transaction().iceberg_catalog(),
    "connect": lambda: seiche.connect("localhost:1"),
    "spark": lambda: lake.spark(None),
    "transaction on spark": lambda: lake.transaction(spark=object()),
    "postgres": lambda: seiche.Table.create("memory://p/t", SCHEMA, manifest_store="postgresql://x/y"),
    "dynamodb": lambda: seiche.Table.create("memory://d/t", SCHEMA, manifest_store="dynamodb://x"),
    "seiche serve": lambda: command("serve", "memory://extras", "--no-auth"),
    "seiche sql": lambda: command("sql", "memory://extras", "-e", "SELECT 1"),
    "seiche run": lambda: command("run", "pipeline.yaml"),
    "seiche demo": lambda: command("demo"),
}
said = {}
for name, ask in ASKED.items():
    try:
        ask()
    except seiche.InvalidInput as error:
        said[name] = error.remedy
with contextlib.redirect_stdout(io.StringIO()) as shown:
    code = main(("head", "memory://extras", "s.t", "--json"))
rows = lake.table("s.t").to_arrow().to_pylist()
print(json.dumps({"said": said, "rows": rows, "head": [code, shown.getvalue()],
                  "described": described}))
"""


@pytest.fixture(scope="module")
def process() -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=False)


def test_the_core_needs_no_extra(process: subprocess.CompletedProcess[str]) -> None:
    assert process.returncode == 0, process.stderr
    found = json.loads(process.stdout)
    assert found["rows"] == [{"id": 1}]
    code, shown = found["head"]
    assert (code, json.loads(shown)) == (0, found["rows"])


def test_help_describes_every_function_whatever_is_installed(process: subprocess.CompletedProcess[str]) -> None:
    described = json.loads(process.stdout)["described"]
    assert all(f"{name}(" in described for name in ("create", "open", "connect"))


def test_what_is_missing_is_asked_for_by_the_name_of_its_extra(process: subprocess.CompletedProcess[str]) -> None:
    said = json.loads(process.stdout)["said"]
    extras = {
        "iceberg table": "iceberg",
        "iceberg catalog": "iceberg",
        "iceberg catalog in a transaction": "iceberg",
        "connect": "server",
        "spark": "spark",
        "transaction on spark": "spark",
        "postgres": "postgres",
        "dynamodb": "dynamodb",
    }
    assert said.keys() == extras.keys()
    for name, extra in extras.items():
        assert f"seiche[{extra}]" in said[name], name


def test_commands_ask_in_one_line_each(process: subprocess.CompletedProcess[str]) -> None:
    lines = process.stderr.splitlines()
    assert [line.partition("seiche[")[2].partition("]")[0] for line in lines] == ["server", "spark", "spark", "spark"]
    assert all(line.startswith("seiche: invalid_input: ") for line in lines)
