"""Fields of a message that our definitions do not name: what a newer writer put there."""

from collections.abc import Iterator
from typing import NamedTuple

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from google.protobuf.unknown_fields import UnknownFieldSet

__all__ = ["UnknownField", "own_unknown_fields", "unknown_fields"]


class UnknownField(NamedTuple):
    """Where it was found, as a path of field names from the outermost message; its number; its value as decoded."""

    path: str
    number: int
    value: object


def own_unknown_fields(message: Message) -> Iterator[tuple[int, int, object]]:
    """Number, wire type and value of those that are directly in the message."""
    fields = UnknownFieldSet(message)
    for index in range(len(fields)):
        field = fields[index]
        yield field.field_number, field.wire_type, field.data


def unknown_fields(message: Message, path: str = "") -> Iterator[UnknownField]:
    """All of them, in the message and in every message inside it."""
    for number, _, value in own_unknown_fields(message):
        yield UnknownField(path, number, value)
    for descriptor, value in message.ListFields():
        if descriptor.type != FieldDescriptor.TYPE_MESSAGE:
            continue
        inside = f"{path}.{descriptor.name}" if path else descriptor.name
        for child in _messages(descriptor, value):
            yield from unknown_fields(child, inside)


def _messages(descriptor: FieldDescriptor, value: object) -> list[Message]:
    if isinstance(value, Message):
        return [value]
    if descriptor.message_type is not None and descriptor.message_type.GetOptions().map_entry:
        values = list(value.values())  # type: ignore[attr-defined]
        return [each for each in values if isinstance(each, Message)]
    return list(value)  # type: ignore[call-overload, no-any-return]
