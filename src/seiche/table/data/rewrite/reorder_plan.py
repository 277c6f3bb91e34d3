"""By what rows are sorted."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from seiche.errors import InvalidInput

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Direction", "Order", "SortKey"]

Direction: TypeAlias = Literal["ascending", "descending"]
# A column, with the direction if it is not ascending.
SortKey: TypeAlias = str | tuple[str, str]
_DIRECTIONS = ("ascending", "descending")


@dataclass(frozen=True, slots=True)
class Order:
    """Columns to sort by, the first one counting most. Nulls come last; rows that are equal stay as they are."""

    keys: tuple[tuple[str, Direction], ...]

    @classmethod
    def by(cls, keys: SortKey | Iterable[SortKey]) -> "Order":
        """The order that a caller asks for: by a column, by a column with a direction, or by several of these."""
        single = isinstance(keys, str) or (isinstance(keys, tuple) and len(keys) == 2 and keys[1] in _DIRECTIONS)
        several: object = [keys] if single else keys
        made = tuple(map(_key, several if isinstance(several, Iterable) else [several]))
        if not made:
            raise InvalidInput(
                "no column to sort by is given",
                remedy="Name one, as in `by='day'`, or several with directions: `by=[('day', 'descending'), 'id']`.",
            )
        if len({name for name, _ in made}) < len(made):
            names = [name for name, _ in made]
            raise InvalidInput(
                f"a column to sort by is named twice: {', '.join(names)}",
                remedy="Name each once: where it stands first, it has decided already.",
                columns=names,
            )
        return cls(made)

    @property
    def columns(self) -> list[str]:
        return [name for name, _ in self.keys]

    def check(self, schema: "pa.Schema") -> None:
        """`InvalidInput` if one of the columns does not exist, or has values that are neither less nor more."""
        import pyarrow as pa

        for name in self.columns:
            if name not in schema.names:
                raise InvalidInput(
                    f"the table has no column {name!r} to sort by",
                    remedy=f"It has {', '.join(map(repr, schema.names))}.",
                    column=name,
                )
            kind = schema.field(name).type
            if isinstance(kind, pa.BaseExtensionType):
                kind = kind.storage_type
            if pa.types.is_nested(kind) or pa.types.is_null(kind):
                raise InvalidInput(
                    f"rows cannot be sorted by column {name!r} of type {kind}",
                    remedy="Sort by columns of single values.",
                    column=name,
                )


def _key(given: SortKey) -> tuple[str, Direction]:
    pair: object = (given, "ascending") if isinstance(given, str) else given
    if not isinstance(pair, tuple) or len(pair) != 2 or not isinstance(pair[0], str) or pair[1] not in _DIRECTIONS:
        raise InvalidInput(
            f"rows cannot be sorted by {given!r}",
            remedy='Give a column, or a pair such as ("total", "descending").',
        )
    return pair[0], "descending" if pair[1] == "descending" else "ascending"
