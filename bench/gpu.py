"""The local embedders on a GPU: `python -m bench.gpu [--ir FOLDER] [--only rate|agreement]`, with `gristmill[gpu]`.

    rate        texts of 200 tokens a second: the model alone, in batches of 1,024; through the GPU process, for one, four and eight
                clients that send what a worker sends, tokens and texts
    agreement   how far the vectors of the GPU are from those of the CPU; with `--ir`, nDCG@10 over a corpus in BEIR's layout of
                vectors alone, documents from either and questions from the CPU, as in a search

`python -m bench.workers FOLDER --embedder granite-30m-en --workers 1 4 8` measures the path from files to searchable.
"""

import argparse
import asyncio
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from bench.embedder import ndcg, sample_texts
from gristmill.embedding import LocalEmbedder
from gristmill.embedding.gpu import models
from gristmill.embedding.gpu.client import GpuClient
from gristmill.embedding.local_models import GRANITE, LOCAL_MODELS

TOKENS = 200
BATCH = 1024
CALL = 200  # texts: what a worker sends at most
CALLS_IN_FLIGHT = 2


def measure_model(name: str, rounds: int) -> None:
    """Texts a second of one model, from tokens."""
    torch = models.load_torch()
    model = models.TORCH_MODELS[name]("cuda")
    generator = np.random.default_rng(7)
    texts = [generator.integers(5, 30_000, TOKENS).astype(np.uint32) for _ in range(BATCH)]
    for _ in range(3):
        model.embed(texts)
    rates: list[float] = []
    for _ in range(rounds):
        torch.cuda.synchronize()
        started = time.perf_counter()
        for _ in range(20):
            model.embed(texts)
        torch.cuda.synchronize()
        rates.append(20 * BATCH / (time.perf_counter() - started))
    print(f"{name:18} model alone, batches of {BATCH:,}: {statistics.median(rates):10,.0f} texts/s")


async def run_client(folder: Path, kind: str, calls: int, name: str) -> None:
    """One client: prints how many seconds its calls took."""
    client = GpuClient(folder)
    model = next(model for model in LOCAL_MODELS if model.name == name)
    embedder = LocalEmbedder(folder, threads=2, model=model, gpu=client, gpu_required=True)
    texts = sample_texts(CALL)
    tokens = [list(range(5, 5 + TOKENS))] * CALL
    await embedder.embed_documents(texts[:1])
    print("ready", flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    remaining = iter(range(calls))

    async def pull() -> None:
        for _ in remaining:
            await (client.embed(name, tokens) if kind == "tokens" else embedder.embed_documents(texts))

    await asyncio.gather(*(pull() for _ in range(CALLS_IN_FLIGHT)))
    await embedder.close()
    await client.close()


def measure_process(folder: Path, kind: str, clients: int, name: str) -> None:
    """Texts a second through the GPU process, from so many client processes."""
    calls = 150
    command = [sys.executable, "-m", "bench.gpu", "--as-client", str(folder), kind, str(calls), name]
    running = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(clients)
    ]
    for process in running:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    started = time.perf_counter()
    for process in running:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    for process in running:
        process.wait()
    rate = clients * calls * CALL / (time.perf_counter() - started)
    print(f"{name:18} GPU process, {clients} clients, {kind:6}: {rate:10,.0f} texts/s")


async def measure_agreement(cache: Path, ir: Path | None) -> None:
    """Cosines between the vectors of the CPU and of the GPU, and what they mean for the ranking."""
    client = GpuClient(cache)
    for model in LOCAL_MODELS:
        here = LocalEmbedder(cache, threads=16, model=model)
        there = LocalEmbedder(cache, threads=2, model=model, gpu=client, gpu_required=True)
        texts = sample_texts(1000)
        cosines = (await here.embed_documents(texts) * await there.embed_documents(texts)).sum(axis=1)
        print(f"{model.name:18} cosine CPU to GPU: mean {cosines.mean():.5f}, least {cosines.min():.5f}")
        if ir is not None:
            for place, embedder in (("CPU", here), ("GPU", there)):
                score = await ndcg(embedder, ir, questions=here)
                print(f"    documents on the {place}, questions on the CPU: nDCG@10 of {ir.name} {score:.4f}")
        await here.close()
        await there.close()
    await client.close()


def main() -> None:
    """Measure what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--ir", type=Path, help="a corpus in BEIR's layout")
    parser.add_argument("--only", choices=["rate", "agreement"])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--as-client", nargs=4, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.as_client:
        folder, kind, calls, name = arguments.as_client
        asyncio.run(run_client(Path(folder), kind, int(calls), name))
        return
    with tempfile.TemporaryDirectory() as name:
        if arguments.only != "agreement":
            for model in LOCAL_MODELS:
                measure_model(model.name, arguments.rounds)
            for kind in ("tokens", "texts"):
                for clients in (1, 4, 8):
                    measure_process(Path(name), kind, clients, GRANITE.name)
        if arguments.only != "rate":
            asyncio.run(measure_agreement(Path(name), arguments.ir))


if __name__ == "__main__":
    main()
