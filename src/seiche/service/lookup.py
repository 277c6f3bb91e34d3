"""What transactions want, looked up in a lake that goes on changing."""

from collections.abc import Mapping, Sequence

from seiche.errors import SeicheError, Unavailable
from seiche.lake.lake import Lake
from seiche.lake.objects.names import Name
from seiche.lake.state import State
from seiche.service.blobs import Blobs
from seiche.service.changes import Change, Wanted
from seiche.service.refusals import refused
from seiche.service.settings import Settings
from seiche.service.targets import Found, Resolver

__all__ = ["Targets"]


def _may_be_old(wanted: Wanted, change: Change) -> bool:
    """Whether something was found that others may have changed since, before this was asked for.

    A version that was captured before they did would be a conflict with nobody, and a name that was another table's
    would lead to that one: an append would be refused for good, as its files are not there, or make that table one that
    nobody can read, if its client is believed about them. Who names tables by their ids is spared the look.
    """
    captured = wanted.exclusive and change.expected_version is None
    return captured or bool(change.table_name)


class Targets:
    """What transactions of an account want of which target, in the newest version of the lake that is known here."""

    def __init__(self, lake: Lake, account: str, settings: Settings, blobs: Blobs) -> None:
        self._lake = lake
        self._account = account
        self._settings = settings
        self._blobs = blobs
        # What was looked up in the version that was asked last: all of a group ask for the same.
        self._found: tuple[State | None, dict[str, Found | None]] = (None, {})

    def wanted(
        self, tx: str, changes: Sequence[Change], reserved: Mapping[str, Name], *, look: bool = True
    ) -> list[Wanted]:
        """As `Resolver.all`. Without `look` storage is not asked what is new before anything is refused; what must not
        be found in an old version is refused then too.
        """
        most = self._settings.max_operations
        if most is not None and len(changes) > most:
            raise refused(f"{len(changes)} changes are more than {most}", "POINTER_TXN_TOO_LARGE")
        state = self._lake.states.known
        refusal: SeicheError | None = None
        try:
            wanted = self._resolver(state, tx, reserved).all(changes)
        except SeicheError as error:
            refusal = error
        else:
            if not any(map(_may_be_old, wanted, changes)):
                return wanted
            if not look:
                raise Unavailable("what is wanted is to be found in the latest version", reason="look")
        # What this server knows may be old: others make tables too, change them and give them other names.
        newer = self._lake.states.latest() if look else state
        if newer.version == state.version:
            if refusal is not None:
                raise refusal
            return wanted
        return self._resolver(newer, tx, reserved).all(changes)

    def _resolver(self, state: State, tx: str, reserved: Mapping[str, Name]) -> Resolver:
        found = self._found
        if found[0] is not state:
            found = self._found = state, {}
        return Resolver(state, self._account, self._settings.catalog, tx, self._blobs.get, reserved, found[1])
