"""What users say in `.option(...)` of the data source."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from seiche.core.durations import moment
from seiche.errors import InvalidInput
from seiche.lake.lake import Lake, open_lake
from seiche.lake.objects.names import parts

__all__ = ["Options"]

_KNOWN = frozenset(
    {
        "lake", "path", "table", "version", "as_of", "columns", "filter", "partitions", "durability", "lease",
        "overwrite_schema", "max_rows_per_file", "max_bytes_per_file",
        "stream", "checkpointlocation", "changes", "starting_version", "on_change",
        "token", "ca", "certificate", "certificate_key", "lake_uri",
        "max_files_per_trigger", "max_rows_per_trigger", "querytag", "queryname",
    }
)  # fmt: skip
_STORAGE = "storage."
_BY_TRANSACTION = "Open a transaction: `with lake.transaction(spark=spark) as tx:`, "
# What other formats call it, and what to do here.
_ELSEWHERE = {
    "versionasof": "It is called `version` here, and is a version of the lake, or a tag.",
    "snapshot-id": "Give `version`: a version of the lake, or a tag.",
    "timestampasof": "It is called `as_of` here.",
    "as-of-timestamp": "It is called `as_of` here, as in 2030-12-31T23:59:59+01:00.",
    "overwriteschema": "It is called `overwrite_schema` here.",
    "mergeschema": "Add the columns first: ALTER TABLE ... ADD COLUMN in SQL, or `lake.table(name).add_columns(...)`.",
    "replacewhere": _BY_TRANSACTION + "`tx.delete(table, where)` and `tx.append(table, frame)` are one version then.",
    "partitionoverwritemode": _BY_TRANSACTION + "and delete what the rows replace before you append them.",
    "readchangefeed": "It is called `changes` here, and is for streams.",
    "readchangedata": "It is called `changes` here, and is for streams.",
    "startingversion": "It is called `starting_version` here: earliest, latest, a version of the lake, or a tag.",
    "ignorechanges": "`on_change` = `skip` passes over versions that change rows.",
    "skipchangecommits": "`on_change` = `skip` passes over versions that change rows.",
    "ignoredeletes": "`on_change` = `skip` passes over versions that change rows.",
    "maxfilespertrigger": "It is called `max_files_per_trigger` here.",
    "maxbytespertrigger": "Give `max_rows_per_trigger` or `max_files_per_trigger`.",
    "txnappid": _BY_TRANSACTION + "with `key=`, or `stream=`, `epoch=` and `owner=`.",
    "txnversion": _BY_TRANSACTION + "with `key=`, or `stream=`, `epoch=` and `owner=`.",
}


@dataclass(frozen=True, slots=True)
class Options:
    """The options, checked: `InvalidInput` names one that is missing, unknown or makes no sense."""

    values: Mapping[str, str]

    @classmethod
    def of(cls, given: Mapping[str, str]) -> "Options":
        """Options as Spark hands them over: names in any case."""
        values = {name.lower(): value for name, value in given.items()}
        unknown = sorted(name for name in values if name not in _KNOWN and not name.startswith(_STORAGE))
        if unknown:
            known = f"Options are {', '.join(sorted(_KNOWN))}, and storage.* for those of the store."
            raise InvalidInput(f"the option {unknown[0]!r} is unknown", remedy=_ELSEWHERE.get(unknown[0], known))
        if not (values.get("lake") or values.get("path")) or not values.get("table"):
            raise InvalidInput(
                "the options do not say which table",
                remedy='Give .option("lake", "file:///data/lake").option("table", "shop.orders").',
            )
        return cls(values)

    def refuse(self, remedies: Mapping[str, str]) -> None:
        """Raise if one of these is given, with what to do instead: passed over, other rows would be read or written
        than were meant.
        """
        for name in remedies:
            if self.values.get(name, "") not in ("", "false"):
                raise InvalidInput(f"the option {name!r} is not for this", remedy=remedies[name], option=name)

    @property
    def uri(self) -> str:
        return self.values.get("lake") or self.values["path"]

    @property
    def table(self) -> str:
        return self.values["table"]

    @property
    def storage(self) -> dict[str, Any]:
        """Options of the store, such as `storage.aws_endpoint`."""
        found = {name.removeprefix(_STORAGE): value for name, value in self.values.items() if name.startswith(_STORAGE)}
        return found | ({"durability": self.values["durability"]} if "durability" in self.values else {})

    @property
    def columns(self) -> list[str] | None:
        """Names as a JSON list, or with commas between them."""
        text = self.values.get("columns")
        if text is None:
            return None
        names = [one.strip() for one in text.split(",") if one.strip()]
        if text.lstrip().startswith("["):
            try:
                names = [str(one) for one in json.loads(text)]
            except ValueError as error:
                raise InvalidInput(
                    f"the option 'columns' is no list in JSON: {error}",
                    remedy='Write it as ["id", "name"], or id,name.',
                ) from error
        if len(set(names)) < len(names):
            raise InvalidInput(f"the option 'columns' names a column twice: {text}", remedy="Name each once.")
        return names

    def chosen(self, schema: pa.Schema) -> pa.Schema:
        """Those of a table's columns that are to be read."""
        names = self.columns or schema.names
        for name in names:
            if name not in schema.names:
                remedy = f"It has {', '.join(schema.names)}."
                raise InvalidInput(f"{self.table} has no column {name!r}", remedy=remedy, column=name)
        return pa.schema([schema.field(one) for one in names])

    def is_iceberg(self, lake: Lake) -> bool:
        """Whether the table is an Iceberg table, which other code reads and writes."""
        return lake.state().table(parts(self.table)).format == "iceberg"

    def open(self, *, writing: bool = False) -> Lake:
        """The lake: live, or at the version (a number or a tag) or time that the options name."""
        version, as_of = self.values.get("version"), self.values.get("as_of")
        if writing and (version or as_of):
            raise InvalidInput("an old version cannot be written to", remedy="Leave out `version` and `as_of`.")
        point: int | str | None = int(version) if version and version.isdecimal() else version
        if point is None and as_of is None:
            return self._connected() if self.served else open_lake(self.uri, **self.storage)
        return open_lake(self.home(), point, as_of=None if as_of is None else moment(as_of), **self.storage)

    @property
    def served(self) -> bool:
        """Whether `lake` names a server, which decides what is committed."""
        return self.uri.startswith(("grpc://", "grpcs://"))

    def home(self) -> str:
        """Where the lake is stored; of one behind a server it is asked, unless `lake_uri` says so."""
        if not self.served:
            return self.uri
        if "lake_uri" in self.values:
            return self.values["lake_uri"]
        with self._connected() as lake:
            return lake.store.uri

    def _connected(self) -> Lake:
        from seiche.service.connecting import connect

        return connect(
            self.uri,
            token=self.values.get("token", ""),
            ca=self.values.get("ca"),
            certificate=self.values.get("certificate"),
            certificate_key=self.values.get("certificate_key"),
            uri=self.values.get("lake_uri"),
            **self.storage,
        )

    def open_held(self) -> Lake:
        """The lake to read from. With the option `lease` (such as `2h`) the version that is read does not expire for
        that long, however soon this process ends; it is not given free before.
        """
        lake = self.open()
        lease = self.values.get("lease")
        return lake if lease is None else open_lake(lake.store.uri, lake.version, lease=lease, **self.storage)

    def number(self, name: str) -> int | None:
        """A positive number."""
        text = self.values.get(name)
        if text is None:
            return None
        if not text.isdecimal() or not int(text):
            raise InvalidInput(f"the option {name!r} must be a positive number, not {text!r}")
        return int(text)

    def yes(self, name: str) -> bool:
        """Whether something is asked for."""
        text = self.values.get(name, "false").lower()
        if text not in ("true", "false"):
            raise InvalidInput(f"the option {name!r} must be true or false, not {text!r}")
        return text == "true"
