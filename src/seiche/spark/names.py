"""Names as Spark reads them."""

__all__ = ["quoted"]


def quoted(name: str) -> str:
    """A name as it stands in Spark's SQL, whatever is in it."""
    return "`" + name.replace("`", "``") + "`"
