"""Tag and branch files: exact round trips, names as Lance allows them, damage named."""

import json
from datetime import UTC, datetime

import pytest

from seiche.errors import Corrupt, InvalidInput
from seiche.table.format import refs
from seiche.table.format.refs import Branch, Tag

TAG = Tag(
    version=7,
    branch="dev/x",
    created_at=datetime(2026, 1, 2, 3, 4, 5, 678901, UTC),
    updated_at=datetime(2026, 2, 3, tzinfo=UTC),
    manifest_size=369,
    metadata={"a": "ä"},
)
BRANCH = Branch(
    parent_version=2,
    parent_branch="dev/x",
    identifier=((1, "179faabc06594f3fa4b5f18b03492b5b"), (2, "59253cfb4b75483d95b8ed8a130cd03b")),
    created_at=1794737619,
    manifest_size=457,
    metadata={"k": "v"},
)


def test_round_trips() -> None:
    assert Tag.decode(TAG.encode(), path="t") == TAG
    assert Branch.decode(BRANCH.encode(), path="b") == BRANCH
    assert Tag.decode(Tag(version=1).encode(), path="t") == Tag(version=1)
    assert Branch.decode(Branch(parent_version=1, identifier=()).encode(), path="b").parent_branch is None


def test_the_keys_are_those_of_pylance() -> None:
    assert list(json.loads(TAG.encode())) == ["branch", "version", "createdAt", "updatedAt", "manifestSize", "metadata"]
    assert json.loads(TAG.encode())["createdAt"] == "2026-01-02T03:04:05.678901Z"
    assert list(json.loads(BRANCH.encode())) == [
        *["parentBranch", "identifier", "parentVersion", "createAt", "manifestSize", "metadata"]
    ]
    assert json.loads(BRANCH.encode())["identifier"]["version_mapping"][1] == list(BRANCH.identifier[1])


def test_nanoseconds_are_read_and_cut() -> None:
    stored = b'{"version": 1, "createdAt": "2026-11-15T10:13:39.956378602Z"}'
    assert Tag.decode(stored, path="t").created_at == datetime(2026, 11, 15, 10, 13, 39, 956378, UTC)


def test_old_files_with_fewer_keys_are_read() -> None:
    assert Tag.decode(b'{"version": 3, "manifestSize": 5}', path="t") == Tag(version=3, manifest_size=5)


def test_keys_of_newer_writers_survive() -> None:
    stored = json.loads(TAG.encode()) | {"newer": {"x": [1]}}
    tag = Tag.decode(json.dumps(stored).encode(), path="t")
    assert tag.extra == {"newer": {"x": [1]}}
    assert json.loads(tag.encode()) == stored


@pytest.mark.parametrize(
    "data",
    [
        *[
            b"",
            b"{",
            b"[]",
            b"3",
            b"null",
            b"\xff",
            b"{}",
            b'{"version": "1"}',
            b'{"version": -1}',
            b'{"version": true}',
        ],
        *[
            b'{"version": 1.0}',
            b'{"version": 18446744073709551616}',
            b'{"version": 1, "branch": 3}',
            b'{"version": 1, "branch": "\\ud800"}',
        ],
        *[b'{"version": 1, "createdAt": "yesterday"}', b'{"version": 1, "createdAt": 3}'],
        *[b'{"version": 1, "metadata": {"a": 1}}', b'{"version": 1, "metadata": []}', b'{"version": 1' + b"1" * 5000],
        *[b"[" * 100_000, b'{"version": ' + b"[" * 100_000],
    ],
)
def test_damaged_tags_are_corrupt_and_named(data: bytes) -> None:
    with pytest.raises(Corrupt) as caught:
        Tag.decode(data, path="_refs/tags/x.json")
    assert caught.value.path == "_refs/tags/x.json"
    assert len(str(caught.value)) < 1000


@pytest.mark.parametrize(
    "identifier",
    [None, 3, [], {}, {"version_mapping": 3}, {"version_mapping": [[1]]}, {"version_mapping": [["a", "b"]]}],
)
def test_damaged_branches_are_corrupt(identifier: object) -> None:
    stored = json.loads(BRANCH.encode()) | {"identifier": identifier}
    with pytest.raises(Corrupt):
        Branch.decode(json.dumps(stored).encode(), path="b")


def test_paths() -> None:
    assert refs.tag_path("v1.0") == "_refs/tags/v1.0.json"
    assert refs.branch_path("dev/x") == "_refs/branches/dev%2Fx.json"
    assert refs.branch_path("ä") == "_refs/branches/%C3%A4.json"
    assert refs.branch_root("dev/x") == "tree/dev/x"
    for name in ("v1.0", "dev/x", "ä", "a-b_c"):
        assert refs.name_of(refs.branch_path(name)) == name
    assert refs.name_of("_refs/tags/x.tmp") is None
    assert refs.name_of("_refs/tags/.json") is None


# Tried with pylance 14.0.2; the interop test asks it again.
BAD_FOR_BOTH = [
    "",
    "a b",
    "a%b",
    "..",
    "a..b",
    "a/",
    "/a",
    "a//b",
    "x.lock",
    "a\\b",
    "a:b",
    "a@b",
    "a/b.lock",
    "a/../b",
]
TAG_NAMES = dict.fromkeys([*BAD_FOR_BOTH, "a/b", ".a", "a."], False)
TAG_NAMES |= dict.fromkeys(["a", "ä", "A_-.9", "main", "-a", "_", "9"], True)
BRANCH_NAMES = dict.fromkeys([*BAD_FOR_BOTH, "main"], False)
BRANCH_NAMES |= dict.fromkeys(["a", "ä", "A_-.9", "-a", "_", "9", "a/b", ".a", "a."], True)


@pytest.mark.parametrize(("name", "good"), TAG_NAMES.items())
def test_names_of_tags(name: str, good: bool) -> None:
    if good:
        assert refs.check_tag_name(name) == name
    else:
        with pytest.raises(InvalidInput):
            refs.check_tag_name(name)


@pytest.mark.parametrize(("name", "good"), [*BRANCH_NAMES.items(), (".", False), ("a/./b", False)])
def test_names_of_branches(name: str, good: bool) -> None:
    if good:
        assert refs.check_branch_name(name) == name
    else:
        with pytest.raises(InvalidInput):
            refs.check_branch_name(name)
