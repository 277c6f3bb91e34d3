"""What a lake can do about its own keeping."""

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from seiche.core.durations import Duration
from seiche.lake.commit.intent import Intent
from seiche.lake.states import States
from seiche.store.base import Store

if TYPE_CHECKING:
    from seiche.lake.care.expiry import Expiry
    from seiche.lake.care.fsck import Soundness
    from seiche.lake.care.gc import CleanUp, Progress
    from seiche.lake.care.health import Health
    from seiche.lake.care.trash import Trash

__all__ = ["CareVerbs"]


def _silent(_what: str, _done: int) -> None:
    pass


class CareVerbs(ABC):
    """`expire`, `gc`, `trash`, `fsck` and `health`."""

    @property
    @abstractmethod
    def states(self) -> States:
        """All versions of the lake, to look things up in."""

    @property
    @abstractmethod
    def store(self) -> Store:
        """The storage of the lake."""

    @abstractmethod
    def decide(self, intent: Intent) -> int:
        """Commit what was put together by other means than a transaction; returns the version that it made."""

    @abstractmethod
    def check_writable(self) -> None:
        """`InvalidInput` if nothing is changed through this handle."""

    def expire(self, *, older_than: Duration | None = None, keep: int | None = None, dry_run: bool = False) -> "Expiry":
        """Give up versions that ceased to be the newest before `older_than`, but none of the newest `keep`.

        What is not given is as the lake's definition has it: seven days and three versions. Versions that a tag, an
        export, a saved transaction or a reader's lease needs stay; the result says why. Their files stay too until `gc`
        takes them. Transactions that began at a version that goes have to be run again.
        """
        from seiche.lake.care.expiry import expire

        return expire(self, older_than=older_than, keep=keep, dry_run=dry_run)

    def gc(
        self,
        *,
        dry_run: bool = True,
        grace: Duration = "1d",
        window: Duration = "7d",
        progress: "Progress" = _silent,
    ) -> "CleanUp":
        """Clear away files that no kept version needs; see `seiche.lake.care.gc`.

        By default it only says what it would do. A file is noted by one run, moved to the trash by one that comes
        `grace` later, and removed from there by one that comes `window` later still; until then `trash` brings it back.
        """
        from seiche.lake.care.gc import collect

        return collect(self, dry_run=dry_run, grace=grace, window=window, progress=progress)

    def trash(self) -> "Trash":
        """What clean-ups took and can be brought back."""
        from seiche.lake.care.trash import Trash

        return Trash(self.store, self.states.runtime)

    def fsck(self, *, repair: bool = False, deep: bool = False, progress: "Progress" = _silent) -> "Soundness":
        """Prove that the lake is sound: versions, trees, rows, tables, and every file that they need.

        Each problem has a kind, a path, and a remedy. With `repair`, those are mended that can be without a doubt. With
        `deep`, all data files are read too.
        """
        from seiche.lake.care.fsck import check_lake

        return check_lake(self.store, self.states.runtime, repair=repair, deep=deep, progress=progress)

    def health(self, *, orphans: bool = True) -> "Health":
        """What will hurt before it does, each with the command that helps.

        With `orphans`, all files are listed to see how many of them nothing needs: as long as a dry run of `gc` takes.
        """
        from seiche.lake.care.health import examine

        return examine(self, orphans=orphans)
