"""The MemWAL entry among the indices: how much of the write-ahead log has arrived in the table."""

from collections.abc import Sequence

from seiche.errors import InvalidInput
from seiche.table.format.index_details import MEM_WAL, find, mark_merged, mem_wal_details, mem_wal_index
from seiche.table.format.index_details_pb2 import MemWalIndexDetails
from seiche.table.format.transaction_pb2 import MergedGeneration
from seiche.table.operations.context import Build
from seiche.table.operations.coverage import Indices, replaced

__all__ = ["check_newer", "mark_generations"]


def mark_generations(indices: Indices, generations: Sequence[MergedGeneration], build: Build) -> Indices:
    """With these generations recorded as merged, in an entry with a new id; readers cache the entry by its id."""
    if not generations:
        return indices
    shards = [generation.shard.uuid for generation in generations]
    if any(len(shard) != 16 for shard in shards) or len(set(shards)) != len(shards):
        raise InvalidInput(
            "each merged generation must name another shard, by an id of 16 bytes:"
            f" {', '.join(shard.hex() for shard in shards)}",
            remedy="Of two generations of one shard name the larger one; ids are the bytes of a UUID.",
        )
    entry = find(indices, MEM_WAL)
    details = mem_wal_details(entry) if entry is not None else MemWalIndexDetails()
    now = build.runtime.clock.now()
    made = mem_wal_index(
        mark_merged(details, generations),
        uuid=build.runtime.uuid(),
        dataset_version=build.version,
        created_at=int(now.timestamp() * 1000),
    )
    return replaced(indices, made)


def check_newer(indices: Indices, generations: Sequence[MergedGeneration]) -> None:
    """`InvalidInput` if the rows of one of these generations are in the table already: they would come in twice."""
    entry = find(indices, MEM_WAL)
    if entry is None or not generations:
        return
    merged = {one.shard.uuid: one.generation for one in mem_wal_details(entry).compacted_sstables}
    for one in generations:
        if one.generation <= merged.get(one.shard.uuid, -1):
            raise InvalidInput(
                f"generation {one.generation} of shard {one.shard.uuid.hex()} is merged already, up to"
                f" {merged[one.shard.uuid]}",
                remedy="Its rows are in the table: leave it out, and go on with the next generation.",
                shard=one.shard.uuid.hex(),
            )
