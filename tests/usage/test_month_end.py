"""A budget of a month begins anew with the month, by the database's clock: what waited goes on by itself."""

from datetime import timedelta

import httpx
import pytest

from gristmill import app
from tests.database_clock import DatabaseClock
from tests.usage.test_budgets import (
    add_notes,
    create_base,
    set_limit,
    wait_until_completed,
    wait_until_paused,
)

pytestmark = pytest.mark.slow


async def test_what_waits_for_a_budget_goes_on_with_the_next_month(
    clock: DatabaseClock, mill: app.Gristmill, http: httpx.AsyncClient
) -> None:
    """The clock stands at the first of January; the budget of a total goes on waiting."""
    base, other = await create_base(http, "monthly"), await create_base(http, "total")
    await set_limit(http, kind="budget", measure="chunks", amount=2, baseId=base)
    await set_limit(http, kind="budget", measure="chunks", period="total", amount=2, baseId=other)
    await add_notes(http, base, 0, 3)
    await add_notes(http, other, 10, 3)
    await wait_until_completed(http, base, 2)
    await wait_until_paused(http, base, 1)
    await wait_until_paused(http, other, 1)
    await clock.advance(timedelta(days=30, hours=23))
    (limit,) = (await http.get("/api/limits", params={"baseId": base})).json()["items"]
    assert (limit["used"], limit["usedUp"], limit["endsAt"]) == (2, True, "2030-02-01T00:00:00Z")
    await clock.advance(timedelta(hours=2))
    await wait_until_completed(http, base, 3)
    (limit,) = (await http.get("/api/limits", params={"baseId": base})).json()["items"]
    assert (limit["used"], limit["endsAt"]) == (1, "2030-03-01T00:00:00Z")
    await wait_until_paused(http, other, 1)
    days = [row["day"] for row in (await http.get("/api/usage?since=2030-01-01")).json()["items"]]
    assert sorted(set(days)) == ["2030-01-01", "2030-02-01"]
