"""Avro files, decoded within their bounds. PyIceberg's native decoder has none: it believes every length in a file and
reads on in the memory behind it, which ends the process, or takes what lies there for a part of the file.
"""

from typing import Final

from pyiceberg.avro import file as avro_file
from pyiceberg.avro.decoder import BinaryDecoder, new_decoder

__all__ = ["BoundedDecoder", "use_bounded_decoder"]

# No number of Avro has more bits, or bytes.
_BITS: Final = 64
_BYTES: Final = 10


class BoundedDecoder(BinaryDecoder):
    """Decodes bytes and nothing behind them: a `LookupError` where they end before a value does.

    An `EOFError` comes only right behind bytes of a fixed number, as the mark at the end of a block is. PyIceberg takes
    it for the end of the file: of one that was cut off it would read fewer entries, and rows would be missing.
    """

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0
        self._mark = -1

    def tell(self) -> int:
        return self._at

    def skip(self, n: int) -> None:
        self._take(n)

    def read(self, n: int) -> bytes:
        found = self._take(n)
        self._mark = self._at
        return found

    def read_bytes(self) -> bytes:
        return self._take(self.read_int())

    def read_int(self) -> int:
        data, at = self._data, self._at
        if at == self._mark == len(data):
            raise EOFError("the end of the file")
        bits = data[at]
        if bits > 0x7F:
            bits &= 0x7F
            for shift in range(7, _BITS, 7):
                at += 1
                bits |= (data[at] & 0x7F) << shift
                if data[at] <= 0x7F:
                    break
            else:
                raise LookupError(f"the number at {self._at} has no end")
        self._at = at + 1
        return (bits >> 1) ^ -(bits & 1)

    def read_ints(self, n: int) -> tuple[int, ...]:
        """Many numbers, by the native decoder: behind their bytes it gets a zero for each, so that all of them end."""
        part = self._data[self._at : self._at + n * _BYTES]
        if n > len(part):
            raise LookupError(f"{n} numbers are expected at {self._at}, of {len(self._data)} bytes")
        native = new_decoder(part + bytes(n + 1))
        found = native.read_ints(n)
        if native.tell() > len(part):
            raise LookupError(f"one of {n} numbers at {self._at} has no end")
        self._at += native.tell()
        return found

    def skip_int(self) -> None:
        self.read_int()

    def _take(self, count: int) -> bytes:
        start, end = self._at, self._at + count
        if not start <= end <= len(self._data):
            raise LookupError(f"{count} bytes are expected at {start}, of {len(self._data)}")
        self._at = end
        return self._data[start:end]


def use_bounded_decoder() -> None:
    """Let PyIceberg decode by it, in this process, whoever asks."""
    avro_file.new_decoder = BoundedDecoder  # type: ignore[attr-defined, assignment]  # no other way in
