"""How much a worker runs at once, in its general slots and in those of pools."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta

from gristmill.jobs.slots import PREFETCH
from gristmill.stage_gate import DEFAULT_SHARE, room


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
    share: float = DEFAULT_SHARE  # of the slots, that one lane may use while it is alone
    away: int = 64  # jobs that wait for the network or for OCR
    prefetch: int = PREFETCH  # jobs of a lane that wait for its first stage
    lane_cap: int | None = None  # over all workers
    global_cap: int | None = None  # over all workers
    pools: Mapping[str, PoolLimits] = field(default_factory=dict[str, PoolLimits])
    lease: timedelta = timedelta(seconds=15)
    stop_grace: timedelta = timedelta(seconds=10)
    retention: timedelta = timedelta(days=7)

    @property
    def effective_lane_cap(self) -> int | None:
        """A lane's cap leaves room below the global one, too."""
        if self.global_cap is None:
            return self.lane_cap
        return min(self.lane_cap or self.global_cap, room(0, self.global_cap, self.share))

    @property
    def has_caps(self) -> bool:
        """Whether the end of any job, here or elsewhere, may make room for others."""
        return self.lane_cap is not None or self.global_cap is not None
