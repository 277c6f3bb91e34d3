"""The verbs about what is said of a table: settings, metadata, counters, places of files, and going back."""

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from seiche.table.change import Result
from seiche.table.preparing import settings
from seiche.table.verbs.base import Verbs

__all__ = ["SettingVerbs"]


class SettingVerbs(Verbs):
    """`update_config`, `update_metadata`, `update_schema_metadata`, `update_field_metadata`, `add_bases`, `restore`,
    `reserve_fragments` and `mark_generations`.

    None of them writes anything but the new version itself. What cannot be right is `InvalidInput`, before anything is
    written; what is so already is nothing to do, and makes no version. In the mappings, `None` deletes a key; with
    `replace`, the mapping is all that there is afterwards.
    """

    def update_config(
        self,
        values: Mapping[str, str | None],
        *,
        replace: bool = False,
        attempts: int | None = None,
        timeout: float | None = None,
    ) -> Result:
        """Set, change or delete settings. If others change the same one at the same time: `IncompatibleConflict`."""
        prepare = settings.Config(values, replace=replace)
        return self._run("update_config", prepare, attempts=attempts, timeout=timeout)

    def update_metadata(
        self,
        values: Mapping[str, str | None],
        *,
        replace: bool = False,
        attempts: int | None = None,
        timeout: float | None = None,
    ) -> Result:
        """Set, change or delete metadata of the table."""
        prepare = settings.TableMetadata(values, replace=replace)
        return self._run("update_metadata", prepare, attempts=attempts, timeout=timeout)

    def update_schema_metadata(
        self,
        values: Mapping[str, str | None],
        *,
        replace: bool = False,
        attempts: int | None = None,
        timeout: float | None = None,
    ) -> Result:
        """Set, change or delete metadata of the schema, which readers get with it."""
        prepare = settings.SchemaMetadata(values, replace=replace)
        return self._run("update_schema_metadata", prepare, attempts=attempts, timeout=timeout)

    def update_field_metadata(
        self,
        column: str,
        values: Mapping[str, str | None],
        *,
        replace: bool = False,
        attempts: int | None = None,
        timeout: float | None = None,
    ) -> Result:
        """Set, change or delete metadata of a column, or with dots in the name of a field inside one.

        What says how values are stored, such as the mark of a blob column, stays as it is once there are rows.
        """
        prepare = settings.FieldMetadata(column, values, replace=replace)
        return self._run("update_field_metadata", prepare, attempts=attempts, timeout=timeout)

    def add_bases(self, *bases: Any, attempts: int | None = None, timeout: float | None = None) -> Result:
        """Let files of the table live in further directories.

        A base is its path, or a mapping with `path` and if need be `name`, `id` and `is_dataset_root`. One that has the
        id, name or path of another is `InvalidInput`.
        """
        return self._run("add_bases", settings.Bases(bases), attempts=attempts, timeout=timeout)

    def restore(self, version: int | str, *, attempts: int | None = None, timeout: float | None = None) -> Result:
        """Make the table what it was at a version or tag: rows, schema, indices and settings, as a new version.

        Whatever others did meanwhile is undone as well. A version that is not kept is `NotFound`.
        """
        return self._run("restore", settings.Restoring(version), attempts=attempts, timeout=timeout)

    def reserve_fragments(self, count: int, *, attempts: int | None = None, timeout: float | None = None) -> Result:
        """Set fragment ids aside, for a Rewrite that the caller is going to commit; `notes["ids"]` is their range.

        Nobody else is given them. Inside a transaction of a lake they hold as long as nobody else commits first.
        """
        prepare = settings.Reserving(count)
        return self._run("reserve_fragments", prepare, attempts=attempts, timeout=timeout)

    def mark_generations(
        self, generations: Mapping[str | UUID, int], *, attempts: int | None = None, timeout: float | None = None
    ) -> Result:
        """Record up to which generation each shard of the write-ahead log has arrived in the table; it never falls."""
        return self._run("mark_generations", settings.Marking(generations), attempts=attempts, timeout=timeout)
