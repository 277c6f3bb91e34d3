"""Sets of versions, most of which follow each other."""

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

__all__ = ["NONE", "Ranges"]


@dataclass(frozen=True, slots=True)
class Ranges:
    """A set of numbers from 0 on, kept as the spans it consists of: ascending, apart from each other, ends excluded."""

    spans: tuple[tuple[int, int], ...] = ()

    @classmethod
    def of(cls, numbers: Iterable[int]) -> "Ranges":
        """The set of these numbers, in any order."""
        return cls._joined((number, number + 1) for number in numbers)

    @classmethod
    def parse(cls, text: str) -> "Ranges":
        """What `str` made: `0-41,43`; `ValueError` if it is anything else."""
        spans = []
        for part in filter(None, text.split(",")):
            first, mark, last = part.partition("-")
            spans.append((int(first), int(last if mark else first) + 1))
        if any(start < 0 or start >= stop for start, stop in spans):
            raise ValueError(f"{text!r} is not a set of versions")
        return cls._joined(spans)

    @classmethod
    def _joined(cls, spans: Iterable[tuple[int, int]]) -> "Ranges":
        joined: list[tuple[int, int]] = []
        for start, stop in sorted(spans):
            if joined and start <= joined[-1][1]:
                joined[-1] = joined[-1][0], max(stop, joined[-1][1])
            else:
                joined.append((start, stop))
        return cls(tuple(joined))

    def __or__(self, other: "Ranges") -> "Ranges":
        return self._joined((*self.spans, *other.spans))

    def __sub__(self, other: "Ranges") -> "Ranges":
        """The numbers that are not in the other set. Goes by the spans, however many numbers there are in them."""
        left: list[tuple[int, int]] = []
        for start, stop in self.spans:
            at = start
            for first, last in other.spans[max(0, other._before(start)) :]:
                if first >= stop:
                    break
                if at < first:
                    left.append((at, first))
                at = max(at, last)
            if at < stop:
                left.append((at, stop))
        return Ranges(tuple(left))

    def __contains__(self, number: object) -> bool:
        if not isinstance(number, int):
            return False
        at = self._before(number)
        return at >= 0 and number < self.spans[at][1]

    def _before(self, number: int) -> int:
        """The place of the last span that begins at the number or before it, -1 if there is none."""
        return bisect_right(self.spans, number, key=lambda span: span[0]) - 1

    def __iter__(self) -> Iterator[int]:
        return (number for start, stop in self.spans for number in range(start, stop))

    def __len__(self) -> int:
        return sum(stop - start for start, stop in self.spans)

    def missing(self, stop: int) -> Iterator[int]:
        """The numbers below `stop` that are not in it, ascending."""
        at = 0
        for first, last in self.spans:
            yield from range(at, min(first, stop))
            at = last
        yield from range(at, stop)

    def __str__(self) -> str:
        return ",".join(f"{start}-{stop - 1}" if stop - start > 1 else str(start) for start, stop in self.spans)


NONE = Ranges()
