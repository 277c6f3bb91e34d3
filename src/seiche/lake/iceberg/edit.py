"""An edit of an Iceberg table, among those of tables of all formats."""

from dataclasses import dataclass, replace

from seiche.core.runtime import Runtime
from seiche.lake.commit.edits import TableEdit
from seiche.lake.commit.made import Made
from seiche.lake.iceberg.making import make_metadata
from seiche.lake.iceberg.work import IcebergWork
from seiche.lake.objects.rows import TableRow
from seiche.lake.state import State

__all__ = ["IcebergEdit"]


@dataclass(frozen=True, slots=True)
class IcebergEdit(TableEdit):
    """What a transaction does to an Iceberg table. Steps add up to one new metadata file."""

    iceberg: IcebergWork | None = None

    @property
    def worked(self) -> bool:
        return self.iceberg is not None and bool(self.iceberg.steps or self.iceberg.origin)

    def _made(self, state: State, now: TableRow, uuid: str, runtime: Runtime, *, durable: bool) -> Made:
        if self.iceberg is None or not self.worked:
            return Made(now)
        progress = self.iceberg.progress
        if durable and progress.made is not None and progress.row == now:
            return progress.made
        made = make_metadata(self.iceberg, self.found, now, state, runtime=runtime, table=self.name)
        if durable:
            progress.row, progress.made = now, made
        return made

    @classmethod
    def of(cls, edit: TableEdit, work: IcebergWork) -> "IcebergEdit":
        """The edit, with this work in it."""
        if isinstance(edit, cls):
            return replace(edit, iceberg=work)
        return cls(**edit.shared, iceberg=work)
