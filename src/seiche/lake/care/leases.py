"""Leases: readers of old versions say that they are there.

A lease is a small file that is named after the version that it holds, and for how long; its storage time says since
when. It is written first. Then the newest root is looked at: if that does not give the version up, no later expiry will
miss the lease, since it decides in a root first and looks for leases after. A lease that runs out while somebody still
reads harms nobody but that reader, who is told that the version has expired, and is never given wrong data.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from math import ceil
from typing import Final

from seiche.core.durations import Duration, duration
from seiche.core.insisting import insist
from seiche.errors import NotFound, SeicheError
from seiche.lake.pins import check_kept
from seiche.lake.states import States
from seiche.lake.tree.latest import read_root
from seiche.store.base import Store

__all__ = ["FOLDER", "USUAL", "HeldVersion", "Hold", "Lease", "leases", "storage_clock"]

FOLDER: Final = "_leases"
# How long a lease lasts that nobody asked for. It is renewed while the handle is used; and files of an expired version
# are not taken at once.
USUAL: Final = timedelta(hours=1)
# A handle that is used for longer than this takes a lease by itself. Who only has a look at an old version writes
# nothing.
_A_LOOK: Final = timedelta(minutes=10)
_NAME: Final = re.compile(rf"{FOLDER}/(\d{{1,20}})-(\d{{1,12}})-[0-9a-f-]{{36}}")


@dataclass(frozen=True, slots=True)
class HeldVersion:
    """A lease as others find it: which version is held, and until when by the storage's clock if it is not renewed."""

    version: int
    until: datetime
    path: str


def leases(store: Store) -> list[HeldVersion]:
    """All leases, also those that have run out. Files of other names in their folder mean nothing."""
    found = []
    for info in store.list(FOLDER):
        named = _NAME.fullmatch(info.path)
        if named is not None:
            held = timedelta(seconds=min(int(named[2]), 10**9))
            found.append(HeldVersion(int(named[1]), info.modified + held, info.path))
    return found


def storage_clock(states: States, version: int) -> datetime:
    """The time by the storage's clock, learned from a file written for it: a lease of no length, removed at once."""
    lease = Lease(states, version, timedelta(0))
    insist(lease.renew, states.runtime)
    try:
        return states.store.head(lease.path).modified
    finally:
        lease.release()


class Lease:
    """One reader's hold on one version, from `take` to `release`, or until it runs out."""

    def __init__(self, states: States, version: int, lasting: timedelta) -> None:
        """Use `Lease.take`."""
        self._states = states
        self.version = version
        self.lasting = lasting
        self.path = f"{FOLDER}/{version:020}-{ceil(lasting.total_seconds())}-{states.runtime.uuid()}"
        self._renewed = 0.0

    @classmethod
    def take(cls, states: States, version: int, lasting: timedelta) -> "Lease":
        """Hold a version. `NotFound` if the lake has given it up, or does so at this moment."""
        lease = cls(states, version, lasting)
        insist(lease.renew, states.runtime)
        try:
            check_kept(states.latest(), version)
        except NotFound:
            lease.release()
            raise
        return lease

    @property
    def due(self) -> bool:
        """Whether half of the time has passed, so that it should be renewed."""
        passed = self._states.runtime.clock.monotonic() - self._renewed
        return passed > self.lasting.total_seconds() / 2

    @property
    def ran_out(self) -> bool:
        """Whether nobody needs to respect it any more: an expiry may have passed it over."""
        return self._states.runtime.clock.monotonic() - self._renewed > self.lasting.total_seconds()

    def renew(self) -> None:
        """Hold the version for as long again, from now on."""
        self._renewed = self._states.runtime.clock.monotonic()
        self._states.store.put(self.path, b"A reader holds this version of the lake.\n")

    def release(self) -> None:
        """Do not hold it any longer. If that cannot be said, the lease runs out by itself."""
        with suppress(SeicheError):
            self._states.store.delete(self.path)


class Hold:
    """What a handle that stays at one version does for that version to stay: nothing for a look, a lease for longer.

    With `lasting`, it holds a lease from the beginning.
    """

    def __init__(self, states: States, version: int, lasting: Duration | None = None) -> None:
        """`NotFound` if a lease is wanted and the lake has given the version up."""
        self._states = states
        self.version = version
        self.lease: Lease | None = None
        self._since = states.runtime.clock.monotonic()
        if lasting is not None:
            self.lease = Lease.take(states, version, duration(lasting, "lease"))

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Around whatever reads: renews the lease in time, and tells a version that expired from damage."""
        self._keep()
        try:
            yield
        except Exception as error:
            # Whatever the failure looks like, to the reader it means that the version is gone.
            if self._expired():
                raise _gone(self.version) from error
            raise

    def close(self) -> None:
        """Give the version free."""
        if self.lease is not None:
            self.lease.release()
            self.lease = None

    def _keep(self) -> None:
        # A lease that was not asked for must not stand in the way: a reader may have no right to write.
        with suppress(SeicheError):
            if self.lease is not None:
                if self.lease.ran_out:
                    # Not the same again: the version may have been given up meanwhile, and a clean-up may be about to
                    # remove the file.
                    self.lease = Lease.take(self._states, self.version, self.lease.lasting)
                elif self.lease.due:
                    self.lease.renew()
            elif self._states.runtime.clock.monotonic() - self._since > _A_LOOK.total_seconds():
                self.lease = Lease.take(self._states, self.version, USUAL)

    def _expired(self) -> bool:
        """Whether the version is certainly gone. If that cannot be seen, the failure at hand says more."""
        with suppress(SeicheError):
            return read_root(self._states.store, self.version).expired_at_millis is not None
        return False


def _gone(version: int) -> NotFound:
    return NotFound(
        f"version {version} of the lake expired while it was being read",
        remedy='Open a later version; `seiche.open(uri, version=..., lease="2h")` holds one for as long as it takes.',
        version=version,
    )
