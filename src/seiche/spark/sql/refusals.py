"""How a statement is refused: by the name of what is not understood, and where it stands."""

from seiche.errors import InvalidInput

__all__ = ["place", "refusal"]

_REMEDY = "Nothing was done, and a transaction that is open goes on."


def place(text: str, at: int) -> str:
    """Where in a statement something stands, for people."""
    line = text.count("\n", 0, at) + 1
    column = at - (text.rfind("\n", 0, at) + 1) + 1
    return f"line {line}, column {column}"


def refusal(text: str, at: int, what: str, remedy: str = "") -> InvalidInput:
    """The error for something in `text` that is not understood; `what` says what it is."""
    return InvalidInput(
        f"{what}, at {place(text, at)}", remedy=f"{remedy} {_REMEDY}".strip(), statement=text, position=at
    )
