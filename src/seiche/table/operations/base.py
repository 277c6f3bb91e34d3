"""What all operations have in common: they are immutable values, and lose nothing that they were read with."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, TypeVar

from google.protobuf.message import Message
from google.protobuf.unknown_fields import UnknownFieldSet

from seiche.table.format.manifest import Manifest
from seiche.table.operations.context import Build

__all__ = ["Values", "unknown_fields", "with_unknown"]

_Message = TypeVar("_Message", bound=Message)


@dataclass(frozen=True, slots=True)
class Values:
    """The base of every operation: members given as lists become tuples, mappings become dictionaries of its own.

    Messages among the members are shared, not copied: never change one after it was handed over.
    """

    # The operation's name in the specification, and that of its field in the Transaction message.
    name: ClassVar[str]
    field_name: ClassVar[str]

    # Fields that a newer writer put into the message and that mean nothing to us; kept so that they are written again.
    unknown: bytes = field(default=b"", kw_only=True, repr=False)

    def __post_init__(self) -> None:
        members: tuple[str, ...] = self.__match_args__
        for name in members:
            value = getattr(self, name)
            if type(value) is tuple:  # what most are, and cheaper to see than that it is no mapping
                continue
            if isinstance(value, list):
                object.__setattr__(self, name, tuple(value))
            elif isinstance(value, Mapping):
                object.__setattr__(self, name, dict(value))

    def apply(self, manifest: Manifest, build: Build) -> Manifest:
        """The version that this operation makes of `manifest`, or an error if that would not be what was meant.

        Pure: reads nothing but what `build` gives it, and changes neither its arguments nor itself. The result has a
        header of its own, which the caller may go on to fill in: number, time and writer are not set here.
        """
        raise NotImplementedError


def unknown_fields(message: Message) -> bytes:
    """The encoded fields of the message itself, not of messages inside it, that our schema does not have."""
    if not len(UnknownFieldSet(message)):
        return b""
    rest = type(message)()
    rest.CopyFrom(message)
    for descriptor, _ in rest.ListFields():
        rest.ClearField(descriptor.name)
    return rest.SerializeToString()


def with_unknown(message: _Message, unknown: bytes) -> _Message:
    """The message, with encoded fields added to it that our schema does not have."""
    if unknown:
        message.MergeFromString(unknown)
    return message
