"""The error tree: stable kinds, what to do next, and a drawing that is true."""

import pickle
import re
from collections.abc import Iterator

import pytest

from seiche import errors
from seiche.errors import NotFound, RetryableConflict, SeicheError

# Scripts, logs and wire protocols carry these. Add to the list; never change or remove an entry.
KINDS = {
    "AlreadyExists": ("already_exists", False),
    "CommitUnknown": ("commit_unknown", False),
    "ConflictError": ("conflict", False),
    "Corrupt": ("corrupt", False),
    "IncompatibleConflict": ("conflict.incompatible", False),
    "InvalidInput": ("invalid_input", False),
    "NotFound": ("not_found", False),
    "PermissionDenied": ("permission_denied", False),
    "RetryableConflict": ("conflict.retryable", True),
    "SeicheError": ("error", False),
    "Unavailable": ("unavailable", True),
}


def tree(root: type[SeicheError]) -> Iterator[type[SeicheError]]:
    yield root
    for child in root.__subclasses__():
        if child.__module__ == errors.__name__:
            yield from tree(child)


ALL = list(tree(SeicheError))


def draw(cls: type[SeicheError], indent: str = "") -> Iterator[str]:
    """The lines of the tree as the docstring draws them, without the explanations."""
    children = [child for child in cls.__subclasses__() if child.__module__ == errors.__name__]
    for child in children:
        last = child is children[-1]
        yield f"{indent}{'└── ' if last else '├── '}{child.__name__}"
        yield from draw(child, indent + ("    " if last else "│   "))


def test_kinds_are_stable() -> None:
    assert {cls.__name__: (cls.kind, cls.retryable) for cls in ALL} == KINDS


def test_kinds_are_unique_and_follow_the_tree() -> None:
    assert len({cls.kind for cls in ALL}) == len(ALL)
    for cls in ALL:
        parent = cls.__mro__[1]
        if issubclass(parent, SeicheError) and parent is not SeicheError:
            assert cls.kind.startswith(f"{parent.kind}.")


def test_module_exports_the_whole_tree() -> None:
    assert errors.__all__ == sorted(cls.__name__ for cls in ALL)


def test_drawing_is_the_real_tree() -> None:
    drawing = (errors.__doc__ or "").partition("`kind` is")[0]
    drawn = [line.strip("\n")[4:] for line in drawing.splitlines() if line.startswith("    ")]
    names = [re.match(r"[│├└─ ]*\w+", line) for line in drawn]
    assert [match[0] for match in names if match] == ["SeicheError", *draw(SeicheError)]
    explained = [line for line in drawn[1:] if re.search(r"\w {1,}\S+ \S+", line)]
    assert len(explained) == len(drawn) - 1


@pytest.mark.parametrize("cls", ALL, ids=lambda cls: cls.__name__)
def test_every_error_says_what_it_means(cls: type[SeicheError]) -> None:
    assert cls.__doc__
    if cls.retryable:
        assert "again" in cls.advice


@pytest.mark.parametrize("cls", ALL, ids=lambda cls: cls.__name__)
def test_errors_survive_pickling(cls: type[SeicheError]) -> None:
    """They cross process borders: Spark executors and worker pools send them home."""
    error = cls("it broke", remedy="mend it", path="a/b", version=7)
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is cls
    assert (copy.message, copy.remedy, copy.details) == (error.message, error.remedy, error.details)
    assert (copy.path, copy.version, str(copy)) == ("a/b", 7, str(error))


def test_remedy_is_shown_and_defaults_to_the_advice() -> None:
    assert str(RetryableConflict("version 9 won")) == f"version 9 won\n  {RetryableConflict.advice}"
    assert str(RetryableConflict("version 9 won", remedy="Ask Ada.")) == "version 9 won\n  Ask Ada."
    assert str(NotFound("no table t")) == "no table t"


def test_details_read_as_attributes() -> None:
    error = NotFound("no table t", table="t", version=3)
    assert (error.table, error.version) == ("t", 3)
    with pytest.raises(AttributeError, match="no attribute or detail 'winner'"):
        _ = error.winner


def test_half_made_error_has_no_details() -> None:
    """Copying and unpickling look at an error before it has any; that must not recurse."""
    with pytest.raises(AttributeError):
        _ = NotFound.__new__(NotFound).table
