"""The CPU time of another process, and how long we wait for one that works.

A child runs at a low priority, so on a busy machine it can take many times longer than on an idle one. Its time limit
therefore counts the CPU time that it used. The clock decides only where CPU time can't:

    it used as much CPU time as the step may take      too long
    it used none at all for as long as that            it hangs
    it uses some, but hardly gets on                   too long after ten times the limit: the machine is overloaded
"""

import os
from dataclasses import dataclass
from pathlib import Path

_WALL_FACTOR = 10  # by which the machine may be overloaded


def of_process(pid: int) -> float | None:
    """The CPU seconds that a process has used; None where the system does not say, or the process is gone."""
    try:
        fields = (
            Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()
        )
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError):
        return None


@dataclass
class StepClock:
    """Measures one step of a child, in CPU time where it is known. `look` is called every now and then."""

    limit: float  # seconds
    started: float
    cpu_at_start: float | None
    used: float = 0.0
    is_starved: bool = False  # it took too long because it got too little CPU time
    _last_progress: float | None = None

    def look(self, now: float, cpu: float | None) -> bool:
        """Whether the step has taken too long, by the clock and the process's CPU time so far."""
        elapsed = now - self.started
        if cpu is None or self.cpu_at_start is None:
            self.used = elapsed
            return elapsed >= self.limit
        if cpu - self.cpu_at_start > self.used or self._last_progress is None:
            self.used, self._last_progress = cpu - self.cpu_at_start, now
        is_hanging = now - self._last_progress >= self.limit
        if self.used >= self.limit or is_hanging:
            return True
        self.is_starved = elapsed >= _WALL_FACTOR * self.limit
        return self.is_starved
