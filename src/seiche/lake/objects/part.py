"""Values that are written as protobuf messages with fields of the same names."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, Final, Self

from google.protobuf.message import Message

from seiche.errors import InvalidInput
from seiche.table.operations.base import unknown_fields, with_unknown

__all__ = ["Part"]


@dataclass(frozen=True, kw_only=True)
class Part:
    """A frozen value with a message behind it.

    Fields that a newer release has added survive when an older one reads a message and writes it again (`unknown`).
    `NESTED` are fields that hold parts themselves, one or several; `CHOICES` those that are one of a few words, which
    are written as their numbers.
    """

    MESSAGE: ClassVar[type[Message]]
    NESTED: ClassVar[Mapping[str, "type[Part]"]] = {}
    CHOICES: ClassVar[Mapping[str, tuple[str, ...]]] = {}

    unknown: bytes = field(default=b"", repr=False, compare=False)

    def to_message(self) -> Message:
        """The message; `InvalidInput` if a word is none of its choices."""
        # What is empty is not written; telling a message of it takes longer than all the rest.
        values = {name: value for name, value in self.__dict__.items() if value}
        unknown = values.pop("unknown", b"")
        for name in self.NESTED.keys() & values.keys():
            value = values[name]
            values[name] = [one.to_message() for one in value] if type(value) is tuple else value.to_message()
        for name, choices in self.CHOICES.items():
            word = getattr(self, name)
            if word not in choices:
                raise InvalidInput(f"{word!r} is not a {name}", remedy=f"Use one of {', '.join(choices)}.")
            values[name] = choices.index(word)
        return with_unknown(self.MESSAGE(**values), unknown)

    @classmethod
    def from_message(cls, message: Any) -> Self:
        """The value in a message; `LookupError` if it has a word that this release does not know."""
        values: dict[str, Any] = {}
        for name in _names(cls):
            value = getattr(message, name)
            if name in cls.CHOICES:
                value = cls.CHOICES[name][value]
            elif name in cls.NESTED:
                value = _parts(cls.NESTED[name], value) if hasattr(value, "extend") else _part(cls, name, message)
            elif hasattr(value, "items"):
                value = dict(value)
            elif hasattr(value, "extend"):
                value = tuple(value)
            values[name] = value
        return cls(**values, unknown=unknown_fields(message))


def _part(outer: type[Part], name: str, message: Any) -> Part | None:
    return outer.NESTED[name].from_message(getattr(message, name)) if message.HasField(name) else None


def _parts(kind: type[Part], messages: Any) -> tuple[Part, ...]:
    return tuple(map(kind.from_message, messages))


def _names(kind: type[Part]) -> tuple[str, ...]:
    known = _fields.get(kind)
    if known is None:
        known = _fields[kind] = tuple(one.name for one in fields(kind) if one.name != "unknown")
    return known


_fields: Final[dict[type[Part], tuple[str, ...]]] = {}
