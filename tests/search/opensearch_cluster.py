"""A real OpenSearch cluster on loopback: one process per node, so that a test can kill one and start it again.

However the process ends that started a cluster, even by kill -9, `opensearch_guard.py` ends the nodes and removes their files.
Tests share one cluster (`shared_cluster.py`).

`python -m tests.search.opensearch_cluster` runs one until its standard input ends.
"""

import fcntl
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import psutil

from tests.free_port import free_port
from tests.search.opensearch_guard import LOCK_NAME
from tests.search.opensearch_install import install, java, unprivileged_user

_HEAP = "512m"
_START_LOOKS = 1_200
_LOOK_INTERVAL = 0.2  # seconds
_JVM_OPTIONS = (
    f"-Xms{_HEAP}",
    f"-Xmx{_HEAP}",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",  # half the processor time of a start; a benchmark sets OPENSEARCH_TEST_JVM_OPTIONS
    "-Djava.security.manager=allow",
    "-Dio.netty.noUnsafe=true",
    "-Dio.netty.allocator.numDirectArenas=0",
    "-Dlog4j2.formatMsgNoLookups=true",
    "-Dopensearch.distribution.type=zip",
)


@dataclass
class Node:
    """One node: its folder, its ports, and its process while it runs."""

    name: str
    folder: Path
    http_port: int
    transport_port: int
    pid: int | None = None

    @property
    def url(self) -> str:
        """The address of its HTTP API."""
        return f"http://127.0.0.1:{self.http_port}"

    @property
    def log(self) -> str:
        """The end of what it printed."""
        path = self.folder / "output.txt"
        return path.read_text(errors="replace")[-3_000:] if path.exists() else ""

    @property
    def is_running(self) -> bool:
        """Whether its process runs; it may be a child of another process of the test run."""
        if self.pid is None:
            return False
        try:
            return psutil.Process(self.pid).status() != psutil.STATUS_ZOMBIE
        except psutil.NoSuchProcess:
            return False

    def kill(self) -> None:
        """kill -9, and see it gone."""
        if self.pid is None:
            return
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        while self.is_running:
            time.sleep(0.01)
        with suppress(ChildProcessError):
            os.waitpid(self.pid, 0)
        self.pid = None


@dataclass
class Cluster:
    """Some nodes that know of each other."""

    home: Path
    nodes: Sequence[Node]
    http: httpx.Client = field(default_factory=lambda: httpx.Client(timeout=60, trust_env=False))

    @property
    def urls(self) -> list[str]:
        """The addresses of all nodes."""
        return [node.url for node in self.nodes]

    def start(self, node: Node) -> None:
        """Start a node's process; `wait` waits until it answers."""
        config = node.folder / "config"
        config.mkdir(parents=True, exist_ok=True)
        (config / "opensearch.yml").write_text(self._settings(node))
        (config / "log4j2.properties").write_text(_LOGGING)
        if (user := unprivileged_user()) is not None:
            for folder in (node.folder, config):
                os.chown(folder, user, -1)
        with (node.folder / "output.txt").open("ab") as output:
            process = subprocess.Popen(
                [
                    str(java()),
                    *_JVM_OPTIONS,
                    *os.environ.get("OPENSEARCH_TEST_JVM_OPTIONS", "").split(),
                    f"-Djava.io.tmpdir={node.folder}",
                    f"-Dopensearch.path.home={self.home}",
                    f"-Dopensearch.path.conf={config}",
                    "-cp",
                    f"{self.home / 'lib'}/*",
                    "org.opensearch.bootstrap.OpenSearch",
                ],
                cwd=node.folder,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                user=user,
            )
        node.pid = process.pid
        process.returncode = 0  # it may outlive this process: `kill` waits for it

    def _settings(self, node: Node) -> str:
        return "\n".join(
            [
                "cluster.name: gristmill-tests",
                f"node.name: {node.name}",
                f"path.data: {node.folder / 'data'}",
                f"path.logs: {node.folder / 'logs'}",
                "network.host: 127.0.0.1",
                f"http.port: {node.http_port}",
                f"transport.port: {node.transport_port}",
                f"discovery.seed_hosts: [{', '.join(f'127.0.0.1:{other.transport_port}' for other in self.nodes)}]",
                f"cluster.initial_cluster_manager_nodes: [{', '.join(other.name for other in self.nodes)}]",
                "cluster.routing.allocation.disk.threshold_enabled: false",
                "action.auto_create_index: false",
                "node.processors: 1",
            ]
        )

    def wait(self, *, nodes: int | None = None, status: str = "green") -> None:
        """Wait until so many nodes have joined (by default all that run) and the indices have this status or better."""
        running = [node for node in self.nodes if node.pid is not None]
        expected = len(running) if nodes is None else nodes
        for _ in range(_START_LOOKS):
            for node in running:
                if not node.is_running:
                    raise RuntimeError(f"{node.name} has ended: {node.log}")
            if all(self._is_ready(node, expected, status) for node in running):
                return
            time.sleep(_LOOK_INTERVAL)
        raise RuntimeError(f"The cluster did not become {status}: {running[0].log}")

    def _is_ready(self, node: Node, nodes: int, status: str) -> bool:
        parameters = {"wait_for_status": status, "wait_for_nodes": f"{nodes}", "timeout": "5s"}
        try:
            return self.http.get(f"{node.url}/_cluster/health", params=parameters).status_code == 200
        except httpx.HTTPError:
            return False

    def kill(self) -> None:
        """kill -9 all nodes at once: an orderly stop takes half a minute."""
        for node in self.nodes:
            if node.pid is not None:
                with suppress(ProcessLookupError):
                    os.kill(node.pid, signal.SIGKILL)
        for node in self.nodes:
            node.kill()


# The default writes six files per node; a test wants the warnings on its standard output.
_LOGGING = """status = error
appender.console.type = Console
appender.console.name = console
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = [%d{ISO8601}][%-5p][%c{1}] %m%n
rootLogger.level = warn
rootLogger.appenderRef.console.ref = console
"""


def create_cluster(folder: Path, nodes: int) -> Cluster:
    """A cluster whose nodes are not started yet."""
    ports = [free_port() for _ in range(2 * nodes)]
    folder.chmod(0o755)  # nodes may run as another user
    return Cluster(
        install(),
        [
            Node(f"node-{number}", folder / f"node-{number}", ports[2 * number], ports[2 * number + 1])
            for number in range(nodes)
        ],
    )


def start_guard(folder: Path) -> None:
    """Start the process that ends the cluster of a folder once nobody holds the folder's lock. The caller holds it."""
    subprocess.Popen(
        [sys.executable, str(Path(__file__).with_name("opensearch_guard.py")), str(folder)],
        start_new_session=True,  # it outlives a Ctrl-C
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ).returncode = 0  # it also outlives this process


@contextmanager
def run_cluster(nodes: int = 3) -> Generator[Cluster]:
    """A cluster that is green; killed and removed at the end."""
    folder = Path(tempfile.mkdtemp(prefix="gristmill-opensearch-"))
    with (folder / LOCK_NAME).open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_SH)
        start_guard(folder)
        cluster = create_cluster(folder, nodes)
        try:
            for node in cluster.nodes:
                cluster.start(node)
            cluster.wait()
            yield cluster
        finally:
            cluster.kill()
            cluster.http.close()


if __name__ == "__main__":
    with run_cluster() as started:
        print("\n".join(started.urls), flush=True)
        with suppress(KeyboardInterrupt):
            sys.stdin.read()
