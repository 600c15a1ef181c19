"""`gristmill export` and `gristmill import`: a base as one file, through the API."""

from contextlib import suppress
from datetime import timedelta
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from gristmill import clock
from gristmill.cli.common import AsJson, BaseName, DataDir, run_with_client
from gristmill.cli.output import console, plural, print_json
from gristmill.errors import Conflict, Invalid, NotFound, Permanent

_POLL_INTERVAL = timedelta(milliseconds=200)


class AccessChoice(StrEnum):
    """What becomes of the access lists of an archive."""

    KEEP = "keep"
    ADMINS = "admins"


def export_base(
    name: BaseName,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The archive to write.")],
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the file if it exists.")] = False,
    as_json: AsJson = False,
    data_dir: DataDir = None,
) -> None:
    """Write a base to one archive: documents, originals, texts, chunks, vectors, metadata, access lists. Needs an admin's key."""
    from gristmill.cli.add import base_id_by_name

    if file.exists() and not overwrite:
        raise Conflict(f"{file} exists. Choose another name, or pass --overwrite.", code="file_exists")
    if not file.absolute().parent.is_dir():
        raise NotFound(f"There is no folder {file.absolute().parent}.", code="no_such_folder")

    async def run(session: Any) -> dict[str, Any]:
        base_id = await base_id_by_name(session, name, create=False)
        job = await _follow(session, await session.call("POST", f"/knowledge-bases/{base_id}/export"))
        result: dict[str, Any] = job["result"]
        await _download(session, result, file)
        return {**result, "file": str(file)}

    result = run_with_client(run, data_dir, work=True)
    print_json(result, as_json)
    console(as_json).print(
        f"Exported [bold]{escape(name)}[/bold] to {escape(str(file))}: {plural(result['items'], 'item')}, "
        f"{plural(result['chunks'], 'chunk')}, {result['bytes'] / 1e6:,.1f} MB."
    )


def import_base(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The archive.")],
    name: Annotated[
        str | None,
        typer.Option(
            "--name", "--as", metavar="NAME", help="Name of the new base; by default that of the archive."
        ),
    ] = None,
    re_embed: Annotated[
        bool, typer.Option("--re-embed", help="Make new vectors instead of taking those of the archive.")
    ] = False,
    embedder: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="The embedder of new vectors; by default that of the settings."),
    ] = None,
    access: Annotated[
        AccessChoice,
        typer.Option(help="Keep the access lists of the archive, or let admins only see everything."),
    ] = AccessChoice.KEEP,
    as_json: AsJson = False,
    data_dir: DataDir = None,
) -> None:
    """Create a base from an archive. Nothing is embedded again if this installation has the embedder. Needs an admin's key."""
    if not file.is_file():
        raise NotFound(f"There is no file {file}.", code="no_such_file")
    if embedder is not None and not re_embed:
        raise Invalid("Pass --embedder together with --re-embed.", code="bad_option")
    form = {"access": access.value, "reEmbed": str(re_embed).lower()}
    form |= {key: value for key, value in (("name", name), ("embedder", embedder)) if value is not None}

    async def run(session: Any) -> dict[str, Any]:
        with file.open("rb") as archive:
            parts = {"file": (file.name, archive, "application/octet-stream")}
            begun = await session.call("POST", "/knowledge-bases/import", files=parts, data=form)
        return (await _follow(session, begun))["result"]

    result = run_with_client(run, data_dir, work=True)
    print_json(result, as_json)
    console(as_json).print(
        f"Imported [bold]{escape(result['name'])}[/bold]: {plural(result['documents'], 'document')}. Search it with"
        f" `gristmill search {escape(result['name'])} …`."
    )


async def _follow(session: Any, begun: dict[str, Any]) -> dict[str, Any]:
    """Wait for a job; its last state. Raises the error of one that has failed."""
    while True:
        job: dict[str, Any] = await session.call("GET", f"/jobs/{begun['jobId']}")
        if job["state"] == "done":
            return job
        if job["state"] in ("dead", "cancelled", "dismissed"):
            error = (
                job["errors"][-1]
                if job["errors"]
                else {"message": "The job was cancelled.", "code": "cancelled"}
            )
            raise Permanent(error["message"], code=error["code"])
        await clock.pause(_POLL_INTERVAL)


async def _download(session: Any, result: dict[str, Any], file: Path) -> None:
    """Write the archive to a temporary file beside `file`, which then gets its name; delete it on the server."""
    import httpx

    address, part = f"/v1/files/{result['fileId']}", file.with_name(f"{file.name}.part")
    http = session.client.http
    try:
        async with http.stream("GET", f"{address}/content") as response:
            response.raise_for_status()
            with part.open("wb") as target:
                async for piece in response.aiter_bytes(1 << 20):
                    target.write(piece)
        if part.stat().st_size != result["bytes"]:
            raise Permanent("The download ended early. Export the base again.", code="download_incomplete")
        part.replace(file)
    except httpx.HTTPError as error:
        raise Permanent(
            f"The download ended early ({error or type(error).__name__}). Export the base again.",
            code="download_incomplete",
        ) from error
    finally:
        part.unlink(missing_ok=True)
    with suppress(httpx.HTTPError):  # the archive is here
        await http.delete(address)
