"""Definitions as SQL writes them, so that the same table can be made of what is shown."""

from pyspark.sql import types as spark

from seiche.spark.names import quoted

__all__ = ["literal", "written_column"]


def literal(value: str) -> str:
    """A text in quotes."""
    escaped = value.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def written_column(field: spark.StructField, comment: str = "") -> str:
    """A column, or a field of a struct: its name, its type, and what is said of it."""
    must = "" if field.nullable else " NOT NULL"
    said = f" COMMENT {literal(comment)}" if comment else ""
    return f"{quoted(field.name)} {_type(field.dataType)}{must}{said}"


def _type(kind: spark.DataType) -> str:
    """A type; names inside of it keep their capitals."""
    if isinstance(kind, spark.ArrayType):
        return f"ARRAY<{_type(kind.elementType)}>"
    if isinstance(kind, spark.MapType):
        return f"MAP<{_type(kind.keyType)}, {_type(kind.valueType)}>"
    if isinstance(kind, spark.StructType):
        return f"STRUCT<{', '.join(map(written_column, kind.fields))}>"
    return kind.simpleString().upper()
