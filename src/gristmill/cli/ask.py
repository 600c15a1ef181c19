"""`gristmill ask`: print the answer while it is written, then what it cites."""

import json
from contextlib import aclosing
from typing import Any

from rich.console import Console
from rich.text import Text

from gristmill.cli.add import base_id_by_name
from gristmill.cli.client_session import ClientSession, Refused


async def ask(session: ClientSession, out: Console, base: str, question: str, *, as_json: bool) -> int:
    """Answer a question from a base. Returns 0, or 1 if nothing in the base answers it."""
    base_id = await base_id_by_name(session, base, create=False)
    answer: dict[str, Any] = {}
    async with aclosing(session.client.ask_stream(question, [base_id])) as events:
        async for name, data in events:
            if name == "text" and not as_json:
                out.print(data["text"], end="", markup=False, highlight=False, soft_wrap=True)
            elif name == "end":
                answer = data
    if not answer:
        out.print()
        raise Refused("The answer ended early, because the server stopped. Ask again.", code="no_answer")
    if as_json:
        out.print_json(json.dumps(answer, ensure_ascii=False))
    else:
        out.print()
        if answer["citations"]:
            out.print()
        for citation in answer["citations"]:
            out.print(_citation_line(citation), soft_wrap=not out.is_terminal)
        for skipped in answer["skipped"]:
            out.print(Text(skipped["message"], "dim"), soft_wrap=not out.is_terminal)
    return 0 if answer["answered"] else 1


def _citation_line(citation: dict[str, Any]) -> Text:
    location = citation["path"] or citation["url"] or ""
    page = f"  page {citation['page']}" if citation["page"] is not None else ""
    return Text.assemble(
        (f"[{citation['number']}] ", "cyan"),
        (citation["title"], "bold"),
        (page, "dim"),
        (f"  {location}" if location else "", "dim"),
    )
