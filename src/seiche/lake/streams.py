"""Streams: exactly-once by remembering, in the tree, the last epoch that was committed and by whom."""

from dataclasses import dataclass

from seiche.core.given import number, text
from seiche.errors import IncompatibleConflict, InvalidInput
from seiche.lake.objects import rows
from seiche.lake.objects.keys import stream_key
from seiche.lake.objects.rows import StreamRow
from seiche.lake.state import State

__all__ = ["StreamClaim"]

# How many earlier owners of a stream are remembered. A zombie that slept through more takeovers than this is gone.
_RETIRED = 100


@dataclass(frozen=True, slots=True)
class StreamClaim:
    """A transaction that is epoch `epoch` of a stream, written by the run `owner`.

    An owner's epochs ascend. Whoever commits a higher epoch under another name takes the stream over; from then on the
    earlier owner is refused, however late it wakes up.
    """

    stream: str
    epoch: int
    owner: str

    def __post_init__(self) -> None:
        text(self.stream, "the name of a stream")
        text(self.owner, "the owner of a stream")
        number(self.epoch, "an epoch", "Give whole numbers that count up from 0.")
        if not self.stream or not 0 <= self.epoch < 1 << 63:
            raise InvalidInput(
                f"stream {self.stream!r}, epoch {self.epoch}: a stream has a name, and epochs count from 0 up to"
                " 2^63 - 1",
                remedy="Give `stream=` and `epoch=` together.",
            )

    @property
    def key(self) -> bytes:
        return stream_key(self.stream)

    def find(self, state: State) -> StreamRow | None:
        """The last epoch of the stream."""
        value = state.get(self.key)
        return None if value is None else rows.decode(value, StreamRow)

    def already_in(self, state: State) -> StreamRow | None:
        """The row, if this very epoch, or a later one of the same owner, has been committed; `None` if it may be now.

        Raises for a zombie, and for a new owner that would go back: that is not a repetition but somebody else's work.
        """
        last = self.find(state)
        if last is None:
            return None
        if last.owner == self.owner:
            return last if self.epoch <= last.epoch else None
        if self.owner in last.retired:
            raise IncompatibleConflict(
                f"stream {self.stream!r}: {self.owner!r} was replaced by {last.owner!r}, which has committed epoch"
                f" {last.epoch}.",
                remedy="Nothing was written. This writer is a leftover: stop it.",
                stream=self.stream,
                version=last.version,
                owner=last.owner,
            )
        if self.epoch <= last.epoch:
            raise InvalidInput(
                f"stream {self.stream!r}: {self.owner!r} wants to commit epoch {self.epoch}, but {last.owner!r} has"
                f" committed epoch {last.epoch}.",
                remedy=f"Nothing was written. Go on from epoch {last.epoch + 1}, or use another stream name.",
                stream=self.stream,
                epoch=last.epoch,
                owner=last.owner,
            )
        return None

    def row(self, state: State, version: int, transaction: str) -> bytes:
        """What is remembered once this is committed as `version`."""
        last = self.find(state)
        retired: tuple[str, ...] = ()
        if last is not None:
            retired = last.retired if last.owner == self.owner else (*last.retired, last.owner)[-_RETIRED:]
        row = StreamRow(owner=self.owner, epoch=self.epoch, version=version, transaction=transaction, retired=retired)
        return rows.encode(row)
