"""One OpenSearch cluster for all processes of a test run.

The first process that needs the cluster starts it; when the last one has ended, its guard ends it. It has one node; with
OPENSEARCH_TESTS=all it has three, and the tests run that kill nodes, which takes minutes. A test that kills nodes has the
cluster for itself.

All tests share the index of a space: bases have ids of their own, as in a cluster of a company.
"""

import fcntl
import json
import os
import tempfile
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO
from uuid import uuid4

import pytest

from tests.search.opensearch_cluster import Cluster, Node, create_cluster, start_guard
from tests.search.opensearch_guard import LOCK_NAME
from tests.search.opensearch_install import NotAvailable, install

ALL_TESTS = os.environ.get("OPENSEARCH_TESTS") == "all"
takes_minutes = pytest.mark.skipif(not ALL_TESTS, reason="takes minutes: set OPENSEARCH_TESTS=all")


@dataclass
class SharedCluster:
    """The folder that the processes of a run share: the cluster's description and the locks."""

    folder: Path

    @contextmanager
    def locked(self, name: str, mode: int = fcntl.LOCK_EX) -> Generator[None]:
        """Hold a lock during the block."""
        with (self.folder / name).open("a") as file:
            fcntl.flock(file, mode)
            yield

    @contextmanager
    def joined(self) -> Generator[None]:
        """Be a user of the cluster during the block; start it if no process has."""
        with self._lock_users():
            with self.locked("start.lock"):
                if not self._description.exists():
                    self._start()
            yield

    def _lock_users(self) -> IO[str]:
        """Share the lock for which the guard waits. It may just have removed the folder: then in a new one."""
        while True:
            self.folder.mkdir(mode=0o755, exist_ok=True)
            with suppress(FileNotFoundError):
                file = (self.folder / LOCK_NAME).open("a")
                fcntl.flock(file, fcntl.LOCK_SH)
                if os.path.samestat(os.fstat(file.fileno()), (self.folder / LOCK_NAME).stat()):
                    return file

    def _start(self) -> None:
        start_guard(self.folder)
        cluster = create_cluster(self.folder, 3 if ALL_TESTS else 1)
        for node in cluster.nodes:
            cluster.start(node)
        cluster.wait()
        cluster.http.close()
        self.save(cluster)

    @property
    def _description(self) -> Path:
        return self.folder / "cluster.json"

    def save(self, cluster: Cluster) -> None:
        """Note which nodes there are."""
        nodes = [
            [node.name, str(node.folder), node.http_port, node.transport_port, node.pid]
            for node in cluster.nodes
        ]
        self._description.write_text(json.dumps({"home": str(cluster.home), "nodes": nodes}))

    def load(self) -> Cluster:
        """The cluster as it was last noted."""
        noted = json.loads(self._description.read_text())
        nodes = [Node(name, Path(folder), *numbers) for name, folder, *numbers in noted["nodes"]]
        return Cluster(Path(noted["home"]), nodes)


@pytest.fixture(scope="session")
def shared_cluster() -> Generator[SharedCluster]:
    """The run's cluster; the tests are skipped where OpenSearch can't be had."""
    try:
        install()
    except NotAvailable as reason:
        pytest.skip(str(reason))
    run = os.environ.get("PYTEST_XDIST_TESTRUNUID", uuid4().hex)
    shared = SharedCluster(Path(tempfile.gettempdir()) / f"gristmill-opensearch-{run}")
    with shared.joined():
        yield shared


@pytest.fixture
def opensearch(shared_cluster: SharedCluster) -> Generator[Cluster]:
    """The cluster, for a test that only uses it."""
    with shared_cluster.locked("cluster.lock", fcntl.LOCK_SH):
        cluster = shared_cluster.load()
        yield cluster
        cluster.http.close()


@pytest.fixture
def own_opensearch(shared_cluster: SharedCluster) -> Generator[Cluster]:
    """The cluster, for a test that kills nodes: no other test uses it at the same time."""
    with shared_cluster.locked("cluster.lock"):
        cluster = shared_cluster.load()
        yield cluster
        for node in cluster.nodes:
            if not node.is_running:
                cluster.start(node)
        cluster.wait()
        shared_cluster.save(cluster)
        cluster.http.close()
