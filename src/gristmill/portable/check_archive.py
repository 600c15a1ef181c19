"""Checks an archive from elsewhere in a child process: every hash, every row, in little memory.

The child has limits on memory and CPU time, no network and no processes. An archive that is made to exhaust them kills the child
alone, and is refused. What the child could read, this process can read afterwards: the bytes are the same.
"""

import asyncio
import json
import os
import sys
from pathlib import Path

from gristmill.errors import Invalid
from gristmill.portable.archive import ArchiveReader, damage_error
from gristmill.portable.tables import TABLES, encode_rows
from gristmill.readers import sandbox

# The child needs a few modules of these packages: to import all of them would take it four times as long.
_CHILD = """
import importlib.util, sys
for name in ("gristmill.portable", "gristmill.readers"):
    spec = importlib.util.find_spec(name)
    sys.modules[name] = importlib.util.module_from_spec(spec)
from gristmill.portable.check_archive import main
main()
"""
_MEMORY = 2 << 30
_CPU_SECONDS = 120
_BYTES_PER_CPU_SECOND = 4 << 20  # more time for more bytes
_ROW_BYTES = 64


async def check_archive(path: Path) -> None:
    """Raise `Invalid` unless the archive is one that an export writes, complete and undamaged."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        _CHILD,
        str(path),
        str(os.getpid()),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        output, _ = await process.communicate()
    except BaseException:
        process.kill()
        await process.wait()
        raise
    if process.returncode != 0:
        raise damage_error("it can't be unpacked with a reasonable amount of memory and time")
    problem = json.loads(output)
    if problem is not None:
        raise Invalid(problem["message"], code=problem["code"])


def _check(path: Path) -> None:
    with path.open("rb") as file:
        reader = ArchiveReader(file)
        size = path.stat().st_size
        sandbox.limit_cpu(_CPU_SECONDS + size // _BYTES_PER_CPU_SECOND)
        unpacked = 0
        for table in TABLES:
            for batch in reader.rows(table):
                unpacked += sum(
                    len(value) if isinstance(value, str | bytes) else _ROW_BYTES
                    for row in batch
                    for value in row.values()
                    if value is not None
                )
                reader.check_expansion(unpacked, size)
        for digest in reader.originals():
            for _ in reader.stream(f"originals/{digest}"):
                pass


def main() -> None:
    """Check the archive that the command line names, and print what is wrong with it as JSON."""
    path, parent = Path(sys.argv[1]), int(sys.argv[2])
    encode_rows("exclusions", [], 1)  # loads the libraries before the limits
    sandbox.lock_down(parent)
    sandbox.limit_memory(_MEMORY)
    try:
        _check(path)
    except Invalid as error:
        print(json.dumps({"code": error.code, "message": error.message}))
    else:
        print("null")
