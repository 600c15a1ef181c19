"""How much a worker runs at once, in its general slots and in those of pools."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta


@dataclass(frozen=True)
class PoolLimits:
    """The slots for work of a pool, and how many of them one organisation may use."""

    slots: int
    share: int


@dataclass(frozen=True)
class WorkerLimits:
    """How much one worker takes, and how long it may be silent."""

    slots: int = 4
    reserved: int = 1  # slots for interactive jobs only
    lane_cap: int = 4
    global_cap: int | None = None
    pools: Mapping[str, PoolLimits] = field(default_factory=dict[str, PoolLimits])
    lease: timedelta = timedelta(seconds=15)
    stop_grace: timedelta = timedelta(seconds=10)
    retention: timedelta = timedelta(days=7)

    @property
    def general_slots(self) -> int:
        """Slots for any job; at least one, or nothing else would ever run."""
        return max(1, self.slots - self.reserved)
