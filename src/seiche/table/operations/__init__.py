"""What a commit can do to a table: the 15 operations of the format as values, and those of newer writers."""

from seiche.table.operations.append import Append
from seiche.table.operations.clone import Clone
from seiche.table.operations.create_index import CreateIndex
from seiche.table.operations.data_replacement import DataReplacement, DataReplacementGroup
from seiche.table.operations.delete import Delete
from seiche.table.operations.merge import Merge
from seiche.table.operations.opaque import Opaque
from seiche.table.operations.overwrite import Overwrite
from seiche.table.operations.project import Project
from seiche.table.operations.reserve import ReserveFragments
from seiche.table.operations.restore import Restore
from seiche.table.operations.rewrite import Rewrite, RewriteGroup, RewrittenIndex
from seiche.table.operations.update import (
    REWRITE_COLUMNS,
    REWRITE_ROWS,
    KeyExistenceFilter,
    MergedGeneration,
    Update,
)
from seiche.table.operations.update_bases import UpdateBases
from seiche.table.operations.update_config import UpdateConfig, UpdateMap
from seiche.table.operations.update_mem_wal import UpdateMemWalState

__all__ = [
    "OPERATIONS",
    "REWRITE_COLUMNS",
    "REWRITE_ROWS",
    "Append",
    "Clone",
    "CreateIndex",
    "DataReplacement",
    "DataReplacementGroup",
    "Delete",
    "KeyExistenceFilter",
    "Known",
    "Merge",
    "MergedGeneration",
    "Opaque",
    "Operation",
    "Overwrite",
    "Project",
    "ReserveFragments",
    "Restore",
    "Rewrite",
    "RewriteGroup",
    "RewrittenIndex",
    "Update",
    "UpdateBases",
    "UpdateConfig",
    "UpdateMap",
    "UpdateMemWalState",
]

Known = (
    Append
    | Delete
    | Overwrite
    | CreateIndex
    | Rewrite
    | Merge
    | Project
    | Restore
    | ReserveFragments
    | Clone
    | Update
    | UpdateConfig
    | DataReplacement
    | UpdateMemWalState
    | UpdateBases
)
Operation = Known | Opaque

# In the order of the specification.
OPERATIONS: tuple[type[Known], ...] = (
    Append,
    Delete,
    Overwrite,
    CreateIndex,
    Rewrite,
    Merge,
    Project,
    Restore,
    ReserveFragments,
    Clone,
    Update,
    UpdateConfig,
    DataReplacement,
    UpdateMemWalState,
    UpdateBases,
)
