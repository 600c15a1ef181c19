"""Requests generated from `/openapi.json` by schemathesis, against a real server: examples, edge cases, random, sequences.

    uv run python -m bench.schema [--examples N] [--phases …]

Every response must be in the schema, with a body that matches it, and none may be a server error. The caller is an admin of
a separate organisation, so that no path of this machine's disk is read. `positive_data_acceptance` is excluded: the schema
can't say that a path has to be absolute or a name unique. The event stream is excluded: it never ends.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.gristmill_process import environment, run_command, run_serve


def main() -> int:
    """Run schemathesis, print its output, and return its exit code."""
    parser = argparse.ArgumentParser()
    parser.add_argument(
        "--examples", type=int, default=6, help="Random requests for each operation and phase."
    )
    parser.add_argument("--phases", default="examples,coverage,fuzzing,stateful")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="gristmill-schema-", ignore_cleanup_errors=True) as folder:
        root = Path(folder)
        cache = Path(tempfile.gettempdir()) / "gristmill-tests-cache"
        result = run(environment(root / "data", cache), root, arguments.examples, arguments.phases)
    print(result.stdout)
    return result.returncode


_CONFIG = Path(__file__).with_name("schemathesis.toml")


def run(
    env: dict[str, str], folder: Path, examples: int, phases: str, *, is_random: bool = True
) -> "subprocess.CompletedProcess[str]":
    """Run schemathesis against a new server; with the same requests each time unless `is_random`."""
    env = {**env, "GRISTMILL_KEY_REQUESTS_PER_MINUTE": "10000000"}
    key = run_command(env, "keys", "create", "schema", "--role", "admin", "--org", "schema").stdout.strip()
    with run_serve(env, log=folder / "log") as server:
        result = subprocess.run(
            [
                *(sys.executable, "-m", "schemathesis.cli", "--config-file", str(_CONFIG)),
                *("run", f"{server.url}/openapi.json"),
                *("--header", f"Authorization: Bearer {key}"),
                *("--max-examples", str(examples), "--phases", phases, "--workers", "2"),
                *("--checks", "all", "--exclude-checks", "positive_data_acceptance"),
                *("--exclude-path", "/api/events/stream", "--continue-on-failure"),
                # 10 seconds are too few for a model that is loaded on a busy machine
                *("--request-timeout", "60"),
                *([] if is_random else ["--generation-deterministic"]),
            ],
            env={**os.environ, "SCHEMATHESIS_HOOKS": "bench.schema_hooks"},
            cwd=folder.parent if not (Path.cwd() / "bench").is_dir() else Path.cwd(),
            capture_output=True,
            text=True,
            check=False,
        )
        server.stop()
    return result


def count_cases(output: str) -> int:
    """The number of requests that a run reports."""
    match = re.search(r"(\d+) generated", output)
    return int(match.group(1)) if match else 0


if __name__ == "__main__":
    sys.exit(main())
