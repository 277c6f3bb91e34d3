"""A manifest store whose requests fail together with those of a simulated process."""

from seiche.store.base import Store
from seiche.table.versions.external import ManifestRecord, ManifestStore
from seiche.testing import Call, SimulatedStore


class SimulatedManifestStore(ManifestStore):
    """One process's view of `inner`: its requests are counted, and fail, die or come late, as those of `process` do.

    They show as calls with paths that begin with `record/`.
    """

    def __init__(self, inner: ManifestStore, process: SimulatedStore) -> None:
        self._inner = inner
        self._process = process

    @property
    def uri(self) -> str:
        return self._inner.uri

    def base_uri(self, store: Store) -> str:
        return self._inner.base_uri(store)

    def get(self, base_uri: str, version: int) -> ManifestRecord | None:
        call = Call("get", f"record/{version}")
        return self._process._perform(call, lambda: self._inner.get(base_uri, version))

    def get_latest(self, base_uri: str) -> ManifestRecord | None:
        return self._process._perform(Call("get", "record/latest"), lambda: self._inner.get_latest(base_uri))

    def put_if_absent(self, base_uri: str, record: ManifestRecord) -> None:
        call = Call("put_if_absent", f"record/{record.version}")
        self._process._perform(call, lambda: self._inner.put_if_absent(base_uri, record))

    def put_if_present(self, base_uri: str, record: ManifestRecord, *, replacing: str) -> None:
        call = Call("put", f"record/{record.version}")
        self._process._perform(call, lambda: self._inner.put_if_present(base_uri, record, replacing=replacing))

    def delete(self, base_uri: str, version: int) -> None:
        self._process._perform(Call("delete", f"record/{version}"), lambda: self._inner.delete(base_uri, version))
