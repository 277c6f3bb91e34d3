"""CALL seiche.procedure(...): what a lake can do besides statements."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from seiche.errors import InvalidInput
from seiche.lake.objects.names import Name, parts
from seiche.spark.maintenance import compact, create_index
from seiche.spark.sql.listing import Listing
from seiche.spark.sql.relations import qualified, table
from seiche.spark.sql.statements import Call
from seiche.spark.transaction import SparkTransaction

if TYPE_CHECKING:
    from seiche.spark.lake import SparkLake

__all__ = ["PROCEDURES", "Procedure", "arguments_of", "clean_up", "compacted", "procedure_of", "table_named"]

_FLAGS: Final = frozenset({"deep", "dry_run", "repair", "replace"})


@dataclass(frozen=True, slots=True)
class Procedure:
    """A procedure: the names of its arguments in order, those that it must be given first.

    One of a `table` works inside a transaction; any other is decided by itself, and has no place in one.
    """

    parameters: tuple[str, ...]
    required: int
    on_lake: "Callable[[SparkLake, dict[str, Any]], Listing] | None" = None
    on_table: Callable[[SparkTransaction, dict[str, Any]], Listing] | None = None


def procedure_of(call: Call) -> Procedure:
    """The procedure of this name; `InvalidInput` if there is none."""
    found = PROCEDURES.get(call.procedure)
    if found is None:
        raise InvalidInput(
            f"there is no procedure seiche.{call.procedure}", remedy=f"There are {', '.join(PROCEDURES)}."
        )
    return found


def arguments_of(call: Call) -> dict[str, Any]:
    """The arguments by name; `InvalidInput` for one that the procedure does not have, and for one that is missing."""
    procedure = procedure_of(call)
    shown = f"seiche.{call.procedure}({', '.join(procedure.parameters)})"
    if len(call.arguments) > len(procedure.parameters):
        raise InvalidInput(
            f"{shown} has no room for {len(call.arguments)} arguments", remedy="Name them: name => value."
        )
    given = dict(zip(procedure.parameters, call.arguments, strict=False))
    for name, value in call.named.items():
        if name not in procedure.parameters:
            raise InvalidInput(f"{shown} has no argument {name}", remedy="Check its name.")
        if name in given:
            raise InvalidInput(f"{shown}: {name} is given twice", remedy="Give it once.")
        given[name] = value
    missing = [name for name in procedure.parameters[: procedure.required] if given.get(name) is None]
    if missing:
        raise InvalidInput(f"{shown} needs {', '.join(missing)}", remedy="Give it as name => value.")
    for name, value in given.items():
        # A text is true to Python whatever it says, and repair => 'no' would repair.
        if name in _FLAGS and not isinstance(value, bool | None):
            raise InvalidInput(f"{shown}: {name} cannot be {value!r}", remedy="It is true or false, without quotes.")
    return {name: value for name, value in given.items() if value is not None}


def _rollback(with_spark: "SparkLake", given: dict[str, Any]) -> Listing:
    if given.pop("dry_run", False):
        found = with_spark.lake.rollback(given.pop("to"), dry_run=True, **given)
        return Listing("change string", tuple((str(one),) for one in found.objects))
    return Listing("version bigint", ((with_spark.lake.rollback(given.pop("to"), **given),),))


def _tag(with_spark: "SparkLake", given: dict[str, Any]) -> Listing:
    return Listing(
        "tag string, version bigint", ((given["name"], with_spark.lake.tag(given["name"], given.get("version"))),)
    )


def _untag(with_spark: "SparkLake", given: dict[str, Any]) -> Listing:
    with_spark.lake.untag(given["name"])
    return Listing("tag string", ((given["name"],),))


def _export(with_spark: "SparkLake", given: dict[str, Any]) -> Listing:
    made = with_spark.export(given.pop("name"), given.pop("target"), **given)
    return Listing("export string, version bigint, location string", ((made.name, made.version, made.location),))


def _expire(with_spark: "SparkLake", given: dict[str, Any]) -> Listing:
    done = with_spark.lake.expire(**given)
    return Listing("done boolean, versions string, kept bigint", ((done.done, str(done.versions), len(done.kept)),))


def _gc(with_spark: "SparkLake", given: dict[str, Any]) -> Listing:
    return clean_up(with_spark, **given)


def clean_up(with_spark: "SparkLake", **options: Any) -> Listing:
    """Clear away files that no kept version needs, or see what would go."""
    done = with_spark.gc(**options)
    columns = "done boolean, files bigint, unneeded bigint, moved bigint, removed bigint, waiting_for string"
    row = (done.done, done.files, len(done.unneeded), len(done.moved), done.removed, done.waiting_for)
    return Listing(columns, (row,))


def _fsck(with_spark: "SparkLake", given: dict[str, Any]) -> Listing:
    found = with_spark.lake.fsck(**given)
    columns = "severity string, kind string, path string, message string, remedy string, repaired boolean"
    rows = ((one.severity, one.kind, one.path, one.message, one.remedy, one.repaired) for one in found.problems)
    return Listing(columns, tuple(rows))


def compacted(tx: SparkTransaction, name: Name, **options: Any) -> Listing:
    """Put small fragments together: a task of Spark for each group, as part of the transaction."""
    done = compact(tx.session, table(tx, name), **options)
    return Listing("changed boolean, files bigint", ((done.changed, done.files),))


def _compact(tx: SparkTransaction, given: dict[str, Any]) -> Listing:
    return compacted(tx, given.pop("table"), **given)


def _create_index(tx: SparkTransaction, given: dict[str, Any]) -> Listing:
    made = create_index(tx.session, table(tx, given.pop("table")), given.pop("column"), **given)
    return Listing("changed boolean, rows bigint", ((made.changed, made.rows),))


PROCEDURES: Final[Mapping[str, Procedure]] = MappingProxyType(
    {
        "rollback": Procedure(("to", "expected_version", "dry_run", "tables"), 1, _rollback),
        "tag": Procedure(("name", "version"), 1, _tag),
        "untag": Procedure(("name",), 1, _untag),
        "export": Procedure(("name", "target", "version", "mode", "tables"), 2, _export),
        "expire": Procedure(("older_than", "keep", "dry_run"), 0, _expire),
        "gc": Procedure(("dry_run", "grace", "window"), 0, _gc),
        "fsck": Procedure(("repair", "deep"), 0, _fsck),
        "compact": Procedure(("table", "target_rows_per_fragment"), 1, None, _compact),
        "create_index": Procedure(("table", "column", "index_type", "name", "replace"), 2, None, _create_index),
    }
)


def table_named(given: dict[str, Any], namespace: tuple[str, ...]) -> dict[str, Any]:
    """The arguments, with the whole name of the table."""
    return {**given, "table": qualified(parts(given["table"], what="table"), namespace)}
