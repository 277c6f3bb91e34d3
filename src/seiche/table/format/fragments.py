"""The fragments of one manifest, kept as the bytes they are stored in."""

from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from operator import attrgetter, lt
from typing import Self, cast

from google.protobuf.message import DecodeError

from seiche.errors import Corrupt
from seiche.store.base import Buffer
from seiche.table.format.manifest_pb2 import DataFragment, EncodedFragments, FragmentList
from seiche.table.format.splitting import StoredFragments
from seiche.table.format.varint import varint

__all__ = ["Fragments"]

# A rope of more pieces than this is joined, so that the number of buffers in one write stays small.
_MOST_PIECES = 16
# How the field begins that a manifest has a fragment in.
_FIELD = b"\x12"
_REMEDY = "The manifest is damaged. Restore the file from a copy, or open an older version."


class Fragments:
    """An immutable list of fragments in ascending order of id: nobody assigns to its members.

    Adding fragments copies none of the old ones, nor looks at them: the pieces of the rope are shared. Fragments are
    decoded only when somebody asks for one, and the decoded messages are shared too: never change a message that came
    from here, copy it first.
    """

    __slots__ = ("_by_id", "_count", "_decoded", "_source", "has_deletions", "last_id", "pieces")

    def __init__(self, fragments: Iterable[DataFragment] = ()) -> None:
        """Take fragments in any order; equal ids are `Corrupt`."""
        ordered = _ordered(fragments)
        encoded = FragmentList(fragments=ordered).SerializeToString()
        # The stored form, ready to be written one behind the other.
        self.pieces: tuple[Buffer, ...] = (encoded,) if encoded else ()
        self._count = len(ordered)
        # The largest id, -1 if there is none.
        self.last_id = ordered[-1].id if ordered else -1
        # Whether any fragment has a deletion file.
        self.has_deletions = any(fragment.HasField("deletion_file") for fragment in ordered)
        self._decoded: tuple[DataFragment, ...] | None = ordered
        self._by_id: dict[int, DataFragment] | None = None
        self._source = ""

    @classmethod
    def from_stored(cls, stored: StoredFragments, *, has_deletions: bool, source: str = "") -> Self:
        """Take over the stored form. `has_deletions` is what the feature flags claim, `source` the file it is from."""
        made = cls.__new__(cls)
        made._source = source
        made._count = stored.total
        made.last_id = _decode_id(stored.last, source) if stored.total else -1
        made.has_deletions = has_deletions
        made.pieces = (stored.encoded,) if stored.total else ()
        made._decoded = None if stored.total else ()
        made._by_id = None
        return made

    def extended(self, new: Iterable[DataFragment]) -> "Fragments":
        """These and then `new`, whose ids must be larger than all here. Costs nothing per old fragment."""
        added = tuple(new)
        if len(added) > 1:
            added = _ordered(added)
        elif not added:
            return self
        first = added[0].id
        if first <= self.last_id:
            raise Corrupt(
                f"fragment id {first} is not above the last one, {self.last_id}", remedy=_REMEDY, fragments=[first]
            )
        made = Fragments.__new__(Fragments)
        pieces = (*self.pieces, b"".join(map(_as_stored, added)))
        made.pieces = pieces if len(pieces) <= _MOST_PIECES else (b"".join(pieces),)
        made._count = self._count + len(added)
        made.last_id = added[-1].id
        made.has_deletions = self.has_deletions
        for one in added:
            made.has_deletions |= one.HasField("deletion_file")
        made._decoded = None
        made._by_id = None
        made._source = self._source
        return made

    def replaced(self, changes: Mapping[int, DataFragment | None]) -> "Fragments":
        """With the fragments of the given ids replaced, or left out where `None`; ids that are not here are ignored.

        Only the replacements are encoded; the bytes of the others are passed on.
        """
        if not changes:
            return self
        decoded: list[DataFragment] = []
        encoded: list[bytes] = []
        current = self.decoded()  # puts them in order, which `_joined` must see
        for fragment, old in zip(current, EncodedFragments.FromString(self._joined()).fragments, strict=True):
            new = changes.get(fragment.id, fragment)
            if new is None:
                continue
            if new.id != fragment.id:
                raise Corrupt(
                    f"fragment {fragment.id} would be replaced by fragment {new.id}",
                    remedy="Whoever prepared the operation mixed them up: nothing was written.",
                    fragments=[fragment.id],
                )
            decoded.append(new)
            encoded.append(old if new is fragment else new.SerializeToString())
        made = Fragments.__new__(Fragments)
        made.pieces = (EncodedFragments(fragments=encoded).SerializeToString(),) if encoded else ()
        made._count = len(decoded)
        made.last_id = decoded[-1].id if decoded else -1
        made.has_deletions = any(fragment.HasField("deletion_file") for fragment in decoded)
        made._decoded = tuple(decoded)
        made._by_id = None
        made._source = self._source
        return made

    def get(self, fragment_id: int) -> DataFragment | None:
        """The fragment with this id, if there is one."""
        if self._by_id is None:
            self._by_id = {fragment.id: fragment for fragment in self.decoded()}
        return self._by_id.get(fragment_id)

    def ids(self) -> list[int]:
        """All ids, ascending."""
        return [fragment.id for fragment in self.decoded()]

    def decoded(self) -> tuple[DataFragment, ...]:
        """All fragments as messages, decoded once."""
        if self._decoded is None:
            try:
                decoded = tuple(FragmentList.FromString(self._joined()).fragments)
            except DecodeError as error:
                raise _undecodable(error, self._source) from error
            self._decoded = self._in_order(decoded)
        return self._decoded

    def unseen(self, known: set[bytes]) -> Iterator[DataFragment]:
        """Those whose stored bytes are not in `known`; each gets there when the next one is asked for."""
        try:
            for encoded in EncodedFragments.FromString(self._joined()).fragments:
                if encoded not in known:
                    yield DataFragment.FromString(encoded)
                    known.add(encoded)
        except DecodeError as error:
            raise _undecodable(error, self._source) from error

    def differing(self, other: "Fragments") -> Iterator[tuple[DataFragment | None, DataFragment | None]]:
        """Those that are not stored alike, by id: as one is here, and as it is there. No others are decoded."""
        here, there = self._encoded(), other._encoded()
        ours, theirs = self._by_ids(here - there), other._by_ids(there - here)
        for fragment_id in sorted(ours.keys() | theirs.keys()):
            yield ours.get(fragment_id), theirs.get(fragment_id)

    def _encoded(self) -> set[bytes]:
        return set(EncodedFragments.FromString(self._joined()).fragments)

    def _by_ids(self, encoded: set[bytes]) -> dict[int, DataFragment]:
        try:
            return {one.id: one for one in map(DataFragment.FromString, encoded)}
        except DecodeError as error:
            raise _undecodable(error, self._source) from error

    def _in_order(self, decoded: tuple[DataFragment, ...]) -> tuple[DataFragment, ...]:
        """Writers of old put rewritten fragments where the old ones had been; we sort them, as pylance does."""
        ids = [fragment.id for fragment in decoded]
        if all(map(lt, ids, ids[1:])):
            return decoded
        ordered = sorted(ids)
        for one, next_one in pairwise(ordered):
            if one == next_one:
                raise _twice(one, self._source)
        by_id = dict(zip(ids, decoded, strict=True))
        decoded = tuple(by_id[fragment_id] for fragment_id in ordered)
        self.pieces = (FragmentList(fragments=decoded).SerializeToString(),)
        self.last_id = ordered[-1]
        return decoded

    def _joined(self) -> bytes:
        # protobuf takes any buffer, only its type stubs ask for bytes.
        return cast(bytes, self.pieces[0]) if len(self.pieces) == 1 else b"".join(self.pieces)

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[DataFragment]:
        return iter(self.decoded())

    def __getitem__(self, index: int) -> DataFragment:
        return self.decoded()[index]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Fragments) and self.decoded() == other.decoded()

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Fragments({self._count}, last id {self.last_id})"


def _ordered(fragments: Iterable[DataFragment]) -> tuple[DataFragment, ...]:
    """In ascending order of id; equal ids are `Corrupt`."""
    ordered = tuple(sorted(fragments, key=attrgetter("id")))
    for one, next_one in pairwise(ordered):
        if one.id == next_one.id:
            raise _twice(one.id, "")
    return ordered


def _as_stored(fragment: DataFragment) -> bytes:
    """The fragment as it stands in a manifest; the same as a list of one, without the copy that such a list makes."""
    encoded = fragment.SerializeToString()
    return _FIELD + varint(len(encoded)) + encoded


def _decode_id(encoded: bytes, source: str) -> int:
    try:
        return DataFragment.FromString(encoded).id
    except DecodeError as error:
        raise _undecodable(error, source) from error


def _undecodable(error: DecodeError, source: str) -> Corrupt:
    return Corrupt(f"{source}: a fragment cannot be decoded: {error}", remedy=_REMEDY, path=source)


def _twice(fragment_id: int, source: str) -> Corrupt:
    where = f"{source}: " if source else ""
    return Corrupt(
        f"{where}two fragments have the id {fragment_id}", remedy=_REMEDY, path=source, fragments=[fragment_id]
    )
