"""A pipeline from a YAML file, with mistakes named by file and line."""

import importlib.util
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NoReturn

import yaml
from jsonschema import Draft202012Validator, ValidationError
from jsonschema.exceptions import relevance

from seiche.errors import InvalidInput, NotFound
from seiche.spark.pipeline.definition import Check, Definition, Place, Source, Step
from seiche.spark.pipeline.shorthands import check_from

__all__ = ["load", "schema"]

# What often follows from another mistake, which is then the one to name.
_VAGUE = ("not", "oneOf", "required")
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
        raise InvalidInput(f"{file} cannot be read: {error}") from error
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
            self._refuse(mark.line + 1 if mark else 1, f"this is not YAML: {error.problem or error.context}")
        except yaml.YAMLError as error:
            self._refuse(1, f"this is not YAML: {error}")

    def check(self) -> None:
        """Raise `InvalidInput` for the first thing that is not as the schema says."""
        for line, key in _doubles(self._node):
            self._refuse(line, f"{key!r} is said twice")
        if not isinstance(self.value, dict):
            self._refuse(1, "a pipeline is a mapping with `lake` and `steps`")
        errors = [_innermost(error) for error in Draft202012Validator(schema()).iter_errors(self.value)]
        if errors:
            first = min(errors, key=lambda error: (error.validator in _VAGUE, self.line(tuple(error.absolute_path))))
            self._refuse(self.line(tuple(first.absolute_path)), _said(first))

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


def _doubles(node: yaml.Node | None) -> Iterator[tuple[int, str]]:
    """Keys that stand twice in one mapping: YAML would take the last one and say nothing."""
    if isinstance(node, yaml.MappingNode):
        seen = set()
        for key, value in node.value:
            if isinstance(key, yaml.ScalarNode):
                if key.value in seen:
                    yield key.start_mark.line + 1, key.value
                seen.add(key.value)
            yield from _doubles(value)
    elif isinstance(node, yaml.SequenceNode):
        for value in node.value:
            yield from _doubles(value)


def _child(node: yaml.Node | None, part: str | int) -> tuple[int, yaml.Node] | None:
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if getattr(key, "value", None) == str(part):
                return key.start_mark.line + 1, value
    elif isinstance(node, yaml.SequenceNode) and isinstance(part, int) and part < len(node.value):
        return node.value[part].start_mark.line + 1, node.value[part]
    return None


def _innermost(error: ValidationError) -> ValidationError:
    """Of the alternatives of which none fits, the one that was most likely meant."""
    if error.context and error.validator == "anyOf":
        return max(error.context, key=relevance)
    return error


def _said(error: ValidationError) -> str:
    where = ".".join(str(part) for part in error.absolute_path) or "the pipeline"
    rule: Any = error.validator_value
    given: Any = error.instance
    match error.validator:
        case "additionalProperties":
            allowed: Any = error.schema
            known = sorted(allowed.get("properties", {}))
            unknown = sorted(set(given) - set(known))
            return f"{where}: unknown {', '.join(map(repr, unknown))}; known here: {', '.join(known)}"
        case "required":
            return f"{where}: {', '.join(repr(one) for one in rule if one not in given)} is missing"
        case "oneOf":
            return f"{where}: exactly one of {' or '.join(repr(one['required'][0]) for one in rule)} is needed"
        case "not":
            return f"{where}: {' and '.join(map(repr, rule['required']))} is not for this mode"
        case "dependentRequired":
            return f"{where}: {error.message.replace(' is a dependency of ', ' must be said with ')}"
        case _:
            return f"{where}: {error.message}"


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
    except Exception as error:  # whatever the user's own file does
        raise InvalidInput(f"{place}: {path} cannot be imported: {type(error).__name__}: {error}") from error
    found: Callable[..., Any] | None = getattr(module, name, None)
    if not callable(found):
        raise wanted
    return found


def _check(said: Mapping[str, Any], place: Place) -> Check:
    return check_from(said, place)
