"""Imports point down the layers, wherever in a file they stand."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import seiche

# From the bottom up. A layer may import itself and everything in lines above it here; parts of one line stand side by
# side and do not know each other. `__init__` is the public face: everybody above may ask it, nothing below may.
LAYERS = (
    ("errors",),
    ("core",),
    ("store",),
    ("table",),
    ("lake",),
    ("service",),
    ("gateway",),
    ("__init__",),
    ("spark",),
    ("cli",),
    ("__main__",),
)
HEIGHT = {part: height for height, parts in enumerate(LAYERS) for part in parts}
SOURCE = Path(seiche.__file__).parent
PACKAGE = "seiche"
# The test kit wraps and drives every layer; nothing may depend on it.
ABOVE_ALL = "testing"


def parts_imported(node: ast.AST) -> Iterator[str]:
    """The parts of the package (`store`, `lake`, ...) that one statement imports."""
    if isinstance(node, ast.ImportFrom) and node.level:
        raise AssertionError(f"line {node.lineno}: relative import")
    names: list[str] = []
    if isinstance(node, ast.Import):
        names = [alias.name for alias in node.names]
    elif isinstance(node, ast.ImportFrom) and node.module == PACKAGE:
        # The version is a plain constant: files say which writer made them.
        names = [f"{PACKAGE}.{alias.name}" for alias in node.names if alias.name != "__version__"]
    elif isinstance(node, ast.ImportFrom):
        names = [node.module or ""]
    elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module"):
        names = [str(argument.value) for argument in node.args[:1] if isinstance(argument, ast.Constant)]
    for name in names:
        top, _, rest = name.partition(".")
        if top == PACKAGE:
            part = rest.partition(".")[0]
            # `from seiche import open` asks the public face; `from seiche import store` is the layer itself.
            yield part if part in HEIGHT or part == ABOVE_ALL else "__init__"


def violations(source: str, part: str) -> list[str]:
    """The imports in `source`, a module of `part`, that do not point down."""
    if part == ABOVE_ALL:
        return []
    found = []
    for node in ast.walk(ast.parse(source)):
        for imported in parts_imported(node):
            down = imported != ABOVE_ALL and HEIGHT[imported] < HEIGHT[part]
            if not (down or imported == part):
                found.append(f"line {node.lineno}: {part} imports {imported}")  # type: ignore[attr-defined]
    return found


def modules() -> Iterator[tuple[Path, str]]:
    """Every module of the package with the part that it belongs to."""
    for path in sorted(SOURCE.rglob("*.py")):
        yield path, path.relative_to(SOURCE).with_suffix("").parts[0]


def test_every_part_has_a_layer() -> None:
    assert {part for _, part in modules()} <= {*HEIGHT, ABOVE_ALL}


@pytest.mark.parametrize(("path", "part"), list(modules()), ids=lambda value: str(value).removeprefix(str(SOURCE)))
def test_imports_point_down(path: Path, part: str) -> None:
    assert violations(path.read_text(), part) == []


@pytest.mark.parametrize(
    ("part", "source"),
    [
        ("store", "from seiche.table.format import manifest"),
        ("store", "import seiche.lake"),
        ("store", "from seiche import lake"),
        ("store", "import seiche"),
        ("errors", "from seiche.core.clock import Clock"),
        ("lake", "def f():\n    from seiche.service import server"),
        ("lake", "if TYPE_CHECKING:\n    from seiche.gateway import iceberg_rest"),
        ("table", "import importlib\nimportlib.import_module('seiche.lake.lake')"),
        ("spark", "from seiche.cli import output"),
        ("core", "from seiche.testing import SimulatedStore"),
        ("cli", "from seiche.testing import SimulatedStore"),
    ],
)
def test_an_upward_import_is_caught(part: str, source: str) -> None:
    assert len(violations(source, part)) == 1


@pytest.mark.parametrize(
    ("part", "source"),
    [
        ("store", "from seiche.errors import NotFound\nfrom seiche.core import runtime\nfrom seiche.store import base"),
        ("lake", "def f():\n    from seiche.table import table"),
        ("cli", "import seiche\nfrom seiche import store, SeicheError"),
        ("testing", "from seiche.lake import lake"),
        ("store", "import pyarrow, seichelles"),
        ("table", "from seiche import __version__"),
    ],
)
def test_downward_imports_are_allowed(part: str, source: str) -> None:
    assert violations(source, part) == []


def test_a_relative_import_is_caught() -> None:
    with pytest.raises(AssertionError, match="relative import"):
        violations("from . import base", "store")


def begins_with_a_part_of_pylance(source: str) -> bool:
    """Whether a block imports a module of pylance's without having imported pylance itself."""
    for node in ast.walk(ast.parse(source)):
        body = getattr(node, "body", None)
        if not isinstance(body, list) or (isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"):
            continue
        whole = False
        for one in body:
            whole = whole or (isinstance(one, ast.Import) and any(name.name == "lance" for name in one.names))
            if not whole and isinstance(one, ast.ImportFrom) and (one.module or "").startswith("lance."):
                return True
    return False


def test_pylance_is_imported_before_its_parts() -> None:
    """Its modules import each other. Who begins with one of them, while another thread is busy with the whole, gets
    half of it or a deadlock; `import lance` waits until the other is done.
    """
    assert [str(path) for path, _ in modules() if begins_with_a_part_of_pylance(path.read_text())] == []


def test_a_part_of_pylance_before_the_whole_is_caught() -> None:
    assert begins_with_a_part_of_pylance("from lance.file import LanceFileReader")
    assert begins_with_a_part_of_pylance("import lance\ndef read():\n    from lance.file import LanceFileReader")
    assert not begins_with_a_part_of_pylance("import lance\nfrom lance.file import LanceFileReader")
    assert not begins_with_a_part_of_pylance("if TYPE_CHECKING:\n    from lance.file import LanceFileReader")
