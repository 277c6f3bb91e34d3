"""What the specification says about every pair of operations, written down from its text and not from the code.

Each section is one operation being committed. Below its name stands what the specification says of it, in our words;
where it leaves room, the line says how it was read, and `docs/design/005-conflicts.md` why. Then one line for each
situation: what was committed first, how we change the table, how they did (see `tests/interop/matrix_tables.py`), and
what must come of it. A last word names the table that it happens to, if not a plain one: `stable` has stable row ids,
`reuse` has a fragment-reuse index, `log` a MemWAL index that has shard A at generation 3, `keyed` a primary key, by
which pylance itself makes the filters.

    ok            both are in the result, ours exactly as it was handed over
    rebase        both are in the result, ours adapted
    retry         RetryableConflict, nothing of ours is visible
    incompatible  IncompatibleConflict, nothing of ours is visible
    exists        AlreadyExists
"""

from typing import NamedTuple

__all__ = ["SITUATIONS", "Situation"]


class Situation(NamedTuple):
    """Two changes of one version, and what must become of the second."""

    operation: str
    other: str
    ours: str
    theirs: str
    outcome: str
    table: str

    def __str__(self) -> str:
        place = "" if self.table == "plain" else f" [{self.table}]"
        return f"{self.operation} ({self.ours}) over {self.other} ({self.theirs}){place}"


_TEXT = """
# Append
# Conflicts with Overwrite, Restore, UpdateMemWalState; with nothing else, not even itself.
# Read: rows that no longer fit the schema are retryable. A dropped column is harmless.
Append            | rows          | more          | ok
Append            | rows          | more          | ok           | stable
Append            | rows          | more          | ok           | log
Delete            | rows          | 0a            | ok
Overwrite         | rows          | plain         | incompatible
CreateIndex       | rows          | on v          | ok
Rewrite           | rows          | 0,1           | ok
Rewrite           | rows          | 0,1           | ok           | stable
Merge             | rows          | z             | ok
Merge             | rows          | require z     | retry
Merge             | rows          | cast w        | retry
Merge             | rows          | rewrite v     | ok
Project           | rows          | drop w        | ok
Project           | rows          | rename w      | retry
Project           | rows          | require v     | retry
Restore           | rows          | 1             | incompatible
ReserveFragments  | rows          | 5             | ok
Clone             | rows          | x             | ok
Update            | rows          | 0c            | ok
Update            | rows          | 0c            | ok           | stable
Update            | rows          | column 0      | ok
Update            | rows          | exact 1       | ok
UpdateConfig      | rows          | config k      | ok
UpdateConfig      | rows          | schema s      | ok
DataReplacement   | rows          | 0 v           | ok
UpdateMemWalState | rows          | A5            | incompatible
UpdateBases       | rows          | b1            | ok

# Delete
# Conflicts with Overwrite, Restore, UpdateMemWalState. Retryable: Merge, Rewrite, DataReplacement on the same
# fragments. Rebased over Delete and Update, whose masks are merged; retryable if both took the same rows.
# Read: a fragment that is gone, or whose data files changed, cannot be rebased on.
Append            | 0a            | rows          | ok
Delete            | 0a            | 0b            | rebase
Delete            | 0a            | 0b            | rebase       | stable
Delete            | 0a            | 0a too        | retry
Delete            | 0a            | 1a            | ok
Delete            | 0 rest        | 0a            | rebase
Delete            | 0a            | 0 rest        | rebase
Delete            | 0a            | 0 whole       | retry
Delete            | 0 whole       | 0a            | retry
Overwrite         | 0a            | plain         | incompatible
CreateIndex       | 0a            | on v          | ok
Rewrite           | 0a            | 0,1           | retry
Rewrite           | 0a            | 0,1           | retry        | stable
Rewrite           | 0a            | 2,3           | ok
Merge             | 0a            | z             | retry
Merge             | none          | z             | ok
Project           | 0a            | drop w        | ok
Restore           | 0a            | 1             | incompatible
ReserveFragments  | 0a            | 5             | ok
Clone             | 0a            | x             | ok
Update            | 0a            | 0c            | rebase
Update            | 0a            | 0c            | rebase       | stable
Update            | 0a            | 0a            | retry
Update            | 0a            | 0 rest        | rebase
Update            | 0a            | 0 whole       | retry
Update            | 0a            | 1a            | ok
Update            | 0a            | column 0      | retry
Update            | 0a            | column 1      | ok
UpdateConfig      | 0a            | config k      | ok
DataReplacement   | 0a            | 0 v           | retry
DataReplacement   | 0a            | 1 v           | ok
UpdateMemWalState | 0a            | A5            | incompatible
UpdateBases       | 0a            | b1            | ok

# Overwrite
# Does not care what happened, but for the configuration, which it does not replace. Retryable: UpdateConfig of the same
# key, Overwrite and UpdateMemWalState always.
# Read: base paths that both add are a conflict too, retryable.
Append            | plain         | rows          | ok
Delete            | plain         | 0a            | ok
Overwrite         | plain         | other         | retry
CreateIndex       | plain         | on v          | ok
Rewrite           | plain         | 0,1           | ok
Merge             | plain         | z             | ok
Project           | plain         | drop w        | ok
Restore           | plain         | 1             | ok
ReserveFragments  | plain         | 5             | ok
Clone             | plain         | x             | ok
Update            | plain         | 0c            | ok
UpdateConfig      | plain         | config k      | ok
UpdateConfig      | config k      | config j      | ok
UpdateConfig      | config k      | config k      | retry
UpdateConfig      | config k      | config *      | retry
UpdateConfig      | config k      | table k       | ok
UpdateConfig      | plain         | schema s      | ok
DataReplacement   | plain         | 0 v           | ok
UpdateMemWalState | plain         | A5            | retry
UpdateBases       | plain         | b1            | ok
UpdateBases       | base b1       | b2            | ok
UpdateBases       | base b1       | b1 name       | retry

# CreateIndex
# Fine with new fragments, deletes and updates. Conflicts with Overwrite, Restore, UpdateMemWalState. Retryable: Rewrite
# of covered fragments, unless row ids are stable or a fragment-reuse index leads on; DataReplacement of an indexed
# column in a covered fragment. Of two under one name the second wins; the singletons are merged.
# Read: over UpdateMemWalState, writing the MemWAL index is rebased. A column that is gone, or that cannot be told from
# another, is retryable. Fragments whose indexed values changed are no longer covered. A log that is attached while
# columns change is retryable.
Append            | on v          | rows          | ok
Delete            | on v          | 0a            | ok
Delete            | on v          | 0 whole       | ok
Overwrite         | on v          | plain         | incompatible
CreateIndex       | on v          | on w          | ok
CreateIndex       | on v          | on v again    | rebase
CreateIndex       | on v@0,1      | on v@2,3      | rebase
CreateIndex       | on id         | on id again   | rebase
CreateIndex       | on id         | drop id_idx   | ok
CreateIndex       | drop id_idx   | on id         | rebase
CreateIndex       | drop id_idx   | drop id_idx   | ok
CreateIndex       | log A7        | log B2        | rebase
CreateIndex       | log A7        | log A5        | rebase
CreateIndex       | log A7        | log B2        | rebase       | log
CreateIndex       | log A7        | drop __lance_mem_wal | ok    | log
CreateIndex       | drop __lance_mem_wal | log B2 | rebase       | log
CreateIndex       | reuse kept    | reuse cleaned | rebase       | reuse
CreateIndex       | reuse cleaned | reuse kept    | rebase       | reuse
Rewrite           | on v          | 0,1           | retry
Rewrite           | on v@2,3      | 0,1           | ok
Rewrite           | on v@0        | 0,1           | retry
Rewrite           | on v          | 0,1           | rebase       | stable
Rewrite           | on v@0        | 0,1           | rebase       | stable
Rewrite           | bitmap v      | 0,1           | rebase       | stable
Rewrite           | bitmap v@0,2  | 0,1           | rebase       | stable
Rewrite           | on v          | 0,1 led       | ok
Rewrite           | on v@0        | 0,1 led       | retry
Rewrite           | on v          | 0,1 led       | ok           | reuse
Rewrite           | on v          | 0,1           | retry        | reuse
Rewrite           | reuse kept    | 0,1 led       | rebase       | reuse
Rewrite           | reuse cleaned | 0,1 led       | rebase       | reuse
Rewrite           | drop id_idx   | 0,1           | ok
Merge             | on v          | z             | ok
Merge             | on v          | cast w        | ok
Merge             | on w          | cast w        | retry
Merge             | on v          | rewrite v     | rebase
Merge             | on w          | rewrite v     | ok
Merge             | log A7        | z             | retry
Project           | on v          | drop w        | ok
Project           | on w          | drop w        | retry
Project           | on w          | rename w      | retry
Project           | on v          | require v     | ok
Restore           | on v          | 1             | incompatible
ReserveFragments  | on v          | 5             | ok
Clone             | on v          | x             | ok
Update            | on v          | 0c            | ok
Update            | on v          | 0c            | ok           | stable
Update            | on v          | column 0      | rebase
Update            | on w          | column 0      | ok
Update            | log A7        | log B2        | rebase
Update            | log A7        | log B2        | rebase       | log
Update            | drop __lance_mem_wal | log B2 | rebase       | log
UpdateConfig      | on v          | config k      | ok
DataReplacement   | on v          | 0 v           | retry
DataReplacement   | on v@1        | 0 v           | ok
DataReplacement   | on w          | 0 v           | ok
UpdateMemWalState | on v          | A5            | incompatible
UpdateMemWalState | log A7        | B2            | rebase
UpdateMemWalState | log A7        | A9            | rebase
UpdateMemWalState | log B2        | A5            | rebase       | log
UpdateBases       | on v          | b1            | ok

# Rewrite
# Conflicts with Overwrite and Restore. Retryable: Merge always; DataReplacement, Delete, Update of the same fragments;
# Rewrite of the same fragments, or if both carry a reuse index; CreateIndex over them, unless row ids are stable or a
# reuse index leads on. Rebased over a CreateIndex that writes the reuse index, if it carries one itself.
# Read: a reuse index does not lead on an index that covers only a part of what is rewritten together: retryable.
Append            | 0,1           | rows          | ok
Append            | 0,1           | rows          | ok           | stable
Delete            | 0,1           | 0a            | retry
Delete            | 0,1           | 2a            | ok
Overwrite         | 0,1           | plain         | incompatible
CreateIndex       | 0,1           | on v          | retry
CreateIndex       | 0,1           | on v@2,3      | ok
CreateIndex       | 0,1           | on v          | ok           | stable
CreateIndex       | 0,1           | on v@0        | ok           | stable
CreateIndex       | 0,1           | bitmap v      | ok           | stable
CreateIndex       | 0,1           | bitmap v@0,2  | ok           | stable
CreateIndex       | 0,1 led       | on v          | ok
CreateIndex       | 0,1 led       | on v@0        | retry
CreateIndex       | 0,1 led       | on v          | ok           | reuse
CreateIndex       | 0,1 led       | reuse kept    | rebase       | reuse
CreateIndex       | 0,1 led       | reuse cleaned | rebase       | reuse
CreateIndex       | 0,1           | reuse cleaned | ok           | reuse
Rewrite           | 0,1           | 2,3           | ok
Rewrite           | 0,1           | 2,3           | ok           | stable
Rewrite           | 0,1           | 1,2           | retry
Rewrite           | 0,1 led       | 2,3 led       | retry
Rewrite           | 0,1 led       | 2,3           | ok
Rewrite           | 0,1           | 2,3 led       | ok
Rewrite           | 0,1 led       | 2             | ok           | reuse
Merge             | 0,1           | z             | retry
Project           | 0,1           | drop w        | ok
Restore           | 0,1           | 1             | incompatible
ReserveFragments  | 0,1           | 5             | ok
Clone             | 0,1           | x             | ok
Update            | 0,1           | 0c            | retry
Update            | 0,1           | 2a            | ok
Update            | 0,1           | column 0      | retry
UpdateConfig      | 0,1           | config k      | ok
DataReplacement   | 0,1           | 0 v           | retry
DataReplacement   | 0,1           | 2 v           | ok
UpdateMemWalState | 0,1           | A5            | ok
UpdateBases       | 0,1           | b1            | ok

# Merge
# Conflicts with Overwrite, Restore, UpdateMemWalState, Project. Retryable, always: Update, Append, Delete, Merge,
# Rewrite, DataReplacement.
# Read: it carries the whole schema, so metadata of the schema or of fields that others changed is retryable. So is a
# log that others attached: rows in it would lack the new columns.
Append            | z             | rows          | retry
Delete            | z             | 0a            | retry
Overwrite         | z             | plain         | incompatible
CreateIndex       | z             | on v          | ok
CreateIndex       | cast w        | on w          | ok
CreateIndex       | rewrite v     | on v          | ok
CreateIndex       | z             | log A7        | retry
Rewrite           | z             | 0,1           | retry
Merge             | z             | y             | retry
Project           | z             | drop w        | incompatible
Restore           | z             | 1             | incompatible
ReserveFragments  | z             | 5             | ok
Clone             | z             | x             | ok
Update            | z             | 0c            | retry
UpdateConfig      | z             | config k      | ok
UpdateConfig      | z             | table m       | ok
UpdateConfig      | z             | schema s      | retry
UpdateConfig      | z             | field v       | retry
DataReplacement   | z             | 0 v           | retry
UpdateMemWalState | z             | A5            | incompatible
UpdateBases       | z             | b1            | ok

# Project
# Conflicts with Overwrite, Restore, UpdateMemWalState. Retryable, always: Project, Merge.
# Read: making a column required was decided by values that others may have added to since: retryable. Metadata of
# fields that others changed is taken over.
Append            | drop w        | rows          | ok
Append            | rename w      | rows          | ok
Append            | require v     | rows          | retry
Delete            | drop w        | 0a            | ok
Delete            | require v     | 0a            | ok
Overwrite         | drop w        | plain         | incompatible
CreateIndex       | drop w        | on v          | ok
CreateIndex       | drop w        | on w          | ok
Rewrite           | drop w        | 0,1           | ok
Rewrite           | require v     | 0,1           | ok
Merge             | drop w        | z             | retry
Project           | drop w        | rename v      | retry
Restore           | drop w        | 1             | incompatible
ReserveFragments  | drop w        | 5             | ok
Clone             | drop w        | x             | ok
Update            | drop w        | 0c            | ok
Update            | require v     | 0c            | retry
Update            | require w     | column 0      | ok
Update            | require v     | column 0      | retry
UpdateConfig      | drop w        | config k      | ok
UpdateConfig      | drop w        | schema s      | ok
UpdateConfig      | drop w        | field v       | rebase
UpdateConfig      | rename v      | field v       | rebase
UpdateConfig      | drop w        | field w       | ok
DataReplacement   | drop w        | 0 v           | ok
DataReplacement   | drop w        | 0 w           | ok
DataReplacement   | require v     | 0 v           | retry
DataReplacement   | require v     | 0 w           | ok
UpdateMemWalState | drop w        | A5            | incompatible
UpdateBases       | drop w        | b1            | ok

# Restore
# Trumps everything but UpdateMemWalState, with which it conflicts.
Append            | 1             | rows          | ok
Delete            | 1             | 0a            | ok
Overwrite         | 1             | plain         | ok
CreateIndex       | 1             | on v          | ok
Rewrite           | 1             | 0,1           | ok
Merge             | 1             | z             | ok
Project           | 1             | drop w        | ok
Restore           | 1             | 2             | ok
ReserveFragments  | 1             | 5             | ok
Clone             | 1             | x             | ok
Update            | 1             | 0c            | ok
UpdateConfig      | 1             | config k      | ok
UpdateConfig      | 1             | schema s      | ok
DataReplacement   | 1             | 0 v           | ok
UpdateMemWalState | 1             | A5            | incompatible
UpdateBases       | 1             | b1            | ok

# ReserveFragments
# Conflicts with Overwrite and Restore.
Append            | 5             | rows          | ok
Delete            | 5             | 0a            | ok
Overwrite         | 5             | plain         | incompatible
CreateIndex       | 5             | on v          | ok
Rewrite           | 5             | 0,1           | ok
Merge             | 5             | z             | ok
Project           | 5             | drop w        | ok
Restore           | 5             | 1             | incompatible
ReserveFragments  | 5             | 7             | ok
Clone             | 5             | x             | ok
Update            | 5             | 0c            | ok
UpdateConfig      | 5             | config k      | ok
DataReplacement   | 5             | 0 v           | ok
UpdateMemWalState | 5             | A5            | ok
UpdateBases       | 5             | b1            | ok

# Clone
# Only ever the first operation: fails where there is a table.
Append            | x             | rows          | exists
Delete            | x             | 0a            | exists
Overwrite         | x             | plain         | exists
CreateIndex       | x             | on v          | exists
Rewrite           | x             | 0,1           | exists
Merge             | x             | z             | exists
Project           | x             | drop w        | exists
Restore           | x             | 1             | exists
ReserveFragments  | x             | 5             | exists
Clone             | x             | y             | exists
Update            | x             | 0c            | exists
UpdateConfig      | x             | config k      | exists
DataReplacement   | x             | 0 v           | exists
UpdateMemWalState | x             | A5            | exists
UpdateBases       | x             | b1            | exists

# Update
# Conflicts with Overwrite and Restore. Retryable: Rewrite, DataReplacement of the same fragments; Merge always.
# Rebased over Delete and Update.
# Read: keys that both may have inserted are retryable, also where the other side does not say which. A generation of
# the log that the other side merged too is a conflict: theirs as new or newer, incompatible; older, retryable.
# Rows that no longer fit the schema are retryable.
Append            | 0c            | rows          | ok
Append            | 0c            | rows          | ok           | stable
Append            | exact 1       | rows          | retry
Append            | bloom 1       | rows          | retry
Append            | insert 60     | rows          | retry        | keyed
Delete            | 0c            | 0a            | rebase
Delete            | 0c            | 0a            | rebase       | stable
Delete            | 0a            | 0a            | retry
Delete            | 0 rest        | 0a            | rebase
Delete            | 0 rest        | 0a            | rebase       | stable
Delete            | 0c            | 0 whole       | retry
Delete            | 0 whole       | 0a            | retry
Delete            | 0c            | 1a            | ok
Delete            | column 0      | 0a            | retry
Overwrite         | 0c            | plain         | incompatible
CreateIndex       | 0c            | on v          | ok
CreateIndex       | 0c            | on w          | ok           | stable
CreateIndex       | column 0      | on v          | ok
CreateIndex       | log A5        | log A7        | incompatible
CreateIndex       | log A9        | log A7        | retry
CreateIndex       | log A5        | log B2        | ok
CreateIndex       | log A5        | drop __lance_mem_wal | incompatible | log
Rewrite           | 0c            | 0,1           | retry
Rewrite           | 0c            | 2,3           | ok
Merge             | 0c            | z             | retry
Project           | 0c            | drop w        | ok
Project           | 0c            | rename w      | retry
Project           | 0c            | require v     | retry
Restore           | 0c            | 1             | incompatible
ReserveFragments  | 0c            | 5             | ok
Clone             | 0c            | x             | ok
Update            | 0c            | 0a            | rebase
Update            | 0c            | 0a            | rebase       | stable
Update            | 0a            | 0a again      | retry
Update            | 0 rest        | 0a            | rebase
Update            | 0c            | 0 whole       | retry
Update            | 0c            | 1a            | ok
Update            | 0c            | column 0      | retry
Update            | column 0      | 0c            | retry
Update            | column 0      | column 1      | ok
Update            | exact 1       | exact 2       | ok
Update            | exact 1       | exact 1 again | retry
Update            | bloom 1       | bloom 2       | ok
Update            | bloom 1       | bloom 1 again | retry
Update            | exact 1       | bloom 2       | retry
Update            | bloom 1       | exact 2       | retry
Update            | exact 1       | plain         | retry
Update            | plain         | exact 1       | ok
Update            | insert 60     | insert 61     | ok           | keyed
Update            | insert 60     | insert 60 again | retry      | keyed
Update            | insert 60     | 0c            | retry        | keyed
Update            | 0c            | insert 60     | ok           | keyed
Update            | log A5        | log B2        | ok
Update            | log A5        | log A9        | incompatible
Update            | log A9        | log A5        | retry
UpdateConfig      | 0c            | config k      | ok
DataReplacement   | 0c            | 0 v           | retry
DataReplacement   | 0c            | 1 v           | ok
UpdateMemWalState | 0c            | A5            | ok
UpdateMemWalState | log A5        | B2            | ok
UpdateMemWalState | log A5        | A5            | incompatible
UpdateMemWalState | log A5        | A9            | incompatible
UpdateMemWalState | log A9        | A5            | retry
UpdateMemWalState | log A9        | A5            | retry        | log
UpdateBases       | 0c            | b1            | ok

# UpdateConfig
# Conflicts with Overwrite, and with an UpdateConfig of the same key.
# Read: a map that is replaced as a whole has every key in it. Metadata of the schema or of fields is lost to a Merge
# (retryable) and to a Restore (incompatible). A field that is gone is retryable.
Append            | config k      | rows          | ok
Delete            | config k      | 0a            | ok
Overwrite         | config k      | plain         | incompatible
CreateIndex       | config k      | on v          | ok
Rewrite           | config k      | 0,1           | ok
Merge             | config k      | z             | ok
Merge             | table m       | z             | ok
Merge             | schema s      | z             | retry
Merge             | field v       | z             | retry
Project           | config k      | drop w        | ok
Project           | field v       | drop w        | ok
Project           | field w       | drop w        | retry
Restore           | config k      | 1             | ok
Restore           | table m       | 1             | ok
Restore           | schema s      | 1             | incompatible
Restore           | field v       | 1             | incompatible
ReserveFragments  | config k      | 5             | ok
Clone             | config k      | x             | ok
Update            | config k      | 0c            | ok
UpdateConfig      | config k      | config j      | ok
UpdateConfig      | config k      | config k again | incompatible
UpdateConfig      | config k      | config *      | incompatible
UpdateConfig      | config *      | config j      | incompatible
UpdateConfig      | config k      | table k       | ok
UpdateConfig      | table m       | table m again | incompatible
UpdateConfig      | schema s      | schema t      | ok
UpdateConfig      | schema s      | schema s again | incompatible
UpdateConfig      | schema *      | schema t      | incompatible
UpdateConfig      | field v       | field w       | ok
UpdateConfig      | field v       | field v again | incompatible
DataReplacement   | config k      | 0 v           | ok
UpdateMemWalState | config k      | A5            | ok
UpdateBases       | config k      | b1            | ok

# DataReplacement
# Conflicts with Overwrite, Restore, UpdateMemWalState. Retryable: DataReplacement of the same field and fragment;
# CreateIndex on the field; Rewrite, Update of the same fragments; Merge always.
# Read: a target fragment that is gone, or a field that was dropped, is incompatible; a column that became required is
# retryable.
Append            | 0 v           | rows          | ok
Delete            | 0 v           | 0a            | ok
Delete            | 0 v           | 0a            | ok           | stable
Delete            | 0 v           | 0 whole       | incompatible
Delete            | 0 v           | 1a            | ok
Overwrite         | 0 v           | plain         | incompatible
CreateIndex       | 0 v           | on v          | retry
CreateIndex       | 0 v           | on v@1        | retry
CreateIndex       | 0 v           | on w          | ok
Rewrite           | 0 v           | 0,1           | retry
Rewrite           | 0 v           | 2,3           | ok
Merge             | 0 v           | z             | retry
Project           | 0 v           | drop w        | ok
Project           | 0 w           | drop w        | incompatible
Project           | 0 v           | require v     | retry
Project           | 0 w           | require v     | ok
Restore           | 0 v           | 1             | incompatible
ReserveFragments  | 0 v           | 5             | ok
Clone             | 0 v           | x             | ok
Update            | 0 v           | 0c            | retry
Update            | 0 v           | 0 whole       | retry
Update            | 0 v           | 1a            | ok
Update            | 0 v           | column 0      | retry
Update            | 0 w           | column 0      | retry
UpdateConfig      | 0 v           | config k      | ok
DataReplacement   | 0 v           | 0 v again     | retry
DataReplacement   | 0 v           | 1 v           | ok
DataReplacement   | 0 v           | 0 w           | ok
UpdateMemWalState | 0 v           | A5            | incompatible
UpdateBases       | 0 v           | b1            | ok

# UpdateMemWalState
# The text has no list for it. Read, as pylance has it: fine with UpdateConfig, Rewrite, ReserveFragments, UpdateBases,
# and with CreateIndex unless it writes the MemWAL index; generations are compared with those of UpdateMemWalState,
# Update and such a CreateIndex; anything else is incompatible.
Append            | A5            | rows          | incompatible
Delete            | A5            | 0a            | incompatible
Overwrite         | A5            | plain         | incompatible
CreateIndex       | A5            | on v          | ok
CreateIndex       | A5            | log A7        | incompatible
CreateIndex       | A9            | log A7        | retry
CreateIndex       | A5            | log B2        | ok
CreateIndex       | A5            | drop __lance_mem_wal | incompatible | log
Rewrite           | A5            | 0,1           | ok
Merge             | A5            | z             | incompatible
Project           | A5            | drop w        | incompatible
Restore           | A5            | 1             | incompatible
ReserveFragments  | A5            | 5             | ok
Clone             | A5            | x             | incompatible
Update            | A5            | 0c            | ok
Update            | A5            | log B2        | ok
Update            | A5            | log A9        | incompatible
Update            | A9            | log A5        | retry
UpdateConfig      | A5            | config k      | ok
DataReplacement   | A5            | 0 v           | incompatible
UpdateMemWalState | A5            | B2            | ok
UpdateMemWalState | A5            | B2            | ok           | log
UpdateMemWalState | A5            | A5            | incompatible
UpdateMemWalState | A5            | A9            | incompatible
UpdateMemWalState | A9            | A5            | retry
UpdateMemWalState | A9            | A5            | retry        | log
UpdateBases       | A5            | b1            | ok

# UpdateBases
# Conflicts with an UpdateBases that has a base path with the same id, name or path, and with nothing else.
# Read: an id that was left open counts as the one that it was given; an Overwrite may bring base paths too.
Append            | b1            | rows          | ok
Delete            | b1            | 0a            | ok
Overwrite         | b1            | plain         | ok
Overwrite         | b1            | base b1       | incompatible
CreateIndex       | b1            | on v          | ok
Rewrite           | b1            | 0,1           | ok
Merge             | b1            | z             | ok
Project           | b1            | drop w        | ok
Restore           | b1            | 1             | ok
ReserveFragments  | b1            | 5             | ok
Clone             | b1            | x             | ok
Update            | b1            | 0c            | ok
UpdateConfig      | b1            | config k      | ok
DataReplacement   | b1            | 0 v           | ok
UpdateMemWalState | b1            | A5            | ok
UpdateBases       | b1            | b2            | ok
UpdateBases       | b1            | b1 id         | incompatible
UpdateBases       | b1            | b1 name       | incompatible
UpdateBases       | b1            | b1 path       | incompatible
UpdateBases       | open          | b1            | ok
UpdateBases       | b1            | open          | incompatible
"""


def _read(text: str) -> list[Situation]:
    found: list[Situation] = []
    operation = ""
    for line in filter(None, text.splitlines()):
        if line.startswith("# ") and line[2:].isidentifier():
            operation = line[2:]
        elif not line.startswith("#"):
            other, ours, theirs, outcome, *table = (part.strip() for part in line.split("|"))
            found.append(Situation(operation, other, ours, theirs, outcome, table[0] if table else "plain"))
    return found


SITUATIONS = _read(_TEXT)
