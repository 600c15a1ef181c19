"""What a stranger needs to know of an installation to help with it: counts, codes, sizes and states. No texts, titles, names or
messages, which could contain what documents say."""

from typing import Any

from gristmill.db import Queries, Tx

queries = Queries(__package__ or "gristmill.integrity")

_SECTIONS = (
    "support_tables",
    "support_bases",
    "support_items",
    "support_warnings",
    "support_jobs",
    "support_job_errors",
    "support_workers",
    "support_webhooks",
    "support_runs",
    "support_migrations",
)


async def summarise(tx: Tx) -> dict[str, list[dict[str, Any]]]:
    """Counts by section, each a list of rows."""
    return {name.removeprefix("support_"): await queries.values(tx, name) for name in _SECTIONS}
