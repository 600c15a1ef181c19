"""`gristmill base questions`: what people search a base for, if its owner keeps that; through the API."""

from typing import Annotated, Any

import typer
from rich.markup import escape

from gristmill.cli.common import AsJson, BaseName, DataDir, run_with_client
from gristmill.cli.embedder_swap import base_cli
from gristmill.cli.output import console, new_table, plural, print_json
from gristmill.errors import Invalid


@base_cli.command(
    "questions",
    examples=[
        "gristmill base questions handbook --keep",
        "gristmill base questions handbook",
        "gristmill base questions handbook --off",
    ],
)
def show_questions(
    name: BaseName,
    keep: Annotated[bool, typer.Option("--keep", help="Keep questions from now on.")] = False,
    off: Annotated[
        bool, typer.Option("--off", help="Keep none from now on, and delete those that were kept.")
    ] = False,
    delete: Annotated[bool, typer.Option("--delete", help="Delete those that were kept.")] = False,
    as_json: AsJson = False,
    data_dir: DataDir = None,
) -> None:
    """Show what people search a base for, the latest first; keep it, or delete it. A comparison of embedders uses it."""
    from gristmill.cli.add import base_id_by_name

    if keep + off + delete > 1:
        raise Invalid("Choose one of --keep, --off and --delete.")

    async def run(session: Any) -> dict[str, Any]:
        url = f"/knowledge-bases/{await base_id_by_name(session, name, create=False)}"
        if keep or off:
            setting = "keep" if keep else "off"
            base = await session.call("PATCH", url, json={"settings": {"questions": setting}})
            return {"questions": base["settings"]["questions"]}
        if delete:
            return await session.call("DELETE", f"{url}/questions")
        base = await session.call("GET", url)
        page = await session.call("GET", f"{url}/questions")
        return {"questions": base["settings"]["questions"], **page}

    response = run_with_client(run, data_dir)
    print_json(response, as_json)
    _print(console(as_json), response)


def _print(messages: Any, response: dict[str, Any]) -> None:
    if "deleted" in response:
        messages.print(f"Deleted {plural(response['deleted'], 'question')}.")
    elif response.get("items"):
        table = new_table("question", "times", "best score", "last asked", right=("times", "best score"))
        for row in response["items"]:
            score = "" if row["bestScore"] is None else f"{row['bestScore']:.2f}"
            table.add_row(
                escape(row["question"]), str(row["times"]), score, row["askedAt"][:16].replace("T", " ")
            )
        messages.print(table)
    elif response["questions"] == "off":
        messages.print("Questions are not kept. Keep them from now on with --keep.")
    else:
        messages.print("Questions are kept from now on.")
