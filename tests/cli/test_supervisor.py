"""`gristmill serve` runs its server and its workers as processes of their own, and keeps them running."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import httpx
import pytest

from gristmill.cli import serve
from gristmill.db import reaper
from gristmill.errors import SetupError
from tests.free_port import free_port
from tests.gristmill_process import ServeProcess, environment, run_command, run_serve
from tests.wait_until import wait_until

pytestmark = pytest.mark.slow


def exists(pid: int) -> bool:
    """Whether a process runs."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


async def wait_for_successor(server: ServeProcess, name: str, killed: int) -> int:
    """Wait until another process has taken the place of the killed one; its pid."""

    async def successor() -> int | None:
        pid = server.child_pids().get(name)
        return None if pid == killed else pid

    return await wait_until(successor)


async def wait_until_all_ended(pids: list[int]) -> None:
    """Wait until none of these processes runs."""

    async def ended() -> bool:
        return not any(exists(pid) for pid in pids)

    await wait_until(ended)


@pytest.fixture
def quick_start(database_url: str, quick_embedder: dict[str, str]) -> dict[str, str]:
    """Settings of a server that starts no PostgreSQL of its own and loads no model."""
    return {"database_url": database_url, **quick_embedder}


@pytest.fixture
def env(data_dir: Path, cache_dir: Path, quick_start: dict[str, str]) -> dict[str, str]:
    return environment(data_dir, cache_dir, **quick_start)


async def test_a_killed_server_process_is_started_again_and_no_connection_is_refused(
    env: dict[str, str], tmp_path: Path
) -> None:
    log = tmp_path / "log"
    with run_serve(env, log=log) as server:
        pid = server.child_pids()["server-1"]
        os.kill(pid, signal.SIGKILL)
        with server.client() as client:  # a new connection: it waits until somebody accepts it
            assert client.get("/healthz").status_code == 200
        assert await wait_for_successor(server, "server-1", pid) != pid
        assert server.stop() == 0
    assert '"reason": "SIGKILL"' in log.read_text()
    assert "Traceback" not in log.read_text()


async def test_a_killed_worker_process_is_started_again_and_goes_on(
    env: dict[str, str], tmp_path: Path
) -> None:
    with run_serve(env, log=tmp_path / "log") as server:
        killed = server.child_pids()["worker-1"]
        os.kill(killed, signal.SIGKILL)
        added = run_command(env, "add", "notes", "--note", "The wheel turns.", "--wait")
        assert added.returncode == 0, added.stderr
        assert exists(server.child_pids()["worker-1"])
        assert server.stop() == 0


async def test_nothing_outlives_a_killed_supervisor_and_the_next_serve_starts_at_once(
    env: dict[str, str], tmp_path: Path
) -> None:
    port = str(free_port())
    with run_serve(env, log=tmp_path / "log", port=port) as server:
        pids = [*server.child_pids().values()]
        assert len(pids) == 2
        server.kill()
        with run_serve(env, log=tmp_path / "log", port=port) as successor:
            assert not any(exists(pid) for pid in pids)
            with successor.client() as client:
                assert client.get("/healthz").status_code == 200
            assert successor.stop() == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_clean_stop_leaves_no_process_and_no_postgres(
    data_dir: Path, cache_dir: Path, tmp_path: Path, number: signal.Signals
) -> None:
    with run_serve(environment(data_dir, cache_dir), log=tmp_path / "log") as server:
        pids = [*server.child_pids().values()]
        assert not reaper.is_stopped(data_dir / "postgres")
        assert server.stop(number) == 0
        assert not any(exists(pid) for pid in pids)
    assert reaper.is_stopped(data_dir / "postgres")
    assert "Traceback" not in (tmp_path / "log").read_text()


def test_an_error_at_the_first_start_is_reported_once(env: dict[str, str]) -> None:
    run = run_command(
        {**env, "GRISTMILL_DATABASE_URL": "postgresql://nobody@127.0.0.1:1/none"}, "serve", "--port", "0"
    )
    assert run.returncode != 0
    assert run.stderr.count("127.0.0.1") == 1, run.stderr
    assert "Traceback" not in run.stderr


def test_a_port_that_another_server_has_bound_is_refused_while_that_one_still_starts() -> None:
    port = free_port()
    with serve.listen("127.0.0.1", port):
        with pytest.raises(SetupError) as refusal, serve.listen("127.0.0.1", port):
            pass
        assert refusal.value.code == "port_taken"


async def test_several_server_processes_share_a_port_and_their_metrics(
    data_dir: Path, cache_dir: Path, quick_start: dict[str, str], tmp_path: Path
) -> None:
    env = environment(data_dir, cache_dir, server_processes="2", worker_processes="2", **quick_start)
    with run_serve(env, log=tmp_path / "log") as server:
        running = server.child_pids()
        assert sorted(running) == ["server-1", "server-2", "worker-1", "worker-2"]
        os.kill(running["server-1"], signal.SIGSTOP)  # so that the other one has to answer
        try:
            text = await scrape(server)
        finally:
            os.kill(running["server-1"], signal.SIGCONT)
        found = set(re.findall(r'gristmill_streams\{process="([a-z]+-\d)"\}', text))
        assert found == set(running)
        assert text.count("# TYPE gristmill_streams ") == 1
        assert server.stop() == 0


async def scrape(server: ServeProcess) -> str:
    """The metrics, once a process has answered that is not stopped."""

    async def answer() -> str | None:
        # A stopped process may accept a connection before it stops: try others.
        try:
            async with httpx.AsyncClient(base_url=server.url, timeout=2, trust_env=False) as client:
                text = (await client.get("/metrics")).text
        except httpx.TimeoutException:
            return None
        return text if text.count("gristmill_streams{") == 4 else None

    return await wait_until(answer, every=0.1)


_SCRIPT = """
import os, resource, signal, sys
from gristmill.cli.supervisor import Role, Supervisor
from gristmill.telemetry import logs
logs.configure("info", "json")

announced, announce = os.pipe()

def end(report_ready):
    report_ready()
    os.read(announced, 1)
    return 3

def end_unheard(report_ready):
    report_ready()
    os.read(announced, 1)
    sys.stdout = open("/dev/full", "w")
    sys.stdout.write("this can't be written")
    return 3

def hang(report_ready):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    report_ready()
    while True:
        signal.pause()

def fail(report_ready):
    raise ValueError("broken")

def limit_files(*_signal):
    resource.setrlimit(resource.RLIMIT_NOFILE, (limits.pop(), resource.getrlimit(resource.RLIMIT_NOFILE)[1]))

limits = [resource.getrlimit(resource.RLIMIT_NOFILE)[0]]
if "--few-files" in sys.argv:
    limits.append(3)
    signal.signal(signal.SIGUSR1, limit_files)
role = Role(sys.argv[1], globals()[sys.argv[1]])
def report():
    print("ready", flush=True)
    if "--few-files" in sys.argv:
        limit_files()
    os.write(announce, b"x" * 100)  # one for each start

sys.exit(Supervisor([role], stop_timeout=0.3).run(report))
"""


def run_script(*words: str, script: str = _SCRIPT, before: Sequence[str] = ()) -> "subprocess.Popen[str]":
    """A supervisor with one odd process."""
    command = [*before, sys.executable, "-c", script, *words]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def read_restarts(supervisor: "subprocess.Popen[str]", count: int) -> list[tuple[str, float]]:
    """Why a process was started again, and after how many seconds: the next lines of the log."""
    assert supervisor.stderr is not None
    lines = [supervisor.stderr.readline() for _ in range(count)]
    found = [re.search(r'"reason": "([^"]*)", "after_seconds": ([\d.]+)', line) for line in lines]
    if not all(found):
        supervisor.kill()
    assert all(found), lines
    return [(match[1], float(match[2])) for match in found if match]


@pytest.mark.parametrize("role", ["end", "end_unheard"])
def test_a_process_that_keeps_ending_is_started_less_and_less_often(role: str) -> None:
    with run_script(role) as supervisor:
        restarts = read_restarts(supervisor, 3)
        supervisor.terminate()
        assert restarts == [("exit code 3", delay) for delay in (0.0, 1.0, 2.0)]
        assert supervisor.wait() == 0


def test_a_process_that_cannot_be_forked_is_started_as_soon_as_that_is_possible() -> None:
    """Here the supervisor has no file descriptor left for it."""
    with run_script("end", "--few-files") as supervisor:
        assert read_restarts(supervisor, 2) == [("exit code 3", 0.0), ("Too many open files", 1.0)]
        supervisor.send_signal(signal.SIGUSR1)
        assert read_restarts(supervisor, 1)[0][0] == "exit code 3"
        supervisor.terminate()
        assert supervisor.wait() == 0


# The successor of the first process dies while that of the second one is forked: its signal and the end of its pipe are there at once.
_TWO_DEATHS = """
import os, signal
from pathlib import Path
from gristmill.cli.supervisor import Role, Supervisor
from gristmill.telemetry import logs
logs.configure("info", "json")
forks = 0

def run(report_ready):
    if forks != 3:
        report_ready()
    while True:
        signal.pause()

def kill_all():
    for pid in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split():
        os.kill(int(pid), signal.SIGKILL)
        while ") Z " not in Path(f"/proc/{pid}/stat").read_text():
            pass

def count():
    global forks
    forks += 1
    if forks == 4:
        kill_all()

os.register_at_fork(before=count)
raise SystemExit(Supervisor([Role("first", run), Role("second", run)], stop_timeout=9).run(kill_all))
"""


def test_processes_that_die_at_once_do_not_end_the_supervisor() -> None:
    with run_script(script=_TWO_DEATHS) as supervisor:
        assert read_restarts(supervisor, 3) == [("SIGKILL", 0.0), ("SIGKILL", 0.0), ("SIGKILL", 1.0)]
        supervisor.terminate()
        assert supervisor.wait() == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_process_that_does_not_stop_is_killed(number: signal.Signals) -> None:
    with run_script("hang") as supervisor:
        assert supervisor.stdout is not None
        supervisor.stdout.readline()
        supervisor.send_signal(number)
        assert supervisor.wait() == 0


def test_nohup_keeps_the_end_of_the_terminal_from_stopping_it() -> None:
    with run_script("end", before=["nohup"]) as supervisor:
        read_restarts(supervisor, 1)
        supervisor.send_signal(signal.SIGHUP)
        read_restarts(supervisor, 2)
        supervisor.terminate()
        assert supervisor.wait() == 0


def test_a_process_that_fails_at_the_first_start_ends_the_supervisor() -> None:
    with run_script("fail") as supervisor:
        output, errors = supervisor.communicate()
        assert (supervisor.returncode, output) == (1, "")
        assert "ValueError: broken" in errors


async def test_a_serve_in_a_single_process_has_no_others(
    data_dir: Path, cache_dir: Path, quick_start: dict[str, str], tmp_path: Path
) -> None:
    env = environment(data_dir, cache_dir, single_process="true", **quick_start)
    with run_serve(env, log=tmp_path / "log") as server:
        assert server.child_pids() == {}
        added = run_command(env, "add", "notes", "--note", "The wheel turns.", "--wait")
        assert added.returncode == 0, added.stderr
        assert server.stop() == 0
