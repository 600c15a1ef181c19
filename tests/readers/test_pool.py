"""Whatever happens to a child process affects one document only (S3-02, C15, C25)."""

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
from datetime import timedelta
from pathlib import Path

import psutil
import pytest

from gristmill.errors import Transient, Unreadable
from gristmill.readers import ReadLimits, ReadReport, TextPart, fork_server
from gristmill.readers import pool as pool_module
from gristmill.readers.pool import ReaderPool
from gristmill.readers.protocol import Channel
from gristmill.readers.supervisor import read_file
from tests.readers import samples
from tests.readers.conftest import ReadSample, collect
from tests.wait_until import wait_until

pytestmark = pytest.mark.slow

PAGES = [f"This is the text of page {number}, long enough to be one." for number in range(1, 41)]


async def test_without_a_fork_server_a_child_is_an_interpreter_of_its_own(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """On macOS, and on Linux before 5.3."""
    monkeypatch.setattr(fork_server, "is_supported", lambda: False)
    path = samples.save(tmp_path, "a.pdf", samples.pdf(PAGES[:1]))
    async with ReaderPool(1) as pool:
        assert (await collect(pool, path, "a.pdf", tmp_path, ReadLimits())).text
        (pid,) = pool.pids
        assert psutil.Process(pid).ppid() == os.getpid()
    assert not psutil.pid_exists(pid)


def is_running(pid: int) -> bool:
    """Whether a process has not ended; one that nobody has waited for has."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


async def test_a_killed_fork_server_takes_its_children_along_and_is_replaced(
    pool: ReaderPool, read_sample: ReadSample
) -> None:
    async with pool.lease_process():
        pass
    (pid,) = pool.pids
    server = psutil.Process(pid).ppid()
    assert psutil.Process(server).ppid() == os.getpid()
    os.kill(server, signal.SIGKILL)
    code = "reader_killed"
    try:
        await read_sample(samples.pdf(PAGES[:1]), "a.pdf")  # works if the pool has noticed it before
    except Transient as error:
        code = error.code
    assert code == "reader_killed"
    assert (await read_sample(samples.pdf(PAGES[:1]), "a.pdf")).text
    assert not is_running(pid)
    (new_pid,) = pool.pids
    assert psutil.Process(new_pid).ppid() != server


async def test_a_start_that_is_cancelled_leaves_no_child() -> None:
    async with ReaderPool(1) as pool, pool.lease_process() as child:
        server = psutil.Process(psutil.Process(child.pid).ppid())
        before = set(server.children())

        async def lease() -> None:
            async with pool.lease_process(for_ocr=True):
                raise AssertionError("it was cancelled before")

        starting = asyncio.create_task(lease())
        await asyncio.sleep(0)
        starting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await starting

        async def are_gone() -> bool:
            return set(server.children()) == before

        await wait_until(are_gone)


async def test_a_child_is_reused(pool: ReaderPool, read_sample: ReadSample) -> None:
    first = await read_sample(samples.pdf(PAGES[:2]), "a.pdf")
    before = pool.pids
    assert [part.page for part in first.parts] == [1, 2]
    assert (await read_sample(samples.docx(samples.paragraph("Hello")), "b.docx")).text == "Hello\n\n"
    assert pool.pids == before


async def test_a_child_that_has_read_enough_is_replaced(
    pool: ReaderPool, read_sample: ReadSample, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool_module, "_MAX_DOCUMENTS", 1)
    await read_sample(samples.pdf(PAGES[:1]), "a.pdf")
    before = pool.pids
    assert (await read_sample(samples.pdf(PAGES[:1]), "a.pdf")).text
    assert not set(before) & set(pool.pids)


async def test_a_page_that_kills_its_reader_is_skipped_with_a_warning(
    pool: ReaderPool, tmp_path: Path
) -> None:
    """C25: what was read before is kept, and what comes after is read."""
    # More than the socket buffers, so that the child can't be at the end when it is killed.
    long = ["\n".join(f"{page} line {line}" for line in range(50)) for page in PAGES * 20]
    path = samples.save(tmp_path, "a.pdf", samples.pdf(long))
    results = read_file(pool, path, name="a.pdf", media_type=None, scratch=tmp_path, limits=ReadLimits())
    pages: list[int | None] = []
    report = ReadReport()
    async with contextlib.aclosing(results) as stream:
        async for result in stream:
            if isinstance(result, TextPart):
                pages.append(result.page)
                if len(pages) == 1:
                    (pid,) = pool.pids
                    os.kill(pid, signal.SIGSEGV)
            elif isinstance(result, ReadReport):
                report = result
    assert len(set(pages)) == len(pages) in (799, 800)  # it may have been killed between two pages
    assert (report.pages_read, report.pages_total) == (len(pages), 800)
    assert report.warnings == (["partial:799/800", "reader_crashed"] if len(pages) == 799 else [])


async def test_a_reader_that_crashes_fails_only_its_document(
    pool: ReaderPool, read_sample: ReadSample
) -> None:
    async with pool.lease_process():
        pass
    (pid,) = pool.pids
    os.kill(pid, signal.SIGABRT)
    with pytest.raises(Unreadable) as caught:
        await read_sample(samples.pdf(PAGES[:1]), "a.pdf")
    assert caught.value.code == "reader_crashed"
    assert (await read_sample(samples.pdf(PAGES[:1]), "a.pdf")).text


async def test_a_reader_killed_from_outside_is_a_transient_error(
    pool: ReaderPool, read_sample: ReadSample
) -> None:
    async with pool.lease_process():
        pass
    (pid,) = pool.pids
    os.kill(pid, signal.SIGKILL)
    with pytest.raises(Transient) as caught:
        await read_sample(samples.pdf(PAGES[:1]), "a.pdf")
    assert caught.value.code == "reader_killed"


async def test_a_reader_that_hangs_is_killed_and_its_document_is_begun_once_more(
    pool: ReaderPool, read_sample: ReadSample
) -> None:
    async with pool.lease_process():
        pass
    (pid,) = pool.pids
    os.kill(pid, signal.SIGSTOP)
    document = await read_sample(samples.pdf(PAGES[:1]), "a.pdf", stall=timedelta(seconds=1))
    assert document.text.count(PAGES[0]) == 1
    assert not psutil.pid_exists(pid)


async def test_a_document_that_takes_too_long_twice_is_refused(read_sample: ReadSample) -> None:
    text = "".join(samples.paragraph(f"word{number} " * 40) for number in range(8_000))
    with pytest.raises(Unreadable) as caught:
        await read_sample(samples.docx(text), "a.docx", stall=timedelta(milliseconds=20))
    assert caught.value.code == "reader_timeout"
    assert (await read_sample(samples.pdf(PAGES[:1]), "a.pdf")).text


async def test_a_document_gets_no_more_memory_than_its_limit(read_sample: ReadSample) -> None:
    text = "".join(samples.paragraph(f"word{number} " * 40) for number in range(60_000))
    with pytest.raises(Unreadable) as caught:
        await read_sample(samples.docx(text), "a.docx", memory_mb=100, max_memory_mb=100)
    assert caught.value.code == "reader_out_of_memory"
    assert (await read_sample(samples.pdf(PAGES[:1]), "a.pdf")).text


async def test_a_cancelled_reading_kills_its_child(pool: ReaderPool, tmp_path: Path) -> None:
    path = samples.save(tmp_path, "a.pdf", samples.pdf(PAGES * 200))
    results = read_file(pool, path, name="a.pdf", media_type=None, scratch=tmp_path, limits=ReadLimits())
    has_begun = asyncio.Event()

    async def consume() -> None:
        async with contextlib.aclosing(results) as stream:
            async for _ in stream:
                has_begun.set()
                await asyncio.Event().wait()

    task = asyncio.ensure_future(consume())
    await has_begun.wait()
    (pid,) = pool.pids
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not psutil.pid_exists(pid)
    reading = await collect(
        pool, samples.save(tmp_path, "b.pdf", samples.pdf(PAGES[:1])), "b.pdf", tmp_path, ReadLimits()
    )
    assert reading.text


async def test_a_pdf_continues_after_the_pages_that_were_read_before(read_sample: ReadSample) -> None:
    reading = await read_sample(samples.pdf(PAGES), "a.pdf", after=38)
    assert [part.page for part in reading.parts] == [39, 40]
    assert (reading.report.pages_read, reading.report.pages_total) == (40, 40)


async def test_children_inherit_no_secrets_and_no_open_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRISTMILL_DATABASE_URL", "postgresql://secret@db/x")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    async with ReaderPool(1) as pool, pool.lease_process() as child:
        environment = Path(f"/proc/{child.pid}/environ").read_bytes()  # noqa: ASYNC240
        assert b"secret" not in environment
        files = [str(entry.readlink()) for entry in Path(f"/proc/{child.pid}/fd").iterdir()]  # noqa: ASYNC240
        assert len([file for file in files if file.startswith("socket:")]) == 1


SANDBOXED = """
import os, socket, subprocess, sys
from gristmill.readers import sandbox
here = os.readlink('/proc/self/ns/net') if os.path.exists('/proc/self/ns/net') else ''
isolated = sandbox.lock_down(os.getppid())
print(isolated and here == os.readlink('/proc/self/ns/net'))
for attempt in (
    lambda: socket.create_connection(('127.0.0.1', 9)),
    lambda: socket.socket(),
    lambda: socket.getaddrinfo('localhost', 80),
    lambda: subprocess.run(['true']),
    lambda: os.fork(),
):
    try:
        attempt()
        print('done')
    except PermissionError:
        print('refused')
sandbox.limit_cpu(1)
while True:
    pass
"""


def test_a_child_has_no_network_starts_no_process_and_spends_no_more_cpu_than_it_may() -> None:
    process = subprocess.run(
        [sys.executable, "-c", SANDBOXED], capture_output=True, text=True, timeout=60, check=False
    )
    assert process.stdout.split() == ["False", *["refused"] * 5]
    assert -process.returncode == signal.SIGXCPU


HOLDER = """
import asyncio, psutil
from gristmill.readers.pool import ReaderPool
async def main():
    async with ReaderPool(2) as pool:
        async with pool.lease_process(), pool.lease_process():
            print(*pool.pids, *(child.pid for child in psutil.Process().children()), flush=True)
            await asyncio.Event().wait()
asyncio.run(main())
"""


async def test_children_end_with_their_parent_even_when_it_is_killed() -> None:
    """And their fork server."""
    with subprocess.Popen([sys.executable, "-c", HOLDER], stdout=subprocess.PIPE) as holder:  # noqa: ASYNC220
        assert holder.stdout is not None
        pids = [int(pid) for pid in (await asyncio.to_thread(holder.stdout.readline)).split()]
        assert len(pids) == 3
        holder.kill()
        await asyncio.to_thread(holder.wait)

        async def are_gone() -> bool:
            return not any(
                psutil.pid_exists(pid) and psutil.Process(pid).status() != "zombie" for pid in pids
            )

        await wait_until(are_gone)


def test_a_child_waits_for_a_slow_parent() -> None:
    ours, theirs = socket.socketpair()
    numbers: list[int] = []

    def send() -> None:
        line = Channel(theirs)
        for number in range(100):
            line.send({"k": "part", "text": "x" * 128 * 1024, "page": number})
            numbers.append(number)

    sending = threading.Thread(target=send)
    sending.start()
    sending.join(0.2)
    assert sending.is_alive()
    assert len(numbers) < 20
    reader = Channel(ours)
    assert [(reader.receive() or {})["page"] for _ in range(100)] == list(range(100))
    sending.join()
    ours.close()
    theirs.close()


def test_a_child_imports_no_event_loop() -> None:
    """Its imports take a third of a second, and every worker starts several children."""
    code = "import sys, gristmill.readers.child\nassert 'asyncio' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
