"""The one place that decides: may this caller have this route, for what its path names?

    no row in the rules                                  403 not_decided
    no caller, and the row wants one                     401 no_key
    a role that is too low                               403 role_too_low
    on somebody's behalf, and not an admin, or no `eyes` 403
    the path names something of another organisation,    404, as for what never was
    or, where lists don't apply by themselves, hidden
    an editor who does not see the whole base            403 partly_hidden

It runs before the body is looked at. A path parameter that it does not know is refused, so that a new kind of thing can't be
reached before it was said whose it is.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import cast

from fastapi import Request

from gristmill import catalog, jobs, keys
from gristmill.catalog import BaseId
from gristmill.db import Tx
from gristmill.doors.api import caller as callers
from gristmill.doors.api.caller import Caller
from gristmill.doors.api.context import (
    ON_BEHALF,
    Context,
    as_base_id,
    as_connector_id,
    as_item_id,
    as_job_id,
    as_key_id,
    as_run_id,
    as_webhook_id,
    no_key,
)
from gristmill.doors.api.rules import RULES, Rule, route_of
from gristmill.errors import Forbidden, NotFound
from gristmill.events import webhook
from gristmill.operations import connection, connections, guards
from gristmill.organisation import LOCAL


async def authorise(request: Request) -> None:
    """Let the request through to its route, or refuse it."""
    rule = RULES.get((request.method, route_of(request.scope)))
    if rule is None:
        raise Forbidden("Nobody has decided who may ask for this.", code="not_decided")
    caller = callers.of(request.scope)
    if rule.who == "anyone":
        return
    if caller is None:
        raise no_key()
    if request.headers.get(ON_BEHALF) is not None:
        _behalf(caller, rule)
    _role(caller, rule)
    if not rule.eyes or rule.who == "admin":
        await _names(cast(Context, request.app.state.context), caller, request.path_params)


def _behalf(caller: Caller, rule: Rule) -> None:
    if not rule.eyes:
        raise Forbidden(f"With {ON_BEHALF}, only reading and searching are served.", code="not_on_behalf")
    if caller.role != "admin":
        raise Forbidden(f"Only an admin's key may use {ON_BEHALF}.", code="role_too_low")


def _role(caller: Caller, rule: Rule) -> None:
    if rule.who == "anyone":
        return
    if rule.who == "operator":
        if caller.role != "admin" or caller.org != LOCAL:
            raise Forbidden(
                "This is about the machine: it takes an admin's key of the local organisation.",
                code="operator_only",
            )
        return
    if not caller.is_at_least(rule.who):
        raise Forbidden(
            f"This takes a key with the role {rule.who}; yours is {caller.role}.", code="role_too_low"
        )


# ── what a path names ────────────────────────────────────────────────────────────────────────────────────


async def _base(tx: Tx, caller: Caller, text: str) -> None:
    await _whole(tx, caller, (await guards.base_exists(tx, await as_base_id(text), caller.viewer)).id)


async def _item(tx: Tx, caller: Caller, text: str) -> None:
    item = await guards.item_exists(tx, await as_item_id(text), caller.viewer)
    await _whole(tx, caller, item.base_id)


async def _whole(tx: Tx, caller: Caller, base: BaseId) -> None:
    """Who changes a base must see all of it: what stands beside, above and below would change with it."""
    if not caller.viewer.is_admin and await catalog.hides_something(tx, base, caller.viewer):
        raise Forbidden(
            "Something in this base is not for your eyes, so that you can't change it. Ask an admin.",
            code="partly_hidden",
        )


async def _job(tx: Tx, caller: Caller, text: str) -> None:
    job = await jobs.find_job(tx, await as_job_id(text))
    if job is None or await jobs.owner(tx, job.lane) != caller.org:
        raise NotFound(f"There is no job {text!r}.", code="job_not_found")


async def _webhook(tx: Tx, caller: Caller, text: str) -> None:
    if await webhook.find(tx, await as_webhook_id(text), caller.org) is None:
        raise NotFound(f"There is no webhook {text!r}.", code="webhook_not_found")


async def _connector(tx: Tx, caller: Caller, text: str) -> None:
    found = await connection.find(tx, await as_connector_id(text))
    if found is None or found.org_id != caller.org:
        raise NotFound(f"There is no connector {text!r}.", code="connector_not_found")


async def _run(tx: Tx, caller: Caller, text: str) -> None:
    run = await connection.find_run(tx, await as_run_id(text))
    if run is None or (await connections.known(tx, run.connector_id)).org_id != caller.org:
        raise NotFound(f"There is no run {text!r}.", code="run_not_found")


async def _key(tx: Tx, caller: Caller, text: str) -> None:
    if await keys.find(tx, caller.org, await as_key_id(text)) is None:
        raise NotFound(f"There is no key {text!r}.", code="key_not_found")


async def _part(_tx: Tx, _caller: Caller, _text: str) -> None:
    """A part of what another parameter of the path names."""


NAMED: Mapping[str, Callable[[Tx, Caller, str], Awaitable[None]]] = {
    "base_id": _base,
    "item_id": _item,
    "job_id": _job,
    "webhook_id": _webhook,
    "connector_id": _connector,
    "run_id": _run,
    "key_id": _key,
    "event_id": _part,
    "asset_hash": _part,
    "user_id": _part,
}


async def _names(context: Context, caller: Caller, parameters: Mapping[str, str]) -> None:
    if not parameters:
        return
    async with context.db.connection() as tx:
        for name, text in parameters.items():
            if name not in NAMED:
                raise Forbidden("Nobody has decided whose this is.", code="not_decided")
            await NAMED[name](tx, caller, text)
