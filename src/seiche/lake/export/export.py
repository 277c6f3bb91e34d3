"""Copying a version of a lake to another place, where it is a lake of its own.

    record it in the lake    from now on nothing that it needs goes away
    claim the place          nobody else writes there
    copy all files           hashed, in parallel, gone on with after a crash
    read all back            nothing is believed
    put the roots            the newest one makes it a lake, those of tags follow
    record that it is done

Whatever happens in between, the lake is as it was, the place holds no lake or a whole one, and running the same export
again finishes it.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from os import PathLike
from typing import TYPE_CHECKING, Any

from seiche.errors import AlreadyExists, InvalidInput, NotFound, PermissionDenied, SeicheError
from seiche.lake.export import copying
from seiche.lake.export.contents import Contents, check_exportable, contents, export_root_id
from seiche.lake.export.records import Beginning, Export, Finishing, Forgetting, check_mode, find_export, remembered
from seiche.lake.export.target import check_address, check_free, claim, is_export_root, open_target, put_root
from seiche.lake.history.tags import Point, check_tag_name, version_of
from seiche.lake.objects.names import text
from seiche.lake.publish import Publisher
from seiche.lake.states import States
from seiche.lake.tree.latest import write_hint, write_oldest
from seiche.lake.tree.names import root_name
from seiche.store.base import Store

if TYPE_CHECKING:
    from seiche.lake.history.verbs import HistoryVerbs

__all__ = ["export_lake"]


def export_lake(
    lake: "HistoryVerbs",
    name: str,
    target: str | PathLike[str] | Store,
    version: Point | None = None,
    *,
    mode: str = "full",
    tables: Sequence[str | Sequence[str]] | None = None,
    address: str | None = None,
    progress: copying.Progress = lambda _what, _done: None,
    carrier: copying.Carrier | None = None,
    **options: Any,
) -> Export:
    """Make an export, or finish one that was begun; returns its record. See `lake.export`.

    `carrier` moves the bytes; threads of this process, if it is not given.
    """
    states = lake.states
    store = open_target(target, states.store, states.runtime, **options)
    wanted = replace(
        _wanted(states, check_tag_name(name, what="name of an export"), store, version, mode, tables),
        address=check_address(address),
    )
    begun = find_export(states.latest(), name)
    if begun is not None:
        _check_same(begun, wanted, by_number=version is not None)
        if begun.done:
            return begun
    lake_id = states.latest().definition.id
    export = wanted if begun is None else begun
    check_free(store, export, lake_id)
    if begun is None:
        check_exportable(states, export)
        latest = states.latest().version
        lake.decide(Beginning(str(states.runtime.uuid()), latest, export=export))
        export = remembered(states.latest(), export)
    try:
        claim(store, export, lake_id, states.runtime)
    except (AlreadyExists, InvalidInput, PermissionDenied) as error:
        # Nothing is there yet of what was just begun, and the next attempt goes elsewhere: a record of it would take
        # the name, and keep the version. One that was begun earlier may have copied much.
        if begun is None or isinstance(error, AlreadyExists):
            with suppress(NotFound):  # somebody has forgotten it already, and may have begun another under its name
                lake.decide(Forgetting(str(states.runtime.uuid()), states.latest().version, name=name, export=export))
        raise
    _carry_out(states, export, store, progress, carrier)
    lake.decide(Finishing(str(states.runtime.uuid()), states.latest().version, export=export))
    return replace(export, done=True)


def _wanted(
    states: States,
    name: str,
    store: Store,
    version: Point | None,
    mode: str,
    tables: Sequence[str | Sequence[str]] | None,
) -> Export:
    kind, names = check_mode(mode, tables)
    number = states.latest().version if version is None else version_of(states, version)
    return Export(
        name=name,
        version=number,
        location=store.uri,
        mode=kind,
        tables=names,
        tags={},
        created_at=_whole_millis(states.runtime.clock.now()),
        done=False,
    )


def _carry_out(
    states: States, export: Export, store: Store, progress: copying.Progress, carrier: copying.Carrier | None
) -> None:
    runtime = states.runtime
    root = states.at(export.version).root
    is_lake = is_export_root(store, export.version, export_root_id(root, export.name))
    if is_lake and all(store.exists(root_name(version)) for version in range(export.versions[0], export.version)):
        return
    progress("looking at versions", 0)
    found = contents(states, export, store)
    if not is_lake:  # otherwise somebody may have gone on from it, and cleared away what is not needed there any more
        publisher = Publisher(states.store, runtime)
        states.store.in_parallel(publisher.publish, found.referred)
        files = copying.copy_files(found.items, store, runtime, progress, carrier)
        copying.write_list([*files, *map(copying.hashed, found.roots)], store, runtime)
        copying.verify(files, store, runtime, progress, carrier)
    _make_visible(found, export, store, states)
    with suppress(SeicheError):  # the export is complete; what is left of the parts is of no use, and no harm
        copying.forget_parts(store)


def _make_visible(found: Contents, export: Export, store: Store, states: States) -> None:
    """Newest first: the first root makes it a lake, and that must be at its version from the beginning.

    Those of tags follow in descending order, so that there is never a gap below the newest. All hints may be missing.
    """
    *earlier, newest = found.roots
    for table in found.tables:
        with suppress(SeicheError):  # a hint only speeds readers up
            table.hint(store)
    if not put_root(store, newest, states.runtime):
        raise AlreadyExists(
            f"{store.uri} holds another root {newest.path}", remedy="Export to another place.", uri=store.uri
        )
    write_hint(store, export.version)
    for one in reversed(earlier):
        put_root(store, one, states.runtime)  # what is there by now may have expired since
    write_oldest(store, export.versions[0])


def _check_same(begun: Export, wanted: Export, *, by_number: bool) -> None:
    """`AlreadyExists` if the name stands for another export, or for one that was finished some time ago."""
    same = all(getattr(begun, one) == getattr(wanted, one) for one in ("location", "mode", "tables", "address"))
    if by_number and begun.version != wanted.version:
        same = False
    if same and (not begun.done or by_number):
        return
    what = f"of version {begun.version} to {begun.location}, {begun.mode}"
    if begun.tables is not None:
        what += f" of {', '.join(map(text, begun.tables))}"
    state = "finished" if begun.done else "not finished yet"
    raise AlreadyExists(
        f"there is an export {begun.name!r} already: {what}, {state}",
        remedy="Choose another name. To finish it, say the same as then; `lake.unexport(name)` forgets it.",
        export=begun.name,
        version=begun.version,
    )


def _whole_millis(time: datetime) -> datetime:
    """The time as precisely as the record of an export keeps it."""
    return time.replace(microsecond=time.microsecond // 1000 * 1000)
