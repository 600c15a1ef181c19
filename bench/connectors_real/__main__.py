"""Connectors against real servers: `uv run python -m bench.connectors_real [--only s3,git] [--install]`.

Starts each server on the loopback address, puts a proxy in front of it, and lets a connector of a real `gristmill serve` follow it
through changes, rate limits, an outage, cut connections and kill -9 (`story.py` has the steps). Prints a table, and exits with 1 if
a step failed. A server that can't be had is skipped with the reason. Programs that are built or downloaded stay in the cache.
"""

import argparse
import shutil
import sys
import tempfile
import time
import traceback
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import platformdirs
import pytest

from bench.connectors_real.proxy import run_proxy
from bench.connectors_real.report import print_table
from bench.connectors_real.story import Outcome, Story, ToolReport
from bench.connectors_real.system import run_system
from bench.connectors_real.tool import Place, RealTool
from bench.connectors_real.tools import TOOLS
from tests import reverse_proxy
from tests.connectors.servers import ServerUnavailable


def main() -> None:
    """Run what was asked for, and exit with 1 if anything failed."""
    options = _parse()
    if options.list:
        for name, tool_class in TOOLS.items():
            print(f"{name:22} {(tool_class.__doc__ or '').partition(chr(10))[0]}")
        return
    began = time.monotonic()
    folder = Path(tempfile.mkdtemp(prefix="gristmill-real-"))
    folder.chmod(0o755)  # as root, PostgreSQL and some servers run as another user
    tempfile.tempdir = str(folder)  # what servers and helpers leave there is deleted too
    try:
        reverse_proxy.certificate()  # before several threads want it
        with ThreadPoolExecutor(options.at_once) as pool:
            runs = [pool.submit(follow, TOOLS[name](), folder, options) for name in options.only]
            reports = [run.result() for run in runs]
    finally:
        if options.keep:
            print(f"logs and data are in {folder}")
        else:
            shutil.rmtree(folder, ignore_errors=True)
    print()
    print_table(reports)
    print(f"{time.monotonic() - began:.0f} seconds in all")
    sys.exit(1 if any(report.has_failed for report in reports) else 0)


def follow(tool: RealTool, folder: Path, options: argparse.Namespace) -> ToolReport:
    """Let a connector of a Gristmill of its own follow a tool through all steps."""
    report = ToolReport(tool.name, "")
    place = Place(folder, options.cache, options.install).below(tool.name)
    try:
        with ExitStack() as stack:
            address = tool.start(stack, place)
            proxy = stack.enter_context(run_proxy(address))
            system = stack.enter_context(run_system(place.folder))
            report = Story(system, tool, proxy, options.outage).run_steps()
    except (ServerUnavailable, pytest.skip.Exception) as reason:
        report.unavailable = str(reason)
        print(f"{tool.name}: not available: {reason}", flush=True)
    except Exception as error:  # a double that got a request no tool would accept, or a fault of this bench
        traceback.print_exc()
        report.outcomes.append(Outcome("set-up", "failed", repr(error), 0.0))
    return report


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench.connectors_real",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--only", type=_parse_names, default=list(TOOLS), help="tools, separated by commas")
    parser.add_argument("--list", action="store_true", help="list the tools")
    parser.add_argument("--install", action="store_true", help="as root: install missing Debian packages")
    parser.add_argument("--outage", type=float, default=15, help="seconds without a server (default: 15)")
    parser.add_argument("--at-once", type=int, default=1, help="tools at a time (default: 1)")
    parser.add_argument("--keep", action="store_true", help="keep the folder with logs and data")
    parser.add_argument(
        "--cache",
        type=Path,
        default=Path(platformdirs.user_cache_dir("gristmill", appauthor=False)) / "connectors_real",
        help="folder for programs that are built or downloaded",
    )
    return parser.parse_args()


def _parse_names(text: str) -> Sequence[str]:
    names = [name.strip() for name in text.split(",")]
    if unknown := sorted(set(names) - set(TOOLS)):
        raise argparse.ArgumentTypeError(f"unknown: {', '.join(unknown)}; there are {', '.join(TOOLS)}")
    return names


if __name__ == "__main__":
    main()
