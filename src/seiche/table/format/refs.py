"""Tags and branches: small JSON files under `_refs/` that give names to versions."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, TypeVar
from urllib.parse import quote, unquote

from seiche.core.given import text
from seiche.errors import Corrupt, InvalidInput

__all__ = [
    "BRANCHES",
    "MAIN",
    "TAGS",
    "Branch",
    "Tag",
    "branch_path",
    "branch_root",
    "check_branch_name",
    "check_tag_name",
    "name_of",
    "tag_path",
]

TAGS = "_refs/tags"
BRANCHES = "_refs/branches"
MAIN = "main"

_SUFFIX = ".json"
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Tag:
    """A name for one version of one branch (`None` is the main one); movable.

    `manifest_size` is the size of that version's manifest file. `extra` keeps what a newer writer put into the file.
    """

    version: int
    branch: str | None = None
    created_at: datetime | None = None
    updated_at: datetime | None = None
    manifest_size: int = 0
    metadata: Mapping[str, str] = field(default_factory=dict)
    extra: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def decode(cls, data: bytes, *, path: str) -> "Tag":
        """Read a tag file; anything else is `Corrupt`."""
        stored = _Object.parse(data, path)
        return cls(
            version=stored.take("version", _count),
            branch=stored.take("branch", _optional(_text), default=None),
            created_at=stored.take("createdAt", _optional(_time), default=None),
            updated_at=stored.take("updatedAt", _optional(_time), default=None),
            manifest_size=stored.take("manifestSize", _count, default=0),
            metadata=stored.take("metadata", _texts, default={}),
            extra=stored.rest,
        )

    def encode(self) -> bytes:
        """The file."""
        known = {
            "branch": self.branch,
            "version": self.version,
            "createdAt": _stamp(self.created_at),
            "updatedAt": _stamp(self.updated_at),
            "manifestSize": self.manifest_size,
            "metadata": dict(self.metadata),
        }
        return _dump({**known, **self.extra})


@dataclass(frozen=True, slots=True, kw_only=True)
class Branch:
    """A line of versions of its own, which began at one version of its parent (`None` is the main one).

    `identifier` has one pair for each branch on the way here from the main one: the version where it began, and 32 hex
    digits that no other branch has. A branch that is deleted and made again under its name is so told from the first.
    """

    parent_version: int
    identifier: tuple[tuple[int, str], ...]
    parent_branch: str | None = None
    created_at: int = 0
    manifest_size: int = 0
    metadata: Mapping[str, str] = field(default_factory=dict)
    extra: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def decode(cls, data: bytes, *, path: str) -> "Branch":
        """Read a branch file; anything else is `Corrupt`."""
        stored = _Object.parse(data, path)
        return cls(
            parent_branch=stored.take("parentBranch", _optional(_text), default=None),
            identifier=stored.take("identifier", _identifier, default=()),
            parent_version=stored.take("parentVersion", _count),
            created_at=stored.take("createAt", _count, default=0),
            manifest_size=stored.take("manifestSize", _count, default=0),
            metadata=stored.take("metadata", _texts, default={}),
            extra=stored.rest,
        )

    def encode(self) -> bytes:
        """The file."""
        known = {
            "parentBranch": self.parent_branch,
            "identifier": {"version_mapping": [list(pair) for pair in self.identifier]},
            "parentVersion": self.parent_version,
            "createAt": self.created_at,
            "manifestSize": self.manifest_size,
            "metadata": dict(self.metadata),
        }
        return _dump({**known, **self.extra})


def tag_path(name: str) -> str:
    """Where the tag's file lies, relative to the root of the table."""
    return f"{TAGS}/{quote(name, safe='')}{_SUFFIX}"


def branch_path(name: str) -> str:
    """Where the branch's file lies, relative to the root of the table."""
    return f"{BRANCHES}/{quote(name, safe='')}{_SUFFIX}"


def branch_root(name: str) -> str:
    """The root of the branch's own versions, relative to the root of the table."""
    return f"tree/{name}"


def name_of(path: str) -> str | None:
    """The name in the path of a tag or branch file; `None` for any other file."""
    file = path.rpartition("/")[2]
    return unquote(file.removesuffix(_SUFFIX)) if file.endswith(_SUFFIX) and file != _SUFFIX else None


def check_tag_name(name: str) -> str:
    """Return the name if Lance allows it for a tag, else raise `InvalidInput`."""
    text(name, "the name of a tag")
    good = _has_good_letters(name) and not name.startswith(".") and not name.endswith((".", ".lock"))
    return name if good else _refuse("tag", name)


def check_branch_name(name: str) -> str:
    """Return the name if Lance allows it for a branch, else raise `InvalidInput`. Slashes may separate parts."""
    text(name, "the name of a branch")
    good = all(map(_has_good_letters, name.split("/"))) and not name.endswith(".lock") and name != MAIN
    # A part of one dot would name the directory it lies in.
    return name if good and "." not in name.split("/") else _refuse("branch", name)


def _has_good_letters(name: str) -> bool:
    return name != "" and ".." not in name and all(char.isalnum() or char in ".-_" for char in name)


def _refuse(kind: str, name: str) -> str:
    raise InvalidInput(
        f"{name!r} cannot be the name of a {kind}",
        remedy="Use letters, digits, '.', '-' and '_', without '..', '.lock' at the end"
        + (", or 'main'; slashes between parts." if kind == "branch" else ", or a dot at either end."),
        name=name,
    )


class _Object:
    """A JSON object whose members are taken out one by one, so that what is left is what we do not know."""

    def __init__(self, members: dict[str, Any], path: str) -> None:
        self.rest = members
        self._path = path

    @classmethod
    def parse(cls, data: bytes, path: str) -> "_Object":
        try:
            members = json.loads(data)
        except (ValueError, RecursionError) as error:
            raise _broken(path, f"is not JSON: {error}") from error
        if not isinstance(members, dict):
            raise _broken(path, "is not a JSON object")
        return cls(members, path)

    def take(self, key: str, read: Callable[[Any], _T], **default: _T) -> _T:
        if key not in self.rest and "default" in default:
            return default["default"]
        value = self.rest.pop(key, None)
        try:
            return read(value)
        except (TypeError, ValueError) as error:
            raise _broken(self._path, f"has {value!r:.100} as {key!r}") from error


def _count(value: Any) -> int:
    if type(value) is not int or not 0 <= value < 1 << 64:
        raise TypeError
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError
    value.encode()  # JSON can hold half a character, which no file or name can
    return value


def _texts(value: Any) -> dict[str, str]:
    if not isinstance(value, dict):
        raise TypeError
    return {key: _text(each) for key, each in value.items()}


def _identifier(value: Any) -> tuple[tuple[int, str], ...]:
    pairs = value.get("version_mapping") if isinstance(value, dict) else None
    if not isinstance(pairs, list):
        raise TypeError
    return tuple((_count(version), _text(mark)) for version, mark in pairs)


def _time(value: Any) -> datetime:
    """Times have nine digits after the point; we keep six."""
    time = datetime.fromisoformat(_text(value))
    return time if time.tzinfo else time.replace(tzinfo=UTC)


def _optional(read: Callable[[Any], _T]) -> Callable[[Any], _T | None]:
    return lambda value: None if value is None else read(value)


def _stamp(time: datetime | None) -> str | None:
    return None if time is None else time.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f") + "Z"


def _dump(members: Mapping[str, Any]) -> bytes:
    return json.dumps(members, indent=2, ensure_ascii=False).encode()


def _broken(path: str, problem: str) -> Corrupt:
    return Corrupt(
        f"{path} {problem}",
        remedy="The file is damaged. Delete the tag or branch and make it again, or restore the file from a copy.",
        path=path,
    )
