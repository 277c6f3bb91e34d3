"""Records in a dictionary of this process."""

from threading import Lock
from typing import NoReturn

from seiche.errors import InvalidInput
from seiche.table.versions.external.base import ManifestStore, lost, not_there
from seiche.table.versions.external.records import ManifestRecord

__all__ = ["MemoryManifestStore"]


class MemoryManifestStore(ManifestStore):
    """For tests and simulations: everybody who holds the object shares the records. They end with the process."""

    def __init__(self, name: str = "test") -> None:
        self._name = name
        self._tables: dict[str, dict[int, ManifestRecord]] = {}
        self._lock = Lock()

    def __reduce__(self) -> NoReturn:
        raise InvalidInput(f"{self.uri} stays in its process", remedy="Use a manifest store that is in a database.")

    @property
    def uri(self) -> str:
        return f"memory://{self._name}"

    def get(self, base_uri: str, version: int) -> ManifestRecord | None:
        with self._lock:
            return self._tables.get(base_uri, {}).get(version)

    def get_latest(self, base_uri: str) -> ManifestRecord | None:
        with self._lock:
            records = self._tables.get(base_uri)
            return records[max(records)] if records else None

    def put_if_absent(self, base_uri: str, record: ManifestRecord) -> None:
        with self._lock:
            records = self._tables.setdefault(base_uri, {})
            taken = records.get(record.version)
            if taken is None and record.version > max(records, default=0):
                records[record.version] = record
            elif taken is None or taken.path != record.path:
                raise lost(record, base_uri, taken)

    def put_if_present(self, base_uri: str, record: ManifestRecord, *, replacing: str) -> None:
        with self._lock:
            records = self._tables.get(base_uri, {})
            there = records.get(record.version)
            if there is None or there.path not in (replacing, record.path):
                raise not_there(record, base_uri, replacing)
            records[record.version] = record

    def delete(self, base_uri: str, version: int) -> None:
        with self._lock:
            self._tables.get(base_uri, {}).pop(version, None)
