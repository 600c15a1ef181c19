"""The process that holds the models on the GPU, here with the graphs of the CPU, and its clients."""

import asyncio
import fcntl
import os
import signal
import tempfile
from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from datetime import timedelta
from pathlib import Path

import numpy as np
import psutil
import pytest

from gristmill import faults
from gristmill.embedding import LocalEmbedder, granite_pack
from gristmill.embedding.gpu import batches
from gristmill.embedding.gpu.batches import BatchRunner, OutOfMemory, Request
from gristmill.embedding.gpu.client import GpuClient, GpuFailed, NoGpu, has_torch
from gristmill.embedding.gpu.protocol import HalfVectors, Tokens, tokens
from gristmill.embedding.local_models import UNIVERSAL
from gristmill.embedding.registry import Embedders
from gristmill.errors import SetupError
from gristmill.settings import Settings
from tests.embedding import reference
from tests.wait_until import wait_until

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def short_folder(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> Generator[None]:
    """The folder of the sockets, whose paths must be short; gone after the test."""
    tmp_path_factory.getbasetemp()  # which pytest would make in that folder otherwise
    with tempfile.TemporaryDirectory() as name:
        monkeypatch.setattr(tempfile, "tempdir", name)
        yield


TEXTS = ["The cat sat on the mat.", "", "中文的句子。", "a longer text " * 40]


@pytest.fixture
async def clients(tmp_path: Path, model_cache: Path) -> AsyncGenerator[Callable[[], GpuClient]]:
    """Makes clients of one process, which ends soon after the last of them."""
    made: list[GpuClient] = []

    def make() -> GpuClient:
        client = GpuClient(tmp_path, device="cpu", idle=timedelta(seconds=1))
        client.folder.mkdir(mode=0o700, exist_ok=True)
        for file in model_cache.glob("*.model"):  # converted before
            if not (client.folder / file.name).exists():
                (client.folder / file.name).symlink_to(file)
        made.append(client)
        return client

    yield make
    for client in made:
        await client.close()

    async def gone() -> bool:
        return processes(made[0]) == []

    await wait_until(gone)


def processes(client: GpuClient) -> list[psutil.Process]:
    """The GPU processes of this client's folder."""
    return [
        process
        for process in psutil.process_iter(["cmdline", "status"])
        if str(client.folder) in (process.info["cmdline"] or [])
        and process.info["status"] != psutil.STATUS_ZOMBIE
    ]


async def test_workers_share_one_process_and_get_the_vectors_of_their_own_texts(
    clients: Callable[[], GpuClient], model_cache: Path, local: LocalEmbedder, multilingual: LocalEmbedder
) -> None:
    first, second = clients(), clients()
    one = LocalEmbedder(model_cache, 1, gpu=first, gpu_required=True)
    two = LocalEmbedder(model_cache, 1, gpu=second, gpu_required=True)
    other = LocalEmbedder(model_cache, 1, model=UNIVERSAL, gpu=second, gpu_required=True)
    vectors = await asyncio.gather(
        one.embed_documents(TEXTS), two.embed_documents(TEXTS[::-1]), other.embed_documents(TEXTS)
    )
    expected = await local.embed_documents(TEXTS)
    np.testing.assert_allclose(vectors[0], expected, atol=1e-3)
    np.testing.assert_allclose(vectors[1][::-1], expected, atol=1e-3)
    np.testing.assert_allclose(vectors[2], await multilingual.embed_documents(TEXTS), atol=1e-3)

    async def is_alone() -> bool:
        return len(processes(first)) == 1  # one that came second ends by itself

    await wait_until(is_alone)


async def test_a_killed_process_is_started_again_and_no_call_fails(
    clients: Callable[[], GpuClient], model_cache: Path, local: LocalEmbedder
) -> None:
    client = clients()
    embedder = LocalEmbedder(model_cache, 1, gpu=client, gpu_required=True)
    await embedder.embed_documents(["first"])
    (process,) = processes(client)
    calls = [asyncio.create_task(embedder.embed_documents(TEXTS * 20)) for _ in range(3)]

    async def begun() -> bool:
        return process.cpu_times().user > before

    before = process.cpu_times().user
    await wait_until(begun)
    os.kill(process.pid, signal.SIGKILL)
    expected = np.tile(await local.embed_documents(TEXTS), (20, 1))
    for call in calls:
        np.testing.assert_allclose(await call, expected, atol=1e-3)
    assert [new.pid for new in processes(client)] != [process.pid]


async def test_settings_and_their_secrets_do_not_reach_the_process(
    clients: Callable[[], GpuClient], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GRISTMILL_RERANKER_API_KEY", "secret")
    client = clients()
    await client.embed("granite-30m-en", [[0, 5, 2]])
    (process,) = processes(client)
    assert "secret" not in str(process.environ())
    assert client.folder.stat().st_mode & 0o077 == 0


async def test_without_a_gpu_documents_are_embedded_on_the_cpu(
    tmp_path: Path, model_cache: Path, local: LocalEmbedder, caplog: pytest.LogCaptureFixture
) -> None:
    client = GpuClient(tmp_path, device="missing")
    embedder = LocalEmbedder(model_cache, 1, gpu=client)
    expected = await local.embed_documents(TEXTS)
    for _ in range(2):
        np.testing.assert_array_equal(await embedder.embed_documents(TEXTS), expected)
    assert [record.getMessage() for record in caplog.records].count("embedding on the CPU") == 1
    with pytest.raises(NoGpu):
        await LocalEmbedder(model_cache, 1, gpu=client, gpu_required=True).embed_documents(TEXTS)


async def test_a_process_that_never_gets_ready_does_not_stop_the_work(
    tmp_path: Path, model_cache: Path, local: LocalEmbedder
) -> None:
    client = GpuClient(tmp_path, device="cpu", start_timeout=timedelta(seconds=1))
    client.folder.mkdir(mode=0o700)
    with (client.folder / "gpu.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # as one that hangs while it starts
        embedder = LocalEmbedder(model_cache, 1, gpu=client)
        expected = await local.embed_documents(TEXTS)
        with faults.watch("embedding.before_gpu") as call:
            for _ in range(3):
                np.testing.assert_array_equal(await embedder.embed_documents(TEXTS), expected)
        assert call.count == 1  # the next batches don't wait for it again
        with pytest.raises(GpuFailed):
            await LocalEmbedder(model_cache, 1, gpu=client, gpu_required=True).embed_documents(TEXTS)


async def test_who_waits_for_the_process_of_another_worker_learns_that_it_found_no_gpu(
    tmp_path: Path,
) -> None:
    client = GpuClient(tmp_path, device="missing")
    client.folder.mkdir(mode=0o700)
    with faults.watch("gpu.other_process_starts") as waiting:
        with (client.folder / "gpu.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # as the other worker's, which looks for a GPU
            call = asyncio.create_task(client.embed("granite-30m-en", [[0, 5, 2]]))
            await waiting.passed.wait()
        async with asyncio.timeout(60):  # far less than the limit for a process that starts
            with pytest.raises(NoGpu):
                await call


async def test_a_folder_that_others_can_enter_is_refused(tmp_path: Path) -> None:
    client = GpuClient(tmp_path, device="cpu")
    client.folder.mkdir(mode=0o755)
    with pytest.raises(SetupError, match="belongs to someone else"):
        await client.embed("granite-30m-en", [[0, 5, 2]])


@pytest.mark.skipif(has_torch(), reason="PyTorch is installed")
def test_a_gpu_that_is_asked_for_needs_pytorch(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path, embed_device="cuda")
    with pytest.raises(SetupError, match=r"gristmill\[gpu\]"):
        Embedders(settings, tmp_path)


class _SmallDevice:
    """A device with memory for a few tokens: the vector of a text is its first token."""

    dimensions = 1

    def __init__(self, memory: int) -> None:
        self.memory, self.batches = memory, list[int]()

    def start(self, texts: Sequence[Tokens]) -> Callable[[], HalfVectors]:
        self.batches.append(sum(map(len, texts)))
        if self.batches[-1] > self.memory:
            raise OutOfMemory
        return lambda: np.array([[text[0]] for text in texts], np.float16)


async def run_requests(
    models: dict[str, _SmallDevice], requests: list[tuple[str, list[Tokens]]]
) -> list[HalfVectors]:
    """The vectors of each request."""
    loop = asyncio.get_running_loop()
    runner = BatchRunner(models, lambda error: None)
    futures: list[asyncio.Future[HalfVectors]] = []
    for model, texts in requests:
        future: asyncio.Future[HalfVectors] = loop.create_future()
        futures.append(future)

        def done(vectors: HalfVectors, future: asyncio.Future[HalfVectors] = future) -> None:
            loop.call_soon_threadsafe(future.set_result, vectors)

        runner.submit(Request(model, texts, 1, done))
    return await asyncio.gather(*futures)


async def test_batches_that_do_not_fit_are_halved_and_stay_small() -> None:
    device = _SmallDevice(memory=100)
    texts = [tokens([number] * 10) for number in range(64)]
    requests = [("m", texts), ("m", texts)]
    for vectors in await run_requests({"m": device}, requests):
        assert vectors[:, 0].tolist() == list(range(64))
    assert device.batches[0] > 100
    assert max(device.batches[1:]) <= device.batches[0] // 2


async def test_a_batch_is_for_one_model_and_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "MAX_TOKENS", 50)
    one, two = _SmallDevice(1000), _SmallDevice(1000)
    texts = [tokens([number] * 20) for number in range(9)]
    long = [tokens([7] * 80), tokens([8])]
    requests = [("one", texts), ("two", texts[::-1]), ("one", long)]
    first, second, third = await run_requests({"one": one, "two": two}, requests)
    assert (first[:, 0].tolist(), second[:, 0].tolist()) == (list(range(9)), list(range(8, -1, -1)))
    assert third[:, 0].tolist() == [7, 8]
    assert max(two.batches) <= 50
    assert sorted(one.batches)[-1] == 80, "a text that is longer than a batch is one"


@pytest.mark.skipif(not has_torch(), reason="PyTorch is not installed (gristmill[gpu])")
def test_vectors_of_pytorch_are_those_of_the_exact_model(local: LocalEmbedder) -> None:
    from gristmill.embedding.gpu.models import GraniteModel

    exact = reference.Granite(granite_pack.read(granite_pack.find()))
    ids = [[0, *local.tokenizer.encode(text, add_special_tokens=False).ids, 2] for text in TEXTS]
    vectors = GraniteModel("cpu").start([tokens(text) for text in ids])()
    for text, vector in zip(ids, vectors, strict=True):
        assert vector.astype(np.float32) @ exact.embed(text) > 0.999
