"""`gristmill base embedder`: change the embedder or the chunking of a base while it answers, through the API."""

from datetime import timedelta
from enum import StrEnum
from typing import Annotated, Any

import typer
from rich.markup import escape

from gristmill import clock
from gristmill.cli.base_commands import base_cli
from gristmill.cli.common import AsJson, BaseName, DataDir, DryRun, run_with_client
from gristmill.cli.output import console, print_json
from gristmill.errors import Invalid

_POLL_INTERVAL = timedelta(milliseconds=500)
_MESSAGES = {
    "building": "The new vectors are being made ({progress:.0f} %). The old ones answer.",
    "comparing": "Both embedders are being compared. The old one answers.",
    "waiting": "Both are compared: look at the report with --json, then --approve or --cancel.",
    "switched": "The base has the embedder {embedder}.",
    "refused": "{embedder} was refused: {reason}. The base has the embedder {previousEmbedder}.",
    "cancelled": "Cancelled. The base has the embedder {previousEmbedder}.",
}


class Gate(StrEnum):
    """What happens when the new vectors are complete."""

    AUTO = "auto"
    ASK = "ask"
    OFF = "off"


@base_cli.command(
    "embedder",
    examples=[
        "gristmill base embedder handbook",
        "gristmill base embedder handbook use-multilingual --gate ask",
        "gristmill base embedder handbook --revert",
    ],
)
def change_embedder(
    name: BaseName,
    embedder: Annotated[str | None, typer.Argument(help="The other embedder.")] = None,
    max_tokens: Annotated[
        int | None, typer.Option(metavar="N", help="Another chunking: the longest chunk, in tokens.")
    ] = None,
    gate: Annotated[
        Gate, typer.Option(help="Switch if both compare well, when you approve, or without comparing.")
    ] = Gate.AUTO,
    approve: Annotated[bool, typer.Option("--approve", help="Let the compared embedder take over.")] = False,
    cancel: Annotated[
        bool, typer.Option("--cancel", help="End the change; the base stays as it is.")
    ] = False,
    revert: Annotated[bool, typer.Option("--revert", help="Go back to the embedder before.")] = False,
    wait: Annotated[bool, typer.Option("--wait", help="Wait until it has ended, or waits for you.")] = False,
    dry_run: DryRun = False,
    as_json: AsJson = False,
    data_dir: DataDir = None,
) -> None:
    """Change the embedder of a base while it answers. Without another embedder, shows how far the last change is."""
    from gristmill.cli.add import base_id_by_name, print_estimate

    actions = [
        word for word, chosen in (("approve", approve), ("cancel", cancel), ("revert", revert)) if chosen
    ]
    body = _request_body(embedder, max_tokens, gate)
    if len(actions) + (body is not None) > 1:
        raise Invalid("Name another embedder or chunking, or one of --approve, --cancel and --revert.")
    if dry_run and body is None:
        raise Invalid("--dry-run estimates a change: name another embedder or chunking.", code="bad_option")

    async def run(session: Any) -> dict[str, Any]:
        url = f"/knowledge-bases/{await base_id_by_name(session, name, create=False)}/embedder"
        if actions:
            swap = await session.call("POST", f"{url}/{actions[0]}")
        elif body is not None:
            swap = await session.call("POST", url, json={**body, "dryRun": dry_run})
        else:
            swap = await session.call("GET", url)
        while wait and not dry_run and swap["state"] in ("building", "comparing"):
            await clock.pause(_POLL_INTERVAL)
            swap = await session.call("GET", url)
        return swap

    swap = run_with_client(run, data_dir, work=wait)
    print_json(swap, as_json)
    if dry_run:
        print_estimate(console(as_json), swap)
        return
    console(as_json).print(escape(_MESSAGES[swap["state"]].format(**swap, reason=_reason(swap))))
    if wait and swap["state"] == "refused":
        raise typer.Exit(1)


def _request_body(embedder: str | None, max_tokens: int | None, gate: Gate) -> dict[str, Any] | None:
    if embedder is None and max_tokens is None:
        return None
    body: dict[str, Any] = {"gate": gate.value}
    if embedder is not None:
        body["embedder"] = embedder
    if max_tokens is not None:
        body["chunking"] = {"maxTokens": max_tokens}
    return body


def _reason(swap: dict[str, Any]) -> str:
    if swap["error"] is not None:
        return swap["error"]["message"].rstrip(".")
    report: dict[str, Any] = swap["report"] or {}
    return str(report.get("verdict", "")).replace("_", " ")
