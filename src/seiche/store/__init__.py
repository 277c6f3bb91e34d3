"""Storage: bytes under names, with one atomic verb that everything else rests on.

```python
from seiche.store import open_store, probe

store = open_store("memory://some-place")
store.put_if_absent("name", b"bytes")  # of any number of writers, one succeeds: `AlreadyExists` for the others
assert store.get("name") == b"bytes"
assert probe(store).trusted
```
"""

from seiche.store.base import ObjectInfo, Store
from seiche.store.opening import open_store
from seiche.store.probing import ProbeReport, ProbeRow, probe

__all__ = ["ObjectInfo", "ProbeReport", "ProbeRow", "Store", "open_store", "probe"]
