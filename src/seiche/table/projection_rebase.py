"""How a Project is adapted to what others committed: it carries all fields, also what it does not mean to change."""

from dataclasses import replace

from seiche.table.encounter import Encounter
from seiche.table.format.manifest_pb2 import Field
from seiche.table.operations import Operation, Project, UpdateConfig

__all__ = ["with_metadata"]


def with_metadata(meeting: Encounter) -> Operation:
    """Ours, with the metadata of fields that the other one changed. If ours changes it too, a retryable conflict."""
    ours, theirs = meeting.ours, meeting.theirs
    if not (isinstance(ours, Project) and isinstance(theirs, UpdateConfig) and theirs.field_metadata_updates):
        return ours
    before = {one.id: one for one in meeting.read().header.fields}
    after = {one.id: one for one in meeting.other.load().header.fields}
    fields: list[Field] = []
    for one in ours.schema:
        made = one
        if one.id in theirs.field_metadata_updates and one.id in after:
            if one.id not in before or one.metadata != before[one.id].metadata:
                raise meeting.retry(f"changed metadata of field {one.id}, as we do")
            made = Field()
            made.CopyFrom(after[one.id])
            made.name, made.nullable = one.name, one.nullable
        fields.append(made)
    return replace(ours, schema=tuple(fields))
