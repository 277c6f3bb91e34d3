"""Operations that change no content: a transaction commits them behind its one change of content.

If a later statement changed the content, it may have undone a part of them. That part must not come back when they are
committed behind it, nor end up on another column that has been given the same field id since.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace

from seiche.table.format.manifest import Manifest
from seiche.table.operations import Operation, Overwrite, ReserveFragments, Restore, Rewrite, UpdateConfig, UpdateMap

__all__ = ["left_after"]


def left_after(followers: Iterable[Operation], content: Operation, running: Manifest) -> Iterator[Operation]:
    """What is left of them after a change of content that made `running`.

    A compaction is not left: it has become part of the change of content. An index is, though it may cover less by now,
    which is worked out at the end.
    """
    if isinstance(content, Restore):
        return  # everything is what it was at that version
    for one in followers:
        if isinstance(one, UpdateConfig):
            yield from _settings(one, content, running)
        elif not isinstance(one, Rewrite | ReserveFragments):
            yield one


def _settings(update: UpdateConfig, content: Operation, running: Manifest) -> Iterator[UpdateConfig]:
    config, schema, fields = update.config_updates, update.schema_metadata_updates, update.field_metadata_updates
    if isinstance(content, Overwrite):
        # The schema is another one, with metadata of its own, whatever the numbers of its columns.
        schema, fields = None, {}
        if config is not None:
            config = UpdateMap({**config.entries, **content.config_upsert_values}, config.replace)
    known = {field.id for field in running.header.fields}
    fields = {number: changes for number, changes in fields.items() if number in known}
    left = replace(update, config_updates=config, schema_metadata_updates=schema, field_metadata_updates=fields)
    if left != UpdateConfig():
        yield left
