"""The public names: exactly those in `__all__`, all importable, typed, and cheap until used."""

import ast
import inspect
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pyarrow as pa
import pytest

import seiche

HEAVY = ("lance", "numpy", "obstore", "pandas", "pyarrow", "pyspark", "rich", "typer")


def run_fresh(code: str) -> str:
    """What a new interpreter prints: this one has imported half of the package already."""
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout


def test_all_is_sorted_without_doubles() -> None:
    assert seiche.__all__ == sorted(set(seiche.__all__))


def test_every_name_in_all_is_importable() -> None:
    for name in seiche.__all__:
        assert getattr(seiche, name) is not None


def test_nothing_importable_is_missing_in_all() -> None:
    # Submodules become attributes when anything imports them; they are public only if listed.
    code = (
        "import seiche, types\n"
        "[getattr(seiche, name) for name in seiche.__all__]\n"
        "print(*(n for n, v in vars(seiche).items() if n[0] != '_' and not isinstance(v, types.ModuleType)))\n"
        "print(*dir(seiche))"
    )
    importable, listed = (line.split() for line in run_fresh(code).splitlines())
    modules = {name for name in seiche.__all__ if isinstance(getattr(seiche, name), ModuleType)}
    assert set(importable) | modules == set(seiche.__all__)
    assert listed == seiche.__all__


def test_lazy_names_have_their_types() -> None:
    """A lazy name that is not imported under TYPE_CHECKING would be unknown to a type checker."""
    tree = ast.parse(inspect.getsource(seiche))
    blocks = [
        node for node in tree.body if isinstance(node, ast.If) and ast.unparse(node.test) == "_typing.TYPE_CHECKING"
    ]
    imports = [node for block in blocks for node in block.body if isinstance(node, ast.ImportFrom)]
    typed = {alias.asname or alias.name: f"{node.module}.{alias.name}" for node in imports for alias in node.names}
    assert typed == {name: home.replace(":", ".") for name, home in seiche._LAZY.items()}


def test_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Lakehouse'"):
        _ = seiche.Lakehouse  # type: ignore[attr-defined]


def test_import_loads_nothing_heavy() -> None:
    loaded = run_fresh("import sys, seiche; print(*sys.modules)").split()
    assert [name for name in HEAVY if name in loaded] == []
    assert [name for name in loaded if name.startswith("seiche.") and name != "seiche.errors"] == []


def test_the_command_loads_what_a_command_needs_when_it_is_run() -> None:
    """So that `seiche --help` and a mistake in the usage are answered at once."""
    loaded = run_fresh("import sys, seiche.cli.commands; print(*sys.modules)").split()
    assert [name for name in HEAVY if name in loaded] == ["rich", "typer"]
    unneeded = ("asyncio", "ssl", "seiche.store.", "seiche.lake", "seiche.table", "seiche.service")
    assert [name for name in loaded if name.startswith(unneeded)] == []


def test_the_command_can_be_interrupted_before_it_is_loaded() -> None:
    """What is loaded before `main` is called cannot be interrupted without a traceback."""
    loaded = run_fresh("import sys, seiche.cli; print(*sys.modules)").split()
    assert [name for name in loaded if name.startswith("seiche")] == ["seiche.errors", "seiche", "seiche.cli"]
    assert [name for name in HEAVY if name in loaded] == []


def test_what_plans_for_spark_and_what_opens_an_iceberg_table_load_little() -> None:
    """Spark plans in processes of its own, a new one again and again. What an Iceberg table needs of PyIceberg takes a
    second; the clients of Lance namespaces, which it does not need, took two more.
    """
    show = "print(*sys.modules)"
    code = f"import sys, seiche.spark.source; {show}; import seiche.lake.engines.pyiceberg_catalog; {show}"
    planning, opening = (line.split() for line in run_fresh(code).splitlines())
    assert [name for name in ("lance", "pandas", "pyiceberg") if name in planning] == []
    assert "lance_namespace" not in opening


def test_types_are_shipped() -> None:
    assert (Path(seiche.__file__).parent / "py.typed").exists()


@pytest.mark.parametrize("name", seiche.__all__)
def test_every_name_says_what_it_is_for_with_an_example_that_works(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = inspect.getdoc(getattr(seiche, name)) or ""
    examples = re.findall(r"^```python\n(.*?)^```$", told, re.MULTILINE | re.DOTALL)
    assert examples or "For instance: " in told
    monkeypatch.chdir(tmp_path)
    for example in examples:
        code = compile(example, f"the example of {name}", "exec")
        if name != "connect":  # there is no server; guides that have one run the same
            exec(code, {"pa": pa, "seiche": seiche})


def test_signatures_can_be_read() -> None:
    for function in (seiche.create, seiche.open, seiche.connect, seiche.Table.create, seiche.Table.open):
        shown = str(inspect.signature(function))
        assert " at 0x" not in shown
        assert shown.endswith(("-> 'RemoteLake'", "-> 'Table'")) or "-> seiche." in shown


def test_version_is_the_installed_one() -> None:
    from importlib.metadata import version

    assert seiche.__version__ == version("seiche")
