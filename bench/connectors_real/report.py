"""The table of a run: tools by steps, in markdown."""

from collections.abc import Sequence

from bench.connectors_real.story import Outcome, ToolReport


def print_table(reports: Sequence[ToolReport]) -> None:
    """Print how each tool went through each step, then what was skipped or failed, and why."""
    steps = list(dict.fromkeys(outcome.step for report in reports for outcome in report.outcomes))
    head = ["tool", "server", "requests a document", "requests if unchanged", *steps]
    print(_row(head))
    print(_row(["---"] * len(head)))
    for report in reports:
        print(_row(_cells(report, steps)))
    for report in reports:
        if report.unavailable:
            print(f"\n{report.tool}: not available: {report.unavailable}")
        for outcome in report.outcomes:
            if outcome.status != "ok":
                print(f"\n{report.tool}, {outcome.step}: {outcome.status}: {outcome.remark}")


def _cells(report: ToolReport, steps: Sequence[str]) -> list[str]:
    if report.unavailable:
        return [report.tool, "not available", *[""] * (len(steps) + 2)]
    outcomes = {outcome.step: outcome for outcome in report.outcomes}
    per_document = report.first_requests / report.documents if report.documents else 0.0
    return [
        report.tool,
        report.server,
        f"{per_document:.2f}",
        str(report.unchanged_requests),
        *(_cell(outcomes.get(step)) for step in steps),
    ]


def _cell(outcome: Outcome | None) -> str:
    if outcome is None:
        return ""
    return "–" if outcome.status == "skipped" else f"{outcome.status} {outcome.seconds:.0f} s"


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
