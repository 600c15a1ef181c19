"""Run benchmarks one after the other, and keep what each prints: the figures of docs/benchmarks.md.

    uv run --group bench python -m bench.run_all CORPORA [--out FOLDER] [--only NAME,…] [--list]

CORPORA has the folders `docs`, `formats` and `ir`. The whole takes about three hours on two cores; nothing else should run on the
machine, and nothing in the checkout should change. A benchmark that fails doesn't stop the others. FOLDER gets a file for each
benchmark, and `summary.md` with how each ended, how long it took, and how busy the machine was before it began. With `--only`, the
others' files stay as they are, so that a run can be continued.

`pdf`, `gpu`, `scores` and `conformity` are not among them: they need other files, a GPU or recorded calls.
"""

import argparse
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

_ENGINE_OPTIONS = {"OPENSEARCH_TEST_JVM_OPTIONS": "-XX:TieredStopAtLevel=4"}
_SECONDS_OF_QUIET = 5  # in which the machine is watched before each benchmark
_BUSY = 20  # percent of the cores; above it, the summary warns


@dataclass(frozen=True)
class _Step:
    name: str
    command: str  # after `python -m bench.`; `{corpora}` is the folder, `{out}` where files may be kept
    minutes: float  # after which it is killed


# Those that decide about a goal come first: whoever stops early has these.
_STEPS = (
    _Step("memory", "memory", 5),
    _Step("pace", "ingest {corpora}/docs/kubernetes-en --only pace --rounds 1", 25),
    _Step("free", "ingest {corpora}/docs/kubernetes-en --only free", 20),
    _Step("workers", "workers {corpora}/docs/kubernetes-en", 20),
    _Step("reads", "reads {corpora}/docs/kubernetes-en", 10),
    _Step("read_cost", "read_cost", 10),
    _Step("embedder", "embedder --ir {corpora}/ir/cranfield", 10),
    _Step("jobs", "jobs --rounds 3 --seconds 60 --markdown", 30),
    _Step("search", "search --chunks 200000", 15),
    _Step("search_million", "search --chunks 1000000 --cache-mb 256", 30),
    _Step("switch", "switch", 10),
    _Step("bases", "bases", 20),
    _Step("fairness", "fairness --rounds 3", 20),
    _Step("fairness_two", "fairness --rounds 3 --workers 2", 20),
    _Step("ui", "ui", 10),
    _Step("tree", "tree", 10),
    _Step("reader", "reader", 10),
    _Step("events", "events", 20),
    _Step("freshness", "freshness", 15),
    _Step("ingest_kills", "ingest {corpora}/docs/kubernetes-en --only kills --files 500", 15),
    _Step("ingest_memory", "ingest {corpora}/docs/kubernetes-en --only memory --megabytes 20", 30),
    _Step("catalog", "catalog", 15),
    _Step(
        "chunking",
        "chunking {corpora}/docs/kubernetes-en {corpora}/docs/rust-book-en {corpora}/docs/vue-zh-cn",
        10,
    ),
    _Step("relevance", "relevance {corpora}/ir/cranfield", 15),
    _Step(
        "relevance_zh", "relevance {corpora}/ir/drcd-zh-hant --embedder use-multilingual --questions 319", 15
    ),
    _Step("connectors", "connectors --free", 15),
    _Step("confluence", "confluence", 10),
    _Step("formats", "formats {corpora}/formats", 20),
    _Step("recall", "recall {corpora}/formats", 10),
    _Step("structure", "structure {corpora}/docs/rust-book-en --files 5 --peer", 15),
    _Step("scans", "scans {corpora}/docs/rust-book-en --files 1", 20),
    _Step("portable", "portable", 15),
    _Step("upgrade", "upgrade", 10),
    _Step("disaster", "disaster --rounds 6", 15),
    _Step("restore", "restore --gigabytes 4", 20),
    _Step("chaos", "chaos --kills 60 --seed 7", 15),
    _Step("engine", "engine --ir {corpora}/ir/cranfield", 30),
    _Step("connector_walk", "connector_walk --minutes 5", 10),
    _Step("connectors_real", "connectors_real --at-once 4 --outage 60", 30),
)


def _run(step: _Step, corpora: Path, out: Path) -> str:
    """Run a benchmark; its line of the summary."""
    words = shlex.split(step.command.format(corpora=corpora, out=out))
    busy = psutil.cpu_percent(_SECONDS_OF_QUIET)
    began = time.monotonic()
    log = out / f"{step.name}.txt"
    with log.open("w") as output:
        print(f"$ python -m bench.{shlex.join(words)}", file=output, flush=True)
        process = subprocess.Popen(
            [sys.executable, "-m", f"bench.{words[0]}", *words[1:]],
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env={**os.environ, **_ENGINE_OPTIONS},
        )
        try:
            ended = f"exit code {process.wait(step.minutes * 60)}"
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, 9)
            process.wait()
            ended = f"killed after {step.minutes:g} minutes"
        print(f"{ended}, {time.monotonic() - began:.0f} s", file=output)
    warning = f", **{busy:.0f} % busy before**" if busy > _BUSY else f", {busy:.0f} % busy before"
    return f"{step.name}: {ended}, {time.monotonic() - began:.0f} s{warning}"


def _steps(names: str | None) -> Sequence[_Step]:
    if names is None:
        return _STEPS
    known = {step.name: step for step in _STEPS}
    unknown = [name for name in names.split(",") if name not in known]
    if unknown:
        raise SystemExit(f"There is no benchmark {', '.join(unknown)}. --list names them.")
    return [known[name] for name in names.split(",")]


def main() -> None:
    """Run them."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("corpora", type=Path, nargs="?")
    parser.add_argument("--out", type=Path, default=Path("figures"))
    parser.add_argument("--only", help="names, separated by commas")
    parser.add_argument("--list", action="store_true", help="list the benchmarks")
    options = parser.parse_args()
    steps = _steps(options.only)
    if options.list:
        for step in steps:
            print(f"{step.name:<16} python -m bench.{step.command}")
        return
    if options.corpora is None:
        parser.error("CORPORA is missing")
    options.out.mkdir(parents=True, exist_ok=True)
    for step in steps:
        line = _run(step, options.corpora.absolute(), options.out.absolute())
        print(line, flush=True)
        with (options.out / "summary.md").open("a") as summary:
            print(f"- {time.strftime('%Y-%m-%d %H:%M', time.gmtime())} {line}", file=summary)


if __name__ == "__main__":
    main()
