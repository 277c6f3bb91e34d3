"""What users say in `.option(...)` of the data source."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from seiche.core.durations import moment
from seiche.errors import InvalidInput
from seiche.lake.lake import Lake, open_lake

__all__ = ["Options"]

_KNOWN = frozenset(
    {
        "lake", "path", "table", "version", "as_of", "columns", "filter", "partitions", "durability", "lease",
        "overwrite_schema", "max_rows_per_file", "max_bytes_per_file",
        "stream", "checkpointlocation", "changes", "starting_version", "on_change",
        "token", "ca", "lake_uri",
        "max_files_per_trigger", "max_rows_per_trigger", "querytag", "queryname",
    }
)  # fmt: skip
_STORAGE = "storage."


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
            raise InvalidInput(
                f"the option {unknown[0]!r} is unknown",
                remedy=f"Options are {', '.join(sorted(_KNOWN))}, and storage.* for those of the store.",
            )
        if not (values.get("lake") or values.get("path")) or not values.get("table"):
            raise InvalidInput(
                "the options do not say which table",
                remedy='Give .option("lake", "file:///data/lake").option("table", "shop.orders").',
            )
        return cls(values)

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
        if text.lstrip().startswith("["):
            return [str(one) for one in json.loads(text)]
        return [one.strip() for one in text.split(",") if one.strip()]

    def open(self, *, writing: bool = False) -> Lake:
        """The lake: live, or at the version (a number or a tag) or time that the options name."""
        version, as_of = self.values.get("version"), self.values.get("as_of")
        if writing and (version or as_of):
            raise InvalidInput("an old version cannot be written to", remedy="Leave out `version` and `as_of`.")
        point: int | str | None = int(version) if version and version.isdigit() else version
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
        from seiche.service.client import connect

        token, ca = self.values.get("token", ""), self.values.get("ca")
        return connect(self.uri, token=token, ca=ca, uri=self.values.get("lake_uri"), **self.storage)

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
        if not text.isdigit() or not int(text):
            raise InvalidInput(f"the option {name!r} must be a positive number, not {text!r}")
        return int(text)

    def yes(self, name: str) -> bool:
        """Whether something is asked for."""
        text = self.values.get(name, "false").lower()
        if text not in ("true", "false"):
            raise InvalidInput(f"the option {name!r} must be true or false, not {text!r}")
        return text == "true"
