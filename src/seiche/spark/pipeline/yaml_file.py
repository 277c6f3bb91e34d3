"""A pipeline from a YAML file, with mistakes named by file and line."""

import importlib.util
import json
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NoReturn

import yaml
from jsonschema import Draft202012Validator

from seiche.errors import InvalidInput, NotFound
from seiche.spark.pipeline.definition import Check, Definition, Place, Source, Step
from seiche.spark.pipeline.mistakes import innermost, is_vague, path_of, told, untold
from seiche.spark.pipeline.shorthands import check_from

__all__ = ["load", "schema"]

_REMEDY = "`seiche run --schema` prints what a pipeline can say."


@cache
def schema() -> dict[str, Any]:
    """What a pipeline file may say, as JSON schema."""
    read: dict[str, Any] = json.loads((Path(__file__).parent / "schema.json").read_text("utf-8"))
    return read


def load(path: str | Path) -> Definition:
    """The pipeline in a file. Raises `InvalidInput` that names the line, and what was expected there."""
    file = Path(path)
    try:
        text = file.read_text("utf-8")
    except FileNotFoundError as error:
        raise NotFound(f"there is no file {file}", remedy="Name the YAML file of a pipeline.") from error
    except (OSError, UnicodeDecodeError) as error:
        said = error.strerror if isinstance(error, OSError) else error
        raise InvalidInput(f"{file} cannot be read: {said}", remedy="Name the YAML file of a pipeline.") from error
    document = _Document(str(file), text)
    document.check()
    return _definition(document, file)


class _Document:
    """What a file says, and on which line it says it."""

    def __init__(self, name: str, text: str) -> None:
        self.name = name
        try:
            self._node = yaml.compose(text, Loader=yaml.SafeLoader)
            self.value = yaml.safe_load(text)
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            why = " ".join(filter(None, (error.context, error.problem)))
            self._refuse(mark.line + 1 if mark else 1, f"this is not YAML: {why}")
        except yaml.YAMLError as error:
            self._refuse(1, f"this is not YAML: {error}")

    def check(self) -> None:
        """Raise `InvalidInput` for the first thing that is not as the schema says."""
        for line, what in untold(self._node):
            self._refuse(line, what)
        if not isinstance(self.value, dict):
            self._refuse(1, "a pipeline is a mapping with `lake` and `steps`")
        errors = [innermost(error) for error in Draft202012Validator(schema()).iter_errors(self.value)]
        if errors:
            first = min(errors, key=lambda error: (is_vague(error), self.line(path_of(error))))
            self._refuse(self.line(path_of(first)), told(first))

    def line(self, path: Sequence[str | int]) -> int:
        """The line where the value behind `path` begins."""
        node, line = self._node, 1
        for part in path:
            found = _child(node, part)
            if found is None:
                break
            line, node = found
        return line

    def place(self, *path: str | int) -> Place:
        return Place(self.name, self.line(path))

    def _refuse(self, line: int, what: str) -> NoReturn:
        raise InvalidInput(f"{self.name}:{line}: {what}", remedy=_REMEDY, file=self.name, line=line)


def _child(node: yaml.Node | None, part: str | int) -> tuple[int, yaml.Node] | None:
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if getattr(key, "value", None) == str(part):
                return key.start_mark.line + 1, value
    elif isinstance(node, yaml.SequenceNode) and isinstance(part, int) and part < len(node.value):
        return node.value[part].start_mark.line + 1, node.value[part]
    return None


def _definition(document: _Document, file: Path) -> Definition:
    said: Mapping[str, Any] = document.value
    lake = said["lake"]
    folder = file.resolve().parent
    return Definition(
        name=said.get("name", file.stem),
        lake=lake if "://" in lake else str(folder / lake),
        sources=tuple(
            _source(name, one, document.place("sources", name)) for name, one in said.get("sources", {}).items()
        ),
        steps=tuple(_step(one, document.place("steps", at), folder) for at, one in enumerate(said["steps"])),
        checks=tuple(_check(one, document.place("checks", at)) for at, one in enumerate(said.get("checks", ()))),
        folder=str(folder),
    )


def _source(name: str, said: Mapping[str, Any], place: Place) -> Source:
    options = {key: _option(value) for key, value in said.get("options", {}).items()}
    return Source(**{**said, "name": name, "options": options, "place": place})


def _option(value: object) -> str:
    """As Spark wants it: YAML's true is not Python's."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _step(said: Mapping[str, Any], place: Place, folder: Path) -> Step:
    values = {key: value for key, value in said.items() if key != "python"}
    key = said.get("key", ())
    values["key"] = (key,) if isinstance(key, str) else tuple(key)
    values["reads"] = tuple(said.get("reads", ()))
    if "python" in said:
        values["make"] = _function(said["python"], place, folder)
    return Step(**values, place=place)


def _function(said: str, place: Place, folder: Path) -> Callable[..., Any]:
    """The function that `steps.py:orders` names."""
    module_file, _, name = said.partition(":")
    path = folder / module_file
    wanted = InvalidInput(
        f"{place}: python: {said!r} names no function", remedy="Write it as steps.py:orders, relative to the pipeline."
    )
    if not name or not path.is_file():
        raise wanted
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise wanted
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:  # whatever the user's own file does
        raise InvalidInput(f"{place}: {path} cannot be imported: {type(error).__name__}: {error}") from error
    found: Callable[..., Any] | None = getattr(module, name, None)
    if not callable(found):
        raise wanted
    return found


def _check(said: Mapping[str, Any], place: Place) -> Check:
    return check_from(said, place)
