"""What is wrong in a pipeline file, in the words of whoever wrote it: of YAML, not of JSON schema or of Python."""

from collections.abc import Iterator, Mapping
from datetime import date
from types import MappingProxyType
from typing import Any, Final, TypeAlias

import yaml
from jsonschema import ValidationError

__all__ = ["Path", "innermost", "is_vague", "path_of", "told", "untold"]

Path: TypeAlias = tuple[str | int, ...]

# What often follows from another mistake, which is then the one to name.
_VAGUE: Final = frozenset({"not", "oneOf", "required"})
_KINDS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "array": "a list",
        "boolean": "true or false",
        "integer": "a whole number",
        "number": "a number",
        "object": "a mapping",
        "string": "a text",
    }
)
_TEXT: Final = "tag:yaml.org,2002:str"
_MERGE: Final = "tag:yaml.org,2002:merge"


def untold(node: yaml.Node | None, where: Path = (), above: frozenset[int] = frozenset()) -> Iterator[tuple[int, str]]:
    """Lines of what YAML says nothing about, and what it is: words said twice, words that are no text, circles."""
    if node is None:
        return
    if id(node) in above:
        yield node.start_mark.line + 1, "this repeats itself without end"
        return
    above |= {id(node)}
    if isinstance(node, yaml.MappingNode):
        seen = set()
        for key, value in node.value:
            line = key.start_mark.line + 1
            if isinstance(key, yaml.ScalarNode):
                if key.value in seen:
                    yield line, f"{key.value!r} is said twice"
                elif key.tag not in (_TEXT, _MERGE):
                    yield line, f"{_shown(where)}: {key.value} is no text: write it in quotes"
                seen.add(key.value)
            yield from untold(value, (*where, getattr(key, "value", "")), above)
    elif isinstance(node, yaml.SequenceNode):
        for at, value in enumerate(node.value):
            yield from untold(value, (*where, at), above)


def is_vague(error: ValidationError) -> bool:
    """Whether it often follows from another mistake, which is then the one to name."""
    return error.validator in _VAGUE


def innermost(error: ValidationError) -> ValidationError:
    """Of the alternatives of which none fits, the one that was most likely meant."""
    if error.validator != "anyOf" or all(one.validator == "required" for one in error.context or ()):
        return error
    return max(error.context or (), key=lambda one: (len(one.absolute_path), one.validator != "type"))


def path_of(error: ValidationError) -> Path:
    """Where the mistake is: the word itself, where a word is the mistake."""
    path = tuple(error.absolute_path)
    if error.validator == "additionalProperties":
        return *path, _unknown(error)[0]
    return (*path, str(error.instance)) if error.validator == "pattern" else path


def told(error: ValidationError) -> str:
    """What is wrong, and what was expected."""
    return f"{_shown(tuple(error.absolute_path))}: {_wrong(error)}"


def _wrong(error: ValidationError) -> str:
    rule: Any = error.validator_value
    given: Any = error.instance
    match error.validator:
        case "additionalProperties":
            allowed: Any = error.schema
            what = f"unknown {_words(_unknown(error))}; known here: {', '.join(sorted(allowed.get('properties', {})))}"
        case "required":
            what = f"{_words(one for one in rule if one not in given)} is missing"
        case "anyOf":
            what = f"{_words((one['required'][0] for one in rule), ' or ')} is missing"
        case "oneOf":
            what = _not_one(rule, given)
        case "not" if "anyOf" in rule:
            what = f"{_words(rule['required'])} does not go with {_words(_required(rule['anyOf']), ' and ')}"
        case "not":
            what = f"{_words(rule['required'], ' and ')} is not for this mode"
        case "dependentRequired":
            word, others = next((one, others) for one, others in rule.items() if one in given)
            what = f"{word!r} goes with {_words(others)} only"
        case "type":
            what = _other_kind(given, [rule] if isinstance(rule, str) else rule)
        case "minLength" | "minItems" | "minProperties":
            what = "it is empty"
        case "enum":
            what = f"{given!r} is not one of {', '.join(rule)}"
        case "pattern":
            what = f"{given!r} cannot be the name of a source: letters, digits and _ only"
        case _:
            what = error.message
    return what


def _other_kind(given: object, wanted: list[str]) -> str:
    kinds = [_KINDS[one] for one in wanted]
    expected = " or ".join(filter(None, (", ".join(kinds[:-1]), kinds[-1])))
    match given:
        case None:
            return f"nothing is said here, and {expected} was expected"
        case list() | dict():
            what = f"this is {_KINDS['array' if isinstance(given, list) else 'object']}"
        case str():
            what = f"this is the text {given!r}"
        case bool():
            what = "YAML takes this for true or false"
        case date():
            what = "YAML takes this for a date"
        case _:
            what = f"this is the number {given}"
    quotes = ": write it in quotes" if "string" in wanted and not isinstance(given, list | dict) else ""
    return f"{what}, and {expected} was expected{quotes}"


def _not_one(rule: list[Mapping[str, Any]], given: Mapping[str, Any]) -> str:
    """Of several words exactly one is to be said; or one is, with others that are for another one of them."""
    found = [one for one in rule if one["required"][0] in given]
    if len(found) == 1 and "not" in found[0]:
        others = _required(found[0]["not"].get("anyOf", [found[0]["not"]]))
        return f"{_words(found[0]['required'])} does not go with {_words(one for one in others if one in given)}"
    return f"exactly one of {_words((one['required'][0] for one in rule), ' or ')} is needed"


def _required(alternatives: list[Mapping[str, Any]]) -> list[str]:
    return [word for one in alternatives for word in one["required"]]


def _unknown(error: ValidationError) -> list[str]:
    allowed: Any = error.schema
    given: Any = error.instance
    return [word for word in given if word not in allowed.get("properties", {})]


def _words(several: Any, between: str = ", ") -> str:
    return between.join(map(repr, several))


def _shown(path: Path) -> str:
    return ".".join(map(str, path)) or "the pipeline"
