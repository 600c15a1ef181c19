"""The peers of the ingestion benchmark, each in a process of its own: `python -m bench.ingest_peers PEER DATABASE FOLDER`.

They are an optional dependency group and untyped here: what is imported is `Any`. Each gets its own database on the given
server, and the embedder that costs nothing. Timed from the first file to the last commit; imports, the database and its
extension are prepared before.

    llamaindex   IngestionPipeline: SentenceSplitter with our tokenizer, then PGVectorStore, without docstore and cache.
                 All documents in one run, embedded 512 at a time, added in one transaction, over psycopg2. Over asyncpg and
                 in portions of 100 documents it took 3 % longer, with two worker processes twice as long
    langchain    `index()` with SQLRecordManager and PGVector, both over psycopg: RecursiveCharacterTextSplitter for markdown with our
                 tokenizer's count, cleanup "incremental" by path, 512 chunks at a time
    cocoindex    the flow of its own first example: a component for each file, memoised, RecursiveSplitter for markdown,
                 rows into a table with a vector column and no vector index. It splits by bytes: with `BYTES` it makes
                 about as many chunks as the others
"""

import asyncio
import importlib
import json
import os
import shutil
import sys
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any, cast
from uuid import uuid4

import numpy as np
import psycopg
from numpy.typing import NDArray
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from bench.free_embedder import FreeEmbedder

TOKENS = 256
DIMENSIONS = 384
BYTES = 1_200


async def run(peer: str, url: str, folder: Path) -> tuple[float, int]:
    """Let `peer` ingest the text files of `folder` into its own database: seconds, and chunks."""
    run_peer = {"llamaindex": _llamaindex, "langchain": _langchain, "cocoindex": _cocoindex}[peer]
    table = sql.Identifier("langchain_pg_embedding" if peer == "langchain" else "data_chunks")
    async with _peer_database(url) as peer_url:
        elapsed = await run_peer(peer_url, folder)
        async with await psycopg.AsyncConnection.connect(peer_url) as connection:
            count = sql.SQL("select count(*)::int from {}").format(table)
            row = await (await connection.execute(count)).fetchone()
    return elapsed, row[0] if row else 0


@asynccontextmanager
async def _peer_database(url: str) -> AsyncGenerator[str]:
    name = sql.Identifier(f"peer_{uuid4().hex}")
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
        await connection.execute(sql.SQL("create database {}").format(name))
        try:
            peer_url = make_conninfo(url, dbname=name.as_string(connection).strip('"'))
            async with await psycopg.AsyncConnection.connect(peer_url, autocommit=True) as peer_connection:
                await peer_connection.execute("create extension vector")
            yield peer_url
        finally:
            await connection.execute(sql.SQL("drop database {} with (force)").format(name))


def _import(name: str) -> Any:
    return cast(Any, importlib.import_module(name))


def _files(folder: Path) -> list[Path]:
    return [path for path in sorted(folder.rglob("*")) if path.suffix in (".md", ".txt")]


# ── LlamaIndex ───────────────────────────────────────────────────────────────────────────────────────────


async def _llamaindex(url: str, folder: Path) -> float:
    with TemporaryDirectory() as name:
        # It splits sentences with data in its wheel. uv installs files as hard links, which nltk refuses to read; so it gets a
        # copy.
        core = Path(_import("llama_index.core").__file__).parent
        os.environ["NLTK_DATA"] = shutil.copytree(core / "_static/nltk_cache", f"{name}/nltk")
        try:
            return await asyncio.to_thread(_llamaindex_run, url, folder)
        finally:
            del os.environ["NLTK_DATA"]


def _llamaindex_run(url: str, folder: Path) -> float:
    core, sqlalchemy = _import("llama_index.core"), _import("sqlalchemy")
    url_object = _sqlalchemy_url(url, "psycopg2")
    engine = sqlalchemy.create_engine(url_object)
    async_engine = _import("sqlalchemy.ext.asyncio").create_async_engine(
        url_object.set(drivername="postgresql+asyncpg")
    )
    free = FreeEmbedder(dimensions=DIMENSIONS)
    store = _import("llama_index.vector_stores.postgres").PGVectorStore(
        table_name="chunks", embed_dim=DIMENSIONS, engine=engine, async_engine=async_engine
    )
    pipeline = _import("llama_index.core.ingestion").IngestionPipeline(
        transformations=[
            _import("llama_index.core.node_parser").SentenceSplitter(
                chunk_size=TOKENS, chunk_overlap=0, tokenizer=_token_counter(free)
            ),
            _free_embedding_class(free)(embed_batch_size=512),
        ],
        vector_store=store,
        disable_cache=True,
    )
    started = time.perf_counter()
    # If the path were part of the embedded text, the chunks would be smaller.
    metadata_options = {"excluded_embed_metadata_keys": ["path"], "excluded_llm_metadata_keys": ["path"]}
    documents = [
        core.Document(text=path.read_text(encoding="utf-8"), metadata={"path": str(path)}, **metadata_options)
        for path in _files(folder)
    ]
    pipeline.run(documents=documents)
    elapsed = time.perf_counter() - started
    assert sqlalchemy.inspect(engine).has_table("data_chunks")
    engine.dispose()
    return elapsed


def _sqlalchemy_url(url: str, driver: str) -> Any:
    """The address of the database, by Unix socket, for SQLAlchemy."""
    parts = conninfo_to_dict(url)
    query = {"host": str(parts["host"])}
    return _import("sqlalchemy").URL.create(
        f"postgresql+{driver}",
        username=parts.get("user"),
        password=parts.get("password"),
        database=parts["dbname"],
        query={**query, **({"port": str(parts["port"])} if "port" in parts else {})},
    )


def _token_counter(free: FreeEmbedder) -> Callable[[str], list[int]]:
    return lambda text: free.tokenizer.encode(text, add_special_tokens=False).ids


def _free_embedding_class(free: FreeEmbedder) -> Any:
    """Its port for embedders, which is a class to derive from."""

    def embed(_self: Any, text: str) -> list[float]:
        return free.vector(text).tolist()

    async def aembed(_self: Any, text: str) -> list[float]:
        return free.vector(text).tolist()

    base = _import("llama_index.core.embeddings").BaseEmbedding
    return type(
        "FreeEmbedding",
        (base,),
        {"_get_text_embedding": embed, "_get_query_embedding": embed, "_aget_query_embedding": aembed},
    )


# ── LangChain ────────────────────────────────────────────────────────────────────────────────────────────


async def _langchain(url: str, folder: Path) -> float:
    return await asyncio.to_thread(_langchain_run, url, folder)


def _langchain_run(url: str, folder: Path) -> float:
    splitters, indexing = _import("langchain_text_splitters"), _import("langchain_core.indexing")
    document = _import("langchain_core.documents").Document
    engine = _import("sqlalchemy").create_engine(_sqlalchemy_url(url, "psycopg"))
    free = FreeEmbedder(dimensions=DIMENSIONS)
    tokenize = _token_counter(free)

    def count(text: str) -> int:
        return len(tokenize(text))

    splitter = splitters.RecursiveCharacterTextSplitter.from_language(
        splitters.Language.MARKDOWN,
        chunk_size=TOKENS,
        chunk_overlap=0,
        length_function=count,
    )
    store = _import("langchain_postgres").PGVector(
        embeddings=_langchain_embeddings(free), connection=engine, embedding_length=DIMENSIONS
    )
    records = _import("langchain_classic.indexes").SQLRecordManager("bench", engine=engine)
    records.create_schema()
    started = time.perf_counter()
    documents = (
        document(page_content=path.read_text(encoding="utf-8"), metadata={"path": str(path)})
        for path in _files(folder)
    )
    indexing.index(
        splitter.split_documents(documents),
        records,
        store,
        batch_size=512,
        cleanup="incremental",
        source_id_key="path",
        key_encoder="sha256",
    )
    elapsed = time.perf_counter() - started
    engine.dispose()
    return elapsed


def _langchain_embeddings(free: FreeEmbedder) -> Any:
    """Its port for embedders, which is a class to derive from."""

    def embed_documents(_self: Any, texts: list[str]) -> list[list[float]]:
        return [free.vector(text).tolist() for text in texts]

    def embed_query(_self: Any, text: str) -> list[float]:
        return free.vector(text).tolist()

    base = _import("langchain_core.embeddings").Embeddings
    methods = {"embed_documents": embed_documents, "embed_query": embed_query}
    return type("FreeEmbeddings", (base,), methods)()


# ── CocoIndex ────────────────────────────────────────────────────────────────────────────────────────────


async def _cocoindex(url: str, folder: Path) -> float:
    os.environ["COCOINDEX_DISABLE_USAGE_TRACKING"] = (
        "1"  # otherwise it sends usage data on import and at each update
    )
    coco, asyncpg = _import("cocoindex"), _import("asyncpg")
    postgres = _import("cocoindex.connectors.postgres")
    parts = conninfo_to_dict(url)
    with TemporaryDirectory() as state:
        async with asyncpg.create_pool(
            host=parts["host"], port=parts.get("port"), user=parts.get("user"), database=parts["dbname"]
        ) as pool:
            provider = _import("cocoindex._internal.context_keys").ContextProvider()
            # The key is global to the process, so each run has its own.
            key = coco.ContextKey(f"database_{uuid4().hex}")
            provider.provide(key, pool)
            environment = coco.Environment(
                coco.Settings(db_path=Path(state)), name=uuid4().hex, context_provider=provider
            )
            main = _build_flow(coco, postgres, key, folder)
            app = coco.App(coco.AppConfig(name="bench", environment=environment), main)
            started = time.perf_counter()
            await app.update()
            elapsed = time.perf_counter() - started
            environment.close()
    return elapsed


def _build_flow(coco: Any, postgres: Any, key: Any, folder: Path) -> Any:
    localfs = _import("cocoindex.connectors.localfs")
    file_resource = _import("cocoindex.resources.file")
    new_ids = _import("cocoindex.resources.id").IdGenerator
    vector = _import("cocoindex.resources.schema").VectorSchema(dtype=np.dtype(np.float32), size=DIMENSIONS)
    splitter = _import("cocoindex.ops.text").RecursiveSplitter()
    free = FreeEmbedder(dimensions=DIMENSIONS)

    @dataclass
    class CocoRow:
        id: int
        filename: str
        chunk_start: int
        chunk_end: int
        text: str
        embedding: Annotated[NDArray[np.float32], vector]

    async def process_chunk(chunk: Any, filename: str, ids: Any, table: Any) -> None:
        row = CocoRow(
            await ids.next_id(chunk.text),
            filename,
            chunk.start.char_offset,
            chunk.end.char_offset,
            chunk.text,
            free.vector(chunk.text),
        )
        table.declare_row(row=row)

    async def process_file(file: Any, table: Any) -> None:
        chunks = splitter.split(
            await file.read_text(), chunk_size=BYTES, chunk_overlap=0, language="markdown"
        )
        process = coco.fn(process_chunk)
        await coco.map(process, chunks, str(file.file_path.path), new_ids(), table)

    async def main() -> None:
        table = await postgres.mount_table_target(
            key,
            table_name="data_chunks",
            table_schema=await postgres.TableSchema.from_class(CocoRow, primary_key=["id"]),
        )
        matcher = file_resource.PatternFilePathMatcher(included_patterns=["**/*.md", "**/*.txt"])
        directory = localfs.walk_dir(folder, recursive=True, path_matcher=matcher)
        await coco.mount_each(coco.fn(memo=True)(process_file), directory.items(), table)

    return coco.fn(main)


if __name__ == "__main__":
    seconds, chunk_count = asyncio.run(run(sys.argv[1], sys.argv[2], Path(sys.argv[3])))
    print(json.dumps({"seconds": seconds, "chunks": chunk_count}))
