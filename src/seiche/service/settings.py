"""What can be set about a service."""

from dataclasses import dataclass, field
from typing import Final

from seiche.service.commit.group import Limits
from seiche.service.refusals import refused

__all__ = ["DEFAULT_TTL", "LONGEST_TTL", "SHORTEST_TTL", "Settings"]

DEFAULT_TTL: Final = 600.0
LONGEST_TTL: Final = 6 * 3600.0
SHORTEST_TTL: Final = 1.0


@dataclass(frozen=True, slots=True)
class Settings:
    """What can be set. `max_operations` limits the changes of one transaction; by default nothing does.

    `max_undecided` is how many transactions may be begun and not decided.
    """

    catalog: str = "lake"
    max_operations: int | None = None
    default_ttl: float = DEFAULT_TTL
    max_undecided: int = 100_000
    limits: Limits = field(default_factory=Limits)

    def lifetime(self, ttl: float | None) -> int:
        """How long a transaction may live for which `ttl` seconds were asked, in milliseconds."""
        wanted = self.default_ttl if ttl is None or ttl == 0 else ttl
        if not wanted >= SHORTEST_TTL or wanted > LONGEST_TTL:
            raise refused(
                f"a time to live of {wanted} s is not between {SHORTEST_TTL} and {LONGEST_TTL} s", "ttl.out-of-range"
            )
        return int(wanted * 1000)
