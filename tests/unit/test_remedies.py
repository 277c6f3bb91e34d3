"""Whoever gets an error from a table or a store is told what to do next."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import seiche

SOURCE = Path(seiche.__file__).parent
# The others bring an advice of their own, which holds wherever they are raised.
WITHOUT_ADVICE = frozenset(
    name
    for name in seiche.errors.__all__
    if not getattr(seiche.errors, name).advice and name not in ("SeicheError", "ConflictError")
)
_ANSWER = "an answer of the store, which the caller turns into words of what it was looking for"
_CALL = "a mistake of the code that calls, which no caller of the public API can make"
# File and function, and why there is nothing to advise.
EXCEPTIONS = {
    ("store/hdfs.py", "_file"): _ANSWER,
    ("store/hdfs.py", "_refusal"): _ANSWER,
    ("store/hdfs.py", "rename_if_absent"): _ANSWER,
    ("store/local.py", "rename"): _ANSWER,
    ("store/object.py", "_create"): _ANSWER,
    ("store/object_errors.py", "_missing"): _ANSWER,
    ("store/os_errors.py", "no_file"): _ANSWER,
    ("store/os_errors.py", "taken"): _ANSWER,
    ("store/os_errors.py", "unreadable"): _ANSWER,
    ("table/data/columns/sources.py", "values"): _CALL,
    ("table/operations/context.py", "nothing_to_load"): _CALL,
    ("table/versions/external/versions.py", "_is_stored"): _ANSWER,
    ("table/versions/external/versions.py", "_refuse_gap"): _ANSWER,
    ("table/versions/external/versions.py", "claim"): _ANSWER,
}


def silent(source: str) -> Iterator[tuple[str, int, str]]:
    """Function, line and error of each that is made without a remedy, though its class has no advice."""

    def below(node: ast.AST, function: str) -> Iterator[tuple[str, int, str]]:
        for child in ast.iter_child_nodes(node):
            inside = child.name if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef) else function
            if isinstance(child, ast.Call):
                name = ast.unparse(child.func).rpartition(".")[2]
                remedies = [one.value for one in child.keywords if one.arg in ("remedy", None)]
                empty = all(isinstance(one, ast.Constant) and not one.value for one in remedies)
                if name in WITHOUT_ADVICE and empty:
                    yield function, child.lineno, name
            yield from below(child, inside)

    return below(ast.parse(source), "")


@pytest.mark.parametrize("part", ["store", "table"])
def test_every_error_says_what_to_do_next(part: str) -> None:
    found = [
        (path.relative_to(SOURCE).as_posix(), *where)
        for path in sorted((SOURCE / part).rglob("*.py"))
        for where in silent(path.read_text())
    ]
    assert not [one for one in found if one[:2] not in EXCEPTIONS]
    unused = {one for one in EXCEPTIONS if one[0].startswith(part)} - {one[:2] for one in found}
    assert not unused, "these need no exception any more"


def test_one_without_is_found() -> None:
    source = (
        "def f():\n"
        "    raise InvalidInput('wrong')\n"
        "def g():\n"
        "    raise errors.NotFound('gone', remedy='', path='x')\n"
        "def h():\n"
        "    raise Corrupt('broken', remedy='Restore it.')\n"
        "def i():\n"
        "    raise RetryableConflict('others were faster')\n"
    )
    assert list(silent(source)) == [("f", 2, "InvalidInput"), ("g", 4, "NotFound")]
