"""docs/reference/events.md has the reference generated from the classes; `python -m tests.docs.test_events` writes it again."""

from dataclasses import fields

from gristmill.events import EVENTS, Event
from tests.docs.pages import ROOT, read

PAGE = "docs/reference/events.md"
BEGIN, END = "<!-- reference -->\n", "<!-- end -->\n"


def reference() -> str:
    """The table of every event."""
    lines = ["| event | written when | data |", "|---|---|---|"]
    for event in EVENTS:
        summary = " ".join((event.__doc__ or "").split())
        lines.append(f"| `{event.type}` | {summary} | {documented_row(event)} |")
    return "\n".join(lines) + "\n"


def documented_row(event: type[Event]) -> str:
    """The names of an event's fields, as readers see them."""
    names = [field.name for field in fields(event) if field.name not in ("base_id", "item_id")]
    camel = [
        name.split("_")[0] + "".join(part.capitalize() for part in name.split("_")[1:]) for name in names
    ]
    return ", ".join(f"`{name}`" for name in camel) or "–"


def test_the_page_has_the_reference_that_the_classes_give() -> None:
    page = read(PAGE)
    assert page[page.index(BEGIN) + len(BEGIN) : page.index(END)] == "\n" + reference() + "\n"


if __name__ == "__main__":
    text = read(PAGE)
    head, tail = text[: text.index(BEGIN) + len(BEGIN)], text[text.index(END) :]
    (ROOT / PAGE).write_text(f"{head}\n{reference()}\n{tail}", encoding="utf-8")
