"""How many of something, in words."""

__all__ = ["counted"]


def counted(count: int, what: str) -> str:
    """So many of something: `1 file`, `2 files`."""
    return f"{count} {what}{'' if count == 1 else 's'}"
