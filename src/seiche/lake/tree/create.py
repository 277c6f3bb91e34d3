"""Version 0."""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from seiche.core.given import number, wrong
from seiche.core.runtime import SYSTEM, Runtime
from seiche.errors import AlreadyExists, InvalidInput, NotFound
from seiche.lake.tree import definition
from seiche.lake.tree.definition import LakeDefinition
from seiche.lake.tree.latest import latest_root, write_hint
from seiche.lake.tree.node import EMPTY
from seiche.lake.tree.root import Root, millis
from seiche.lake.tree.swap import Lost, publish, stage
from seiche.store.base import Store

__all__ = ["create_lake", "known_settings"]


def create_lake(store: Store, *, runtime: Runtime = SYSTEM, **settings: Any) -> tuple[Root, LakeDefinition]:
    """Publish version 0 of a new, empty lake; `settings` are fields of `LakeDefinition`.

    Of any number of creators exactly one returns; the others get `AlreadyExists`, and what is there was not touched. A
    store with any root in it holds a lake, even if its version 0 is missing: it is never created over.
    """
    made = LakeDefinition(id=str(runtime.uuid()), **settings)
    try:
        raise _taken(store, latest_root(store))
    except NotFound:
        pass
    where, files = definition.stow(made, runtime)
    stage(store, files, runtime=runtime)
    root = Root(
        version=0,
        root_id=str(runtime.uuid()),
        node=EMPTY,
        definition=where,
        created_at_millis=millis(runtime.clock.now()),
    )
    outcome = publish(store, root, None, order=made.order, runtime=runtime)
    if isinstance(outcome, Lost):
        raise _taken(store, outcome.winner)
    write_hint(store, 0)
    return root, made


def known_settings(settings: object) -> Mapping[str, Any]:
    """The settings that were chosen for a new lake; `InvalidInput` for an unknown one, or one of the wrong type."""
    known = {one.name: one for one in fields(LakeDefinition) if one.name not in ("id", "origin")}
    remedy = f"Settings are {', '.join(known)}."
    if settings is None:
        return {}
    if not isinstance(settings, Mapping):
        raise wrong("settings", settings, f"Give them by name. {remedy}")
    for name, value in settings.items():
        if name not in known:
            raise InvalidInput(f"a lake has no setting {name!r}", remedy=remedy, setting=name)
        if known[name].type is int:
            number(value, f"the setting {name}", "Give a whole number.")
    try:
        LakeDefinition(id="", **settings).encode()
    except (AttributeError, TypeError, ValueError) as error:
        raise InvalidInput(f"a lake cannot have these settings: {error}", remedy=remedy) from error
    return settings


def _taken(store: Store, root: Root) -> AlreadyExists:
    return AlreadyExists(
        f"{store.uri} already holds a lake",
        remedy="Open it, or choose another address.",
        uri=store.uri,
        version=root.version,
    )
