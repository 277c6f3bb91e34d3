"""The place that an export goes to."""

import json
import os
from contextlib import suppress
from os import PathLike
from typing import Any, Final

from seiche.core.given import text
from seiche.core.insisting import insist
from seiche.core.runtime import SYSTEM, Runtime
from seiche.errors import AlreadyExists, Corrupt, InvalidInput, NotFound
from seiche.lake.export.copying import FOLDER
from seiche.lake.export.items import Item
from seiche.lake.export.records import Export
from seiche.lake.tree.latest import read_root
from seiche.store import open_store
from seiche.store.base import Store
from seiche.store.paths import check_new_place

__all__ = ["CLAIM", "check_address", "check_free", "claim", "is_export_root", "open_target", "put_root"]

_FULL = "Give a full path, or an address such as s3://bucket/lake."
# Whose place it is.
CLAIM: Final = f"{FOLDER}/of"


def open_target(uri: str | PathLike[str] | Store, lake: Store, runtime: Runtime = SYSTEM, **options: Any) -> Store:
    """The store at the target; `InvalidInput` if it is inside of the lake, or the other way round.

    A remote one is tried first: what is exported is to be a lake, where of two writers only one may win.
    """
    store = uri if isinstance(uri, Store) else open_store(uri, runtime=runtime, **options)
    check_new_place(store.native_uri())
    here, there = map(_place, (lake, store))
    if here.startswith(there) or there.startswith(here):
        raise InvalidInput(
            f"{store.uri} and the lake {lake.uri} lie inside of each other",
            remedy="Export to a place of its own.",
            uri=store.uri,
        )
    if not isinstance(uri, Store) and not store.lists_in_one_request:
        from seiche.store import probe

        probe(store, quick=True).require()
    return store


def _place(store: Store) -> str:
    """Where a store really is: through a link, a place inside of the lake looks as if it were elsewhere."""
    address = store.native_uri()
    return (os.path.realpath(address) if address.startswith("/") else address).rstrip("/") + "/"


def check_address(given: str | None) -> str:
    """The address that a copy will be moved to, as it stands in Iceberg's metadata; empty if it stays where it is."""
    if given is None:
        return ""
    text(given, "the address of a copy", _FULL)
    if not given.startswith("/") and "://" not in given:
        raise InvalidInput(
            f"{given!r} is no address that other engines understand",
            remedy=_FULL,
        )
    return (f"file://{given}" if given.startswith("/") else given).rstrip("/")


def check_free(target: Store, export: Export, lake_id: str) -> None:
    """`AlreadyExists` unless the place is empty, or this very export was begun there. Writes nothing."""
    found = _claimed(target)
    if found is not None:
        if found != _claim_of(export, lake_id):
            raise _taken(target, "another export was made there")
        return
    for info in target.list():
        raise _taken(target, f"it holds {info.path}")


def claim(target: Store, export: Export, lake_id: str, runtime: Runtime) -> None:
    """Make the place that of this export. Of two exports that come at once, one gets it."""
    wanted = json.dumps(_claim_of(export, lake_id), sort_keys=True).encode()

    def put() -> None:
        with suppress(AlreadyExists):
            target.put_if_absent(CLAIM, wanted)

    insist(put, runtime)
    check_free(target, export, lake_id)


def is_export_root(target: Store, version: int, root_id: str) -> bool:
    """Whether the root of the export is there, which makes a lake of it. Others may have gone on from it since."""
    with suppress(NotFound, Corrupt):
        return read_root(target, version).root_id == root_id
    return False


def put_root(target: Store, item: Item, runtime: Runtime) -> bool:
    """Put one root; `False` if there is another in its place, which is left there."""
    data = b"".join(item.chunks())

    def put() -> bool:
        try:
            target.put_if_absent(item.path, data)
        except AlreadyExists:
            return target.get(item.path) == data
        return True

    return insist(put, runtime)


def _claimed(target: Store) -> dict[str, object] | None:
    try:
        found = json.loads(target.get(CLAIM))
    except NotFound:
        return None
    except ValueError as error:
        raise _taken(target, f"{CLAIM} cannot be read") from error
    return dict(found) if isinstance(found, dict) else {}


def _claim_of(export: Export, lake_id: str) -> dict[str, object]:
    said = export.as_dict()
    return {"lake": lake_id, **{key: said[key] for key in ("name", "version", "mode", "tables", "created_at")}}


def _taken(target: Store, why: str) -> AlreadyExists:
    return AlreadyExists(
        f"{target.uri} is not empty: {why}",
        remedy="Export to an empty place, or empty this one first.",
        uri=target.uri,
    )
