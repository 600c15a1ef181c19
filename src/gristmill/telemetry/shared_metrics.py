"""Metrics of sibling processes, so that a scrape of one server process shows all that `gristmill serve` runs.

The supervisor maps a piece of anonymous shared memory for each process before it forks. Every process writes a snapshot of
its own metrics there every few seconds; whoever is scraped adds the snapshots of the others. A metric of a process has the
label `process`. There are no files and no connections, so nothing is left behind and nothing can block. What a process
counted before it was killed is shown until its successor writes.

A snapshot is a length and a checksum, then JSON. A reader that meets a snapshot while it is written finds a wrong checksum,
and tries again.
"""

import json
import mmap
import struct
import zlib
from collections.abc import Iterable, Iterator, Sequence
from datetime import timedelta

from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from gristmill import clock

PUBLISH_INTERVAL = timedelta(seconds=2)
_SIZE = 1 << 20  # of one process; pages that are never written take no memory
_HEADER = struct.Struct("<II")
_READ_ATTEMPTS = 5

_areas: dict[str, mmap.mmap] = {}
_own_name: str | None = None


def create(names: Iterable[str]) -> None:
    """Map the memory for the processes with these names; called before they are forked."""
    _areas.update({name: mmap.mmap(-1, _SIZE) for name in names})


def become(name: str) -> None:
    """Be the process with this name from now on."""
    global _own_name
    _own_name = name


async def keep_publishing(registries: Sequence[CollectorRegistry]) -> None:
    """Write snapshots of these registries until cancelled; returns at once if this process has no siblings."""
    while _own_name is not None:
        publish(registries)
        await clock.pause(PUBLISH_INTERVAL)


def publish(registries: Sequence[CollectorRegistry]) -> None:
    """Write a snapshot of these registries."""
    if _own_name is None:
        return
    families = [
        [
            metric.name,
            metric.documentation,
            metric.type,
            [[s.name, s.labels, s.value] for s in metric.samples],
        ]
        for registry in registries
        for metric in registry.collect()
    ]
    snapshot = json.dumps(families).encode()
    if _HEADER.size + len(snapshot) <= _SIZE:
        area = _areas[_own_name]
        area[: _HEADER.size + len(snapshot)] = _HEADER.pack(len(snapshot), zlib.crc32(snapshot)) + snapshot


def merge(registries: Sequence[CollectorRegistry]) -> CollectorRegistry:
    """A registry with the metrics of these, which are of this process, and of its siblings."""
    publish(registries)
    merged = CollectorRegistry()
    merged.register(_Merged(registries))
    return merged


class _Merged(Collector):
    def __init__(self, registries: Sequence[CollectorRegistry]) -> None:
        self._registries = registries

    def collect(self) -> Iterator[Metric]:
        if _own_name is None:
            for registry in self._registries:
                yield from registry.collect()
            return
        families: dict[str, Metric] = {}
        for process, area in _areas.items():
            for name, documentation, kind, samples in _read(area):
                family = families.setdefault(name, Metric(name, documentation, kind))
                for sample, labels, value in samples:
                    family.add_sample(sample, {**labels, "process": process}, value)
        yield from families.values()


def _read(area: mmap.mmap) -> list[tuple[str, str, str, list[tuple[str, dict[str, str], float]]]]:
    for _ in range(_READ_ATTEMPTS):
        length, checksum = _HEADER.unpack_from(area)
        snapshot = area[_HEADER.size : _HEADER.size + length]
        if snapshot and zlib.crc32(snapshot) == checksum:
            return json.loads(snapshot)
    return []  # it has not started yet
