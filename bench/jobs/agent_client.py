"""Starts processes of the benchmark, sends them commands, and stops them by their pid."""

import asyncio
import contextlib
import json
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
_LINE_LIMIT = 1 << 26


async def spawn(module: str, *arguments: str, log: Path | None = None) -> Process:
    """Start a Python process of `module` with pipes; its stderr goes to ours, or to `log`."""
    with contextlib.nullcontext() if log is None else log.open("ab") as errors:
        return await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            module,
            *arguments,
            stdin=PIPE,
            stdout=PIPE,
            stderr=errors,
            cwd=ROOT,
            limit=_LINE_LIMIT,
        )


async def stop_process(process: Process, timeout: float = 15) -> None:
    """Close its input, which asks it to stop; kill it if it does not."""
    if process.stdin is not None:
        process.stdin.close()
    try:
        async with asyncio.timeout(timeout):
            await process.wait()
    except TimeoutError:
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(signal.SIGKILL)
        await process.wait()


class AgentClient:
    """The agent of another process."""

    def __init__(self, process: Process) -> None:
        self._process = process

    async def request(self, do: str, **arguments: Any) -> dict[str, Any]:
        """Send a command, and wait for the response."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"do": do, **arguments}).encode() + b"\n")
        line = await self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"an agent exited during {do}")
        return json.loads(line)


@asynccontextmanager
async def start_agent(engine: str, url: str, postmaster: int) -> AsyncGenerator[AgentClient]:
    """An agent for `engine`, for the length of the block."""
    process = await spawn("bench.jobs.agent", engine, url, str(postmaster))
    try:
        yield AgentClient(process)
    finally:
        await stop_process(process)
