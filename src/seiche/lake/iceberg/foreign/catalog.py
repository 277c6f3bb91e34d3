"""Iceberg tables whose own catalog decides about them, asked through PyIceberg."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from weakref import finalize

from pyiceberg.catalog import load_catalog
from pyiceberg.exceptions import (
    BadRequestError,
    CommitFailedException,
    ForbiddenError,
    NoSuchNamespaceError,
    NoSuchTableError,
    UnauthorizedError,
    ValidationException,
)
from pyiceberg.exceptions import ValidationError as IcebergValidationError
from pyiceberg.table import Table

from seiche.core.runtime import Runtime
from seiche.errors import InvalidInput, NotFound, PermissionDenied, Unavailable
from seiche.lake.iceberg.foreign.files import ConfinedFileIO
from seiche.lake.iceberg.foreign.sources import Found, InDoubt, Outpaced, Source
from seiche.lake.iceberg.metadata import Metadata
from seiche.lake.outside import ANYWHERE, Outside

__all__ = ["CatalogSource", "described"]

_GIVEN: Final = "catalog."
# Settings of a catalog that lead nowhere by themselves.
_HARMLESS: Final = frozenset({"type", "scope", "prefix"})
_SECRET: Final = re.compile(r"token|credential|secret|password|access-key|session|auth", re.IGNORECASE)
_PASSWORD: Final = re.compile(r"://[^/@]*:[^/@]*@")
# Answers that are a plain no: nothing was committed, and asking again would be answered the same.
_REFUSALS: Final = (BadRequestError, NotImplementedError, ValidationException, IcebergValidationError)
_FORBIDDEN: Final = (ForbiddenError, UnauthorizedError)


def described(catalog: str | Mapping[str, str], identifier: str) -> dict[str, str]:
    """What a row keeps of a catalog and of the table in it; `InvalidInput` if a secret would be kept with it."""
    given = {"name": catalog} if isinstance(catalog, str) else {str(key): str(value) for key, value in catalog.items()}
    for key, value in given.items():
        if _SECRET.search(key) or _PASSWORD.search(value):
            raise InvalidInput(
                f"{key!r} holds a secret, which does not belong into a lake that others read",
                remedy='Configure the catalog for PyIceberg (.pyiceberg.yaml) and give its name: catalog="prod".',
            )
    name = given.pop("name", "default")
    return {"catalog": name, "identifier": identifier, **{f"{_GIVEN}{key}": value for key, value in given.items()}}


@dataclass(frozen=True, slots=True)
class CatalogSource(Source):
    """A table of a catalog."""

    catalog: str
    identifier: str
    properties: Mapping[str, str]
    outside: Outside = ANYWHERE

    @classmethod
    def of(cls, source: Mapping[str, str], outside: Outside = ANYWHERE) -> "CatalogSource":
        """The source that the row of a table describes."""
        given = {key.removeprefix(_GIVEN): value for key, value in source.items() if key.startswith(_GIVEN)}
        return cls(source["catalog"], source["identifier"], given, outside)

    def current(self) -> Found:
        self._check()
        try:
            table = self._loaded()
        except (NoSuchTableError, NoSuchNamespaceError) as error:
            raise NotFound(
                f"the catalog {self.catalog!r} has no table {self.identifier}",
                remedy="Look there whether it was dropped or renamed.",
                table=self.identifier,
            ) from error
        except Exception as error:
            raise Unavailable(
                f"the catalog {self.catalog!r} cannot be asked for {self.identifier}: {type(error).__name__}: {error}",
                remedy="Look whether it is configured here and can be reached.",
                table=self.identifier,
            ) from error
        return Found(table.metadata, table.metadata_location, ConfinedFileIO(table.io, self.outside), table)

    def commit(self, found: Found, requirements: Sequence[Any], updates: Sequence[Any], runtime: Runtime) -> Metadata:
        table = found.handle
        try:
            answer = table.catalog.commit_table(table, tuple(requirements), tuple(updates))
        except CommitFailedException as error:
            raise Outpaced(str(error)) from error
        except _FORBIDDEN as error:
            raise PermissionDenied(
                f"the catalog {self.catalog!r} does not allow changes of {self.identifier}: {error}"
            ) from error
        except _REFUSALS as error:
            raise InvalidInput(
                f"the catalog {self.catalog!r} refuses the change of {self.identifier}: {error}",
                remedy="Nothing was changed there.",
            ) from error
        except Exception as error:  # whatever else it is, the commit may have been made
            raise InDoubt(f"{type(error).__name__}: {error}") from error
        made: Metadata = answer.metadata
        return made

    def _check(self) -> None:
        """`PermissionDenied` for a catalog that a row describes, and not the configuration of a server, unless all of
        it lies where the server may open files: settings say what is connected to, and what code is loaded.
        """
        if self.outside.places is not None:
            for key, value in self.properties.items():
                if key not in _HARMLESS:
                    self.outside.check(value.removeprefix("sqlite:///"))

    def _loaded(self) -> Table:
        """The table, whose catalog is closed when nobody has the table any more."""
        catalog = load_catalog(self.catalog, **self.properties)
        try:
            table = catalog.load_table(self.identifier)
        except BaseException:
            catalog.close()
            raise
        finalize(table, catalog.close)
        return table
