"""The TypeScript client, with types that are generated from our schema: checked by deno, and run against a server."""

import asyncio
import json
import shutil
import subprocess
from pathlib import Path

import deno
import pytest

from gristmill import app
from tests.node_packages import install_package, node
from tests.serve_api import serve_api

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
GENERATOR = "openapi-typescript@7.13.0"
STORY = Path(__file__).with_name("typescript_story.ts")


def run_deno(cache_dir: Path, folder: Path, *arguments: str) -> str:
    ended = subprocess.run(
        [deno.find_deno_bin(), *arguments],
        cwd=folder,
        env={"DENO_DIR": str(cache_dir / "deno"), "NO_COLOR": "1", "DENO_NO_UPDATE_CHECK": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


def generate_types(generator: Path, schema: object, folder: Path) -> None:
    (folder / "openapi.json").write_text(json.dumps(schema))
    program = generator / "node_modules/openapi-typescript/bin/cli.js"
    command = [node(), str(program), "openapi.json", "--default-non-nullable=false", "-o", "schema.d.ts"]
    ended = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr


async def test_the_client_has_the_types_of_the_schema_and_works(
    mill: app.Gristmill, cache_dir: Path, tmp_path: Path
) -> None:
    """`deno run --check` refuses the story if a path, a field or a result has another type than the schema says."""
    generator = await asyncio.to_thread(install_package, cache_dir, GENERATOR)
    for file in (ROOT / "clients/typescript/client.ts", STORY):
        shutil.copy(file, tmp_path)
    await asyncio.to_thread(generate_types, generator, mill.api.openapi(), tmp_path)
    async with serve_api(mill) as url:
        words = ("run", "--check", "--no-remote", "--allow-net=127.0.0.1", STORY.name, url)
        assert await asyncio.to_thread(run_deno, cache_dir, tmp_path, *words) == "ok\n"
