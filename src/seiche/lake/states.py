"""The versions of one lake, found and remembered."""

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any, Final

from seiche.core.runtime import Runtime
from seiche.errors import Corrupt, NotFound
from seiche.lake.manifest_cache import ManifestCache
from seiche.lake.outside import ANYWHERE, Outside
from seiche.lake.state import State
from seiche.lake.tree import definition
from seiche.lake.tree.latest import last, latest_root, read_root, stored_root
from seiche.lake.tree.names import root_name
from seiche.lake.tree.nodes import Nodes
from seiche.lake.tree.root import Root
from seiche.lake.tree.timeline import version_at
from seiche.lake.tree.tree import Tree
from seiche.store.base import Store

__all__ = ["States"]

# For so many seconds nobody puts another lake in the place of one and commits to it as often as to the one before.
_SURE: Final = 10.0


class States:
    """Opens versions of a lake. The newest one seen is kept, as a place to start looking from.

    Roots, nodes and definitions never change, so whatever was read once need not be read again.
    """

    def __init__(self, store: Store, runtime: Runtime) -> None:
        self.store = store
        self.runtime = runtime
        self.nodes = Nodes(store)
        self._definitions: dict[str, definition.LakeDefinition] = {}
        self._known: State | None = None
        # Until when the newest version seen is taken to stand in the storage.
        self._sure_until = 0.0
        self._manifests = ManifestCache()
        self._storage_times: dict[int, datetime] = {}
        self._outside: Outside = ANYWHERE
        # Whether the last look for something newer found nothing.
        self.quiet = False

    def __reduce__(self) -> tuple[Any, ...]:
        return _again, (self.store, self.runtime, self._outside)

    @property
    def cached_bytes(self) -> int:
        """About what nodes and manifests take in memory."""
        return self.nodes.cached_bytes + self._manifests.cached_bytes

    @property
    def known(self) -> State:
        """The newest version that was seen here."""
        return self._known if self._known is not None else self.latest()

    @property
    def outside(self) -> Outside:
        """What may be opened besides the lake's own files."""
        return self._outside

    def confine(self, places: Iterable[str]) -> None:
        """From now on nothing is opened through this handle but the lake's own files and those below these addresses.

        For servers: they open files with their own rights, at addresses that others send.
        """
        self._outside = Outside.below(places)
        if self._known is not None:
            self._known = replace(self._known, outside=self._outside)

    def latest(self) -> State:
        """The newest version there is; `Corrupt` if the lake does not have the newest one seen here any more: then it
        was put back from a copy, and what was built on that version must not get into this one.
        """
        known = self._known
        if known is None:
            return self._seen(self.of(latest_root(self.store)))
        if not self.is_sure:
            self._check_standing(known)
        times: dict[int, datetime] = {}
        exists, following = partial(self._exists, times), known.version + 1
        self.quiet = not exists(following)
        if not self.quiet:
            # Most often it is the only new one, and was read while one looked for others.
            data, version = self.store.together(
                partial(self.store.get, root_name(following)), partial(last, following, exists)
            )
            self._storage_times = {version: times[version]}
            newest = Root.decode(data, version) if version == following else read_root(self.store, version)
            known = self._seen(self.of(newest))
        return known

    @property
    def is_sure(self) -> bool:
        """Whether the newest version seen was found in the storage not long ago."""
        return self.runtime.clock.monotonic() < self._sure_until

    def _seen(self, state: State) -> State:
        self._known = state
        self._sure_until = self.runtime.clock.monotonic() + _SURE
        return state

    def _check_standing(self, known: State) -> None:
        """`Corrupt` if another root stands in the place of the newest one seen, or none. A tombstone of it is it."""
        try:
            is_other = stored_root(self.store, known.version).root_id != known.root.root_id
        except NotFound as error:
            raise self._put_back(known) from error
        if is_other:
            raise self._put_back(known)
        self._seen(known)

    def _put_back(self, known: State) -> Corrupt:
        return Corrupt(
            f"{self.store.uri} does not have version {known.version} any more, which was seen here: the lake was put"
            " back from a copy, or moved away",
            remedy="Nothing was written. Open it again, or start this process again, to go on with what is there.",
            uri=self.store.uri,
            version=known.version,
        )

    def at(self, version: int) -> State:
        """A version that is still kept."""
        if self._known is not None and self._known.version == version:
            return self._known
        return self.of(read_root(self.store, version).live())

    def as_of(self, moment: datetime) -> int:
        """The version that was the newest at a time, whether or not it is still kept."""
        return version_at(self.store, self.latest().root, moment, runtime=self.runtime)

    def advance(self, root: Root) -> State:
        """Go on from a root that was just published here."""
        return self._seen(self.of(root))

    def storage_time(self, state: State) -> datetime:
        """When the storage says that the root of a version was written."""
        known = self._storage_times.get(state.version)
        if known is None:
            try:
                known = self.store.head(state.root.name).modified
            except NotFound as error:
                raise self._put_back(state) from error
            self._storage_times = {state.version: known}
        return known

    def _exists(self, times: dict[int, datetime], version: int) -> bool:
        """Whether there is such a version; if so, the answer also tells when it was written."""
        found = self.store.find(root_name(version))
        if found is not None:
            times[version] = found.modified
        return found is not None

    def of(self, root: Root) -> State:
        """The version that a root stands for."""
        found = self._definitions.get(root.definition)
        if found is None:
            found = self._definitions[root.definition] = definition.load(self.store, root.definition)
        tree = Tree(root.node, self.nodes, found.shape)
        return State(self.store, root, tree, found, self._manifests, self._outside)


def _again(store: Store, runtime: Runtime, outside: Outside) -> States:
    states = States(store, runtime)
    states._outside = outside
    return states
