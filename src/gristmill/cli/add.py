"""`gristmill add`: add files, folders, URLs and notes to a base, and with `--wait` wait until they are indexed."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from gristmill import clock
from gristmill.cli.client_session import ClientSession, Refused
from gristmill.cli.common import refresh_rule
from gristmill.cli.refused_entries import failed_entry, refusal_entry, undecodable_entry

POLL_INTERVAL = timedelta(milliseconds=300)
_FINAL_STATUSES = ("completed", "failed")
_CONTAINERS = ("directory", "sitemap", "site", "connector")
_MAX_BARS = 12


@dataclass(frozen=True)
class CommandResult:
    """The result of a command: its JSON output, and whether everything succeeded."""

    output: Mapping[str, Any]
    succeeded: bool


def crawl_rules(options: Mapping[str, Any], *, crawl: bool) -> dict[str, Any] | None:
    """The rules of a crawl that options name; None without a crawl, to which they would not apply."""
    rules = {name: value for name, value in options.items() if value is not None}
    if rules and not crawl:
        raise Refused(
            "--pages, --depth, --include and --exclude apply to crawls. Add --crawl, or remove them.",
            code="nothing_to_crawl",
        )
    return rules if crawl else None


def items_to_add(
    things: Sequence[str],
    notes: Sequence[str],
    ignore: Sequence[str] = (),
    crawl: Mapping[str, Any] | None = None,
    render: str | None = None,
) -> list[dict[str, Any]]:
    """The request for paths, URLs and notes. Folders are added without the entries that match `ignore`; with the rules of a
    crawl, URLs are start pages of sites."""
    has_url = any("://" in thing for thing in things)
    if crawl is not None and not has_url:
        raise Refused("--crawl needs the URL of a start page.", code="nothing_to_crawl")
    if render is not None and not has_url:
        raise Refused(
            "--render applies to web pages. Pass a URL, or remove the option.", code="nothing_to_render"
        )
    items = [_item_body(thing, ignore, crawl) for thing in things] + [
        {"type": "note", "content": note} for note in notes
    ]
    if render is not None:
        items = [{**item, "render": render} if "url" in item else item for item in items]
    if not items:
        raise Refused("Nothing to add. Pass a path, a URL or --note TEXT.", code="nothing_to_add")
    if ignore and not any(item["type"] == "directory" for item in items):
        raise Refused(
            "--ignore applies to folders, but no folder is being added. Remove the option.",
            code="nothing_to_ignore",
        )
    return items


def with_freshness(
    items: list[dict[str, Any]], every: str | None, cron: str | None, *, watch: bool | None
) -> list[dict[str, Any]]:
    """The items of a request with when their sources are checked, and whether folders are watched."""
    if every is not None or cron is not None:
        rule = refresh_rule(every, cron)
        if all(item["type"] == "note" for item in items):
            raise Refused("--every and --cron apply to paths and URLs. Remove them.", code="not_refreshable")
        items = [item if item["type"] == "note" else {**item, "refresh": rule} for item in items]
    if watch is not None:
        if not any(item["type"] == "directory" for item in items):
            raise Refused(
                "--watch and --no-watch apply to folders, but no folder is being added. Remove the option.",
                code="not_watchable",
            )
        items = [{**item, "watch": watch} if item["type"] == "directory" else item for item in items]
    return items


async def add(
    session: ClientSession,
    out: Console,
    base: str,
    items: list[dict[str, Any]],
    *,
    wait: bool,
) -> CommandResult:
    """Add items to the base of this name, which is created if it does not exist."""
    base_id, response = await _add_items(session, base, items)
    created, failed = response["created"], response["failed"]
    for entry in failed:
        path, error = entry["path"], entry["error"]
        out.print(f"[red]not added[/red] {escape(path)}: {escape(error['message'])} ({error['code']})")
    below: list[dict[str, Any]] = []
    if base_id is None:
        out.print(f"The base [bold]{escape(base)}[/bold] was not created.")
    elif wait and created:
        below = await wait_for_items(session, out, base_id, created)
        print_results(out, base, below)
        print_suggestion(out, await session.call("GET", f"/knowledge-bases/{base_id}"))
    elif created:
        out.print(f"{len(created)} accepted in [bold]{escape(base)}[/bold].")
        if not session.is_remote:
            out.print("No server is running. Start `gristmill serve` to index them, or add them with --wait.")
    succeeded = not failed and not any(item["status"] == "failed" for item in below)
    return CommandResult({**response, **({"ended": below} if wait else {})}, succeeded)


async def estimate(
    session: ClientSession, out: Console, base: str, items: list[dict[str, Any]]
) -> CommandResult:
    """Show what adding items would embed, without adding them. The base may not exist yet."""
    try:
        base_id = await base_id_by_name(session, base, create=False)
    except Refused as refusal:
        if refusal.code != "base_not_found":
            raise
        base_id = None
    if not session.has_our_files and any(item["type"] in ("file", "directory") for item in items):
        response = await _estimate_elsewhere(session, base_id, items)
    elif base_id is None:
        response = await session.call("POST", "/estimates", json={"items": items})
    else:
        body = {"items": items, "dryRun": True}
        response = await session.call("POST", f"/knowledge-bases/{base_id}/items", json=body)
    print_estimate(out, response)
    return CommandResult(response, not response["failed"])


async def _estimate_elsewhere(
    session: ClientSession, base_id: str | None, items: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """The estimate of a server that doesn't have the files of this machine: they are sent to it, and not stored."""
    if base_id is None:
        raise Refused(
            "The server estimates files of this machine for a base that exists. Create the base first with `gristmill base create`.",
            code="base_not_found",
        )
    if any(item["type"] == "directory" for item in items):
        raise Refused(
            "A server elsewhere can't read folders of this machine. Pass the files that are in it.",
            code="folder_elsewhere",
        )
    paths = [Path(item["path"]) for item in items if item["type"] == "file"]
    estimates = [await session.client.estimate_upload(base_id, paths)]
    if others := [item for item in items if item["type"] != "file"]:
        body = {"items": others, "dryRun": True}
        estimates.append(await session.call("POST", f"/knowledge-bases/{base_id}/items", json=body))
    return add_estimates(estimates)


def add_estimates(estimates: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The sum of several estimates."""
    total: dict[str, Any] = {
        field: sum(estimate[field] for estimate in estimates)
        for field in ("documents", "readDocuments", "chunks", "texts", "tokens", "images")
    }
    costs = [estimate["cost"] for estimate in estimates if estimate["cost"] is not None]
    doubt = sum(estimate["uncertainty"] * estimate["tokens"] for estimate in estimates)
    return {
        "dryRun": True,
        **total,
        "cost": sum(costs) if costs else None,
        "exact": all(estimate["exact"] for estimate in estimates),
        "uncertainty": doubt / total["tokens"] if total["tokens"] else 0.0,
        "notes": list(dict.fromkeys(note for estimate in estimates for note in estimate["notes"])),
        "failed": [entry for estimate in estimates for entry in estimate["failed"]],
    }


def print_estimate(out: Console, response: Mapping[str, Any]) -> None:
    """Show what a dry run found."""
    for entry in response["failed"]:
        out.print(f"[red]can't be added[/red] {escape(entry['path'])}: {escape(entry['error']['message'])}")
    about = "" if response["exact"] else "about "
    cost = "no price is known" if response["cost"] is None else f"cost {about}{response['cost']:,.4f}"
    range_text = f" (± {response['uncertainty']:.0%})" if response["uncertainty"] >= 0.005 else ""
    out.print(
        f"{response['documents']:,} documents, {about}{response['chunks']:,} chunks. To embed: {about}{response['texts']:,} texts, "
        f"{response['tokens']:,} tokens{range_text}; {cost}."
    )
    for note in response["notes"]:
        out.print(f"[dim]{escape(note)}[/dim]")


def print_suggestion(out: Console, base: Mapping[str, Any]) -> None:
    """Say which embedder knows the languages of a base better than its own, if there is one."""
    if (other := base["suggestedEmbedder"]) is not None:
        out.print(
            f"Many of its texts are in languages that {other} knows, and {escape(base['embedder'])} does not. Change it with"
            f" `gristmill base embedder {escape(base['name'])} {other}`.",
            soft_wrap=True,
        )


async def _add_items(
    session: ClientSession, base: str, items: list[dict[str, Any]]
) -> tuple[str | None, dict[str, Any]]:
    """Add items to a base; returns its id and the API's response. A new base is created only if something can be added:
    a mistyped path must not leave an empty base behind."""
    undecodable = [entry for index, item in enumerate(items) if (entry := undecodable_entry(index, item))]
    if undecodable:
        refused = {entry["index"] for entry in undecodable}
        places = [index for index in range(len(items)) if index not in refused]
        response: dict[str, Any] = {"created": [], "skipped": [], "failed": undecodable}
        if not places:
            return None, response
        base_id, part = await _add_items(session, base, [items[place] for place in places])
        _append(response, part, places)
        return base_id, response
    try:
        base_id = await base_id_by_name(session, base, create=False)
    except Refused as refusal:
        if refusal.code != "base_not_found":
            raise
        failed = [entry for index, item in enumerate(items) if (entry := refusal_entry(index, item))]
        if len(failed) == len(items):
            return None, {"created": [], "failed": failed}
        base_id = await base_id_by_name(session, base, create=True)
    if not session.has_our_files:
        return base_id, await _upload_and_add(session, base_id, items)
    return base_id, await session.call("POST", f"/knowledge-bases/{base_id}/items", json={"items": items})


async def _upload_and_add(
    session: ClientSession, base_id: str, items: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """Add items to a server that doesn't have the files of this machine: files are uploaded. Returns one response for all."""
    response: dict[str, Any] = {"created": [], "skipped": [], "failed": []}
    others: list[int] = []
    for index, item in enumerate(items):
        if item["type"] == "directory":
            message = "A server elsewhere can't read folders of this machine. Pass the files that are in it."
            response["failed"].append(
                failed_entry(index, item["path"], code="folder_elsewhere", message=message)
            )
        elif item["type"] != "file":
            others.append(index)
        elif entry := refusal_entry(index, item):
            response["failed"].append(entry)
        elif "refresh" in item:
            message = "A server elsewhere can't check files of this machine. Remove --every or --cron."
            response["failed"].append(
                failed_entry(index, item["path"], code="not_refreshable", message=message)
            )
        else:
            _append(response, dict(await session.client.upload(base_id, [item["path"]])), [index])
    if others:
        body = {"items": [items[index] for index in others]}
        _append(response, await session.call("POST", f"/knowledge-bases/{base_id}/items", json=body), others)
    return response


def _append(response: dict[str, Any], part: Mapping[str, Any], places: Sequence[int]) -> None:
    """Append the response of a part of the items, which are at these places of the command line."""
    response["created"] += part["created"]
    for name in ("skipped", "failed"):
        response[name] += [{**entry, "index": places[entry["index"]]} for entry in part.get(name, [])]


def print_results(out: Console, base: str, items: Sequence[Mapping[str, Any]]) -> None:
    """Print which items failed, what was skipped in folders, and how many are searchable."""
    for item in items:
        if item["status"] == "failed":
            error = item["error"]
            out.print(
                f"[red]failed[/red] {escape(item['title'])}: {escape(error['message'])} ({error['code']})"
            )
    for item in items:
        if item.get("leftOut"):
            reasons = ", ".join(f"{count} {reason}" for reason, count in sorted(item["leftOut"].items()))
            out.print(f"[yellow]left out[/yellow] of {escape(item['title'])}: {reasons}")
    leaves = [item for item in items if item["type"] not in _CONTAINERS]
    completed = sum(1 for item in leaves if item["status"] == "completed")
    out.print(f"{completed} of {len(leaves)} searchable in [bold]{escape(base)}[/bold].")


async def base_id_by_name(session: ClientSession, name: str, *, create: bool) -> str:
    """The id of the base of this name."""
    return (await session.client.base_named(name, create=create))["id"]


def _item_body(
    path_or_url: str, ignore: Sequence[str], crawl: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    if "://" in path_or_url and crawl is not None:
        return {"type": "site", "url": path_or_url, **crawl}
    if "://" in path_or_url:
        path = urlsplit(path_or_url).path
        return {
            "type": "sitemap" if "sitemap" in path and path.endswith((".xml", ".gz", ".txt")) else "url",
            "url": path_or_url,
        }
    # Neither raises: the server says what is wrong with a path that this process can't look at.
    path = Path(os.path.expanduser(path_or_url)).absolute()  # noqa: PTH111
    if os.path.isdir(path):  # noqa: PTH112
        return {"type": "directory", "path": str(path), **({"ignore": list(ignore)} if ignore else {})}
    return {"type": "file", "path": str(path)}


async def wait_for_items(
    session: ClientSession, out: Console, base_id: str, created: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    """Show a progress bar per item, or one for all if there are many, until all are done; returns these items and
    everything below them."""
    items: dict[str, Any] = {item["id"]: item for item in created}
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f}%"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=out, transient=True) as progress:
        one_bar = len(created) > _MAX_BARS
        bars = (
            {}
            if one_bar
            else {item["id"]: progress.add_task(item["title"][:40], total=100) for item in created}
        )
        overall = progress.add_task("indexing", total=100 * len(created)) if one_bar else None

        def update_bars(changed: Mapping[str, Any]) -> None:
            items.update(changed)
            for item_id, bar in bars.items():
                progress.update(bar, completed=_percent(items[item_id]))
            if overall is not None:
                progress.update(overall, completed=sum(_percent(item) for item in items.values()))

        await session.client.wait(base_id, list(items), on_update=update_bars)
        descendants = await _items_below(session, base_id, list(items))
        while any(
            item["status"] not in _FINAL_STATUSES for item in descendants
        ):  # attachments are added later
            await clock.pause(POLL_INTERVAL)
            descendants = await _items_below(session, base_id, list(items))
    return [*items.values(), *descendants]


async def _items_below(session: ClientSession, base_id: str, roots: Sequence[str]) -> list[dict[str, Any]]:
    """All items below these. Ids are ordered by time: a parent comes before its children."""
    descendants: dict[str, dict[str, Any]] = {}
    cursor: str | None = str(UUID(int=UUID(min(roots)).int - 1)) if roots else None
    while cursor is not None:
        params = {"parentId": "*", "limit": 500, "cursor": cursor}
        page = await session.call("GET", f"/knowledge-bases/{base_id}/items", params=params)
        for item in page["items"]:
            if item["parentId"] in descendants or item["parentId"] in roots:
                descendants[item["id"]] = item
        cursor = page["nextCursor"]
    return list(descendants.values())


def _percent(item: dict[str, Any]) -> int:
    return 100 if item["status"] in _FINAL_STATUSES else item["progress"]
