"""The stages that all bases share in one process, besides the reader pool and the embedders."""

from dataclasses import dataclass, field

from gristmill.stage_gate import StageGate

MAX_SOURCE_READS = 64  # sources that are read at once; most of that time is spent waiting
CHUNK_THREADS = 3  # threads that decode and chunk; one base alone uses two of them
MAX_DESCRIPTIONS = 4  # images that are described at once
MAX_RENDERS = 2  # pages that are rendered at once, each by a browser of its own


@dataclass(frozen=True)
class Stages:
    """The places in each stage. A job waits for one without using a slot of its worker."""

    sources: StageGate = field(default_factory=lambda: StageGate(MAX_SOURCE_READS))
    threads: StageGate = field(default_factory=lambda: StageGate(CHUNK_THREADS))
    descriptions: StageGate = field(default_factory=lambda: StageGate(MAX_DESCRIPTIONS, is_slow=True))
    renders: StageGate = field(default_factory=lambda: StageGate(MAX_RENDERS))

    @classmethod
    def create(cls, *, sources: int, threads: int, renders: int, share: float) -> "Stages":
        """The stages with these numbers of places, of which one base may have a share."""
        return cls(
            StageGate(sources, share),
            StageGate(threads, share),
            StageGate(MAX_DESCRIPTIONS, share, is_slow=True),
            StageGate(renders, share),
        )
