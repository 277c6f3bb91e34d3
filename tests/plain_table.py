"""A Lance table on disk whose versions are made by `build` and put there by hand: one writer, no commit loop."""

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import lance
import lance.fragment
import pyarrow as pa
import pyarrow.compute
from google.protobuf import any_pb2
from lance.optimize import Compaction
from pyroaring import BitMap

from seiche.core.runtime import Runtime
from seiche.table.build import build, empty, settled
from seiche.table.data.fragments import fragment_from_lance
from seiche.table.format import file, roaring, schema
from seiche.table.format import manifest_pb2 as pb
from seiche.table.format.manifest import Manifest
from seiche.table.format.unknown import unknown_fields
from seiche.table.operations import Operation, Overwrite, RewriteGroup
from seiche.table.transaction import Transaction
from seiche.table.versions.naming import Naming


def native(uri: str, version: int | None = None) -> Any:
    """What pylance opens there. Untyped: its own annotations say less than it accepts."""
    return lance.dataset(uri, version=version)


class PlainTable:
    """Commits without asking anybody: whatever `build` makes becomes the next version."""

    def __init__(self, path: Path, *, stable_row_ids: bool = False) -> None:
        self.path = path
        self.stable_row_ids = stable_row_ids
        self.runtime = Runtime.seeded(7)
        for folder in ("_versions", "_transactions", "data"):
            (path / folder).mkdir(parents=True, exist_ok=True)

    @property
    def uri(self) -> str:
        return str(self.path)

    def create(self, data: pa.Table, *, rows_per_file: int = 1 << 20, **members: object) -> Manifest:
        """Version 1, with `data` in it."""
        fields = schema.from_arrow(data.schema)
        fragments = self.write(data, rows_per_file=rows_per_file, schema=data.schema)
        return self.commit(Overwrite(fragments, tuple(fields), **members))  # type: ignore[arg-type]

    def write(self, data: pa.Table, *, rows_per_file: int = 1 << 20, **options: object) -> tuple[pb.DataFragment, ...]:
        """Data files for `data`, in fragments that belong to no version yet."""
        exists = any((self.path / "_versions").iterdir())
        target = lance.dataset(self.uri) if exists else self.uri
        write: Any = lance.fragment.write_fragments
        written = write(data, target, **{"mode": "append", "max_rows_per_file": rows_per_file, **options})
        return tuple(map(fragment_from_lance, written))

    def commit(self, operation: Operation, *, base: Manifest | None = None) -> Manifest:
        """The next version, as `build` makes it of the newest one or of `base`."""
        found = self.newest()
        if base is None:
            base = self.load(found) if found else empty(stable_row_ids=self.stable_row_ids)
        transaction = settled(base, Transaction(base.version, str(uuid4()), operation))
        made = build(base, transaction, load=self.load)
        encoded = transaction.encode()
        (self.path / "_transactions" / transaction.file_name).write_bytes(encoded)
        temporary = self.path / "_versions" / f"tmp-{uuid4()}"
        temporary.write_bytes(b"".join(file.encode(made, encoded)))
        os.link(temporary, self.path / Naming.V2.path(made.version))
        temporary.unlink()
        (self.path / "_versions" / "latest_version_hint.json").write_text(json.dumps({"version": made.version}))
        return made

    def newest(self) -> int:
        """The newest version, 0 if there is none."""
        names = sorted(path.name for path in (self.path / "_versions").glob("*.manifest"))
        return (1 << 64) - 1 - int(names[0].removesuffix(".manifest")) if names else 0

    def load(self, version: int) -> Manifest:
        return self.read(version).manifest

    def read(self, version: int) -> file.ManifestFile:
        path = self.path / Naming.V2.path(version)
        return file.decode(path.read_bytes(), path=str(path))

    @property
    def manifest(self) -> Manifest:
        return self.load(self.newest())

    def lance(self) -> Any:
        """What pylance makes of the newest version, after it has found nothing wrong with it."""
        dataset = native(self.uri)
        dataset.validate()
        assert dataset.version == self.newest()
        return dataset

    def rows(self, **scan: object) -> list[dict[str, object]]:
        """All rows as pylance reads them, in the order of their first column."""
        found: list[dict[str, object]] = self.lance().to_table(**scan).to_pylist()
        return sorted(found, key=lambda row: str([row[name] for name in sorted(row)]))

    def deletion(self, fragment_id: int, predicate: str) -> pb.DataFragment:
        """The fragment with a further deletion file, written by pylance."""
        updated = self.lance().get_fragment(fragment_id).delete(predicate)
        assert updated is not None
        return fragment_from_lance(updated.metadata if hasattr(updated, "metadata") else updated)

    def index(self, column: str, name: str, fragment_ids: Iterable[int], kind: str = "BTREE") -> pb.IndexMetadata:
        """An index segment, built by pylance and not committed."""
        build_index = self.lance().create_index_uncommitted
        return index_from_lance(build_index(column, kind, name=name, fragment_ids=list(fragment_ids), replace=True))

    def compaction(self) -> list[RewriteGroup]:
        """What pylance would compact, with the data written and ids still to be reserved."""
        dataset = self.lance()
        groups = []
        plan: Any = Compaction.plan(dataset, {"target_rows_per_fragment": 1 << 20})
        for task in plan.tasks:
            result = json.loads(task.execute(dataset).json())
            old, new = ([_from_json(one) for one in result[name]] for name in ("original_fragments", "new_fragments"))
            groups.append(RewriteGroup(old_fragments=old, new_fragments=new))
        return groups

    def continue_with_pylance(self) -> None:
        """pylance appends, deletes and compacts on top, and what it made of the table is read back without loss."""
        before = self.lance().to_table()
        lance.write_dataset(before.slice(0, 1), self.uri, mode="append")
        assert self.lance().count_rows() == before.num_rows + 1
        column = before.schema.names[0]
        value = before[column][0].as_py()
        gone = before.filter(pa.compute.equal(before[column], value)).num_rows + 1
        native(self.uri).delete(f"{column} = {value!r}")
        assert self.lance().count_rows() == before.num_rows + 1 - gone
        native(self.uri).optimize.compact_files()
        assert self.lance().count_rows() == before.num_rows + 1 - gone
        for version in range(1, self.newest() + 1):
            if (self.path / Naming.V2.path(version)).exists():
                self.check_read_whole(version)

    def check_read_whole(self, version: int) -> None:
        """The manifest, its indices and its transaction have nothing in them that we do not know."""
        read = self.read(version)
        assert read.transaction is not None
        for message in (read.manifest.header, read.transaction, *read.manifest.fragments, *read.manifest.indices):
            assert not list(unknown_fields(message))
        transaction = Transaction.from_proto(read.transaction)
        assert transaction.to_proto() == read.transaction
        again = file.decode(b"".join(file.encode(read.manifest, transaction.encode())), path="again")
        assert again.manifest.fragments == read.manifest.fragments
        assert again.manifest.indices == read.manifest.indices


def index_from_lance(index: Any) -> pb.IndexMetadata:
    """The entry for a segment that pylance built."""
    kind, details = index.index_details
    return pb.IndexMetadata(
        uuid=pb.UUID(uuid=UUID(index.uuid).bytes),
        fields=index.fields,
        name=index.name,
        dataset_version=index.dataset_version,
        fragment_bitmap=roaring.encode(BitMap(index.fragment_ids)),
        index_details=any_pb2.Any(type_url=kind, value=details),
        index_version=index.index_version,
        created_at=int(index.created_at.timestamp() * 1000),
        files=[pb.IndexFile(path=one.path, size_bytes=one.size_bytes) for one in index.files],
    )


def _from_json(fragment: dict[str, object]) -> pb.DataFragment:
    return fragment_from_lance(lance.fragment.FragmentMetadata.from_json(json.dumps(fragment)))
