"""Who may use which route: one rule per route. A route without a rule rejects every request.

    audience   required
    anyone     nothing
    reader     a key of any role, or none on loopback; responses contain what access lists allow
    editor     an editor's or an admin's key; an editor must see every item of the base that it changes
    admin      an admin's key; the resources of the path belong to its organisation
    scim       a key with the role scim, or an admin's
    operator   an admin's key of the local organisation: the route concerns the whole installation

The web UI and its files are not routes: they contain no user data, and anyone may load them (`server/ui/`).

`acl_filtered` marks routes that apply access lists themselves. Only these can be used on behalf of a person.

`base_role` is what the caller must be in the base of the path (`catalog/shares.py`): there a share counts, and the role of the caller
only where an entry has no share. Admins may do everything.
"""

import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from gristmill.catalog.shares import BaseRole

Audience = Literal["anyone", "reader", "editor", "admin", "scim", "operator"]

# Requests that only read; they use POST because a query has a body.
_READ_ONLY_POSTS = frozenset(
    {
        "/api/ask",
        "/api/search",
        "/api/knowledge-bases/{base_id}/search",
        "/api/knowledge-items/{item_id}/why-not",
        "/v1/vector_stores/{store_id}/search",
        "/v1/chat/completions",
        "/v1/responses",
        "/dify/retrieval",
    }
)


@dataclass(frozen=True)
class Rule:
    """What a route requires of its caller."""

    audience: Audience
    acl_filtered: bool = False
    base_role: BaseRole | None = None


_BASE_EDITOR, _BASE_OWNER = Rule("editor", base_role="editor"), Rule("admin", base_role="owner")
_ANYONE, _EDITOR, _ADMIN, _OPERATOR = Rule("anyone"), Rule("editor"), Rule("admin"), Rule("operator")
_SCIM = Rule("scim")
_ACL_FILTERED, _ADMIN_ACL_FILTERED = Rule("reader", acl_filtered=True), Rule("admin", acl_filtered=True)

RULES: Mapping[tuple[str, str], Rule] = {
    ("GET", "/"): _ANYONE,
    ("GET", "/openapi.json"): _ANYONE,
    ("GET", "/healthz"): _ANYONE,
    ("GET", "/readyz"): _ANYONE,
    ("GET", "/metrics"): _OPERATOR,
    ("POST", "/api/session"): _ANYONE,
    ("DELETE", "/api/session"): _ANYONE,
    ("GET", "/api/session"): Rule("reader"),
    ("GET", "/api/api-keys"): _ADMIN,
    ("POST", "/api/api-keys"): _ADMIN,
    ("GET", "/api/api-keys/{key_id}"): _ADMIN,
    ("PATCH", "/api/api-keys/{key_id}"): _ADMIN,
    ("DELETE", "/api/api-keys/{key_id}"): _ADMIN,
    ("GET", "/api/audit"): _ADMIN,
    ("GET", "/api/usage"): _ADMIN,
    ("GET", "/api/limits"): _ADMIN,
    ("POST", "/api/limits"): _ADMIN,
    ("PATCH", "/api/limits/{limit_id}"): _ADMIN,
    ("DELETE", "/api/limits/{limit_id}"): _ADMIN,
    ("GET", "/api/session/methods"): _ANYONE,
    ("GET", "/api/session/oidc"): _ANYONE,
    ("GET", "/api/session/oidc/callback"): _ANYONE,
    ("GET", "/api/oauth/callback"): _ANYONE,
    ("DELETE", "/api/session/all"): Rule("reader"),
    ("PUT", "/api/session/password"): Rule("reader"),
    ("GET", "/api/session/keys"): Rule("reader"),
    ("POST", "/api/session/keys"): Rule("reader"),
    ("DELETE", "/api/session/keys/{key_id}"): Rule("reader"),
    ("GET", "/api/users"): _ADMIN,
    ("POST", "/api/users"): _ADMIN,
    ("GET", "/api/users/{account_id}"): _ADMIN,
    ("PATCH", "/api/users/{account_id}"): _ADMIN,
    ("DELETE", "/api/users/{account_id}"): _ADMIN,
    ("DELETE", "/api/users/{account_id}/sessions"): _ADMIN,
    ("GET", "/api/users/{account_id}/access"): _ADMIN,
    ("GET", "/api/groups"): _ADMIN,
    ("POST", "/api/groups"): _ADMIN,
    ("GET", "/api/groups/{group_id}"): _ADMIN,
    ("PATCH", "/api/groups/{group_id}"): _ADMIN,
    ("DELETE", "/api/groups/{group_id}"): _ADMIN,
    ("GET", "/api/groups/{group_id}/members"): _ADMIN,
    ("POST", "/api/groups/{group_id}/members"): _ADMIN,
    ("DELETE", "/api/groups/{group_id}/members/{member_id}"): _ADMIN,
    ("GET", "/api/knowledge-bases"): _ACL_FILTERED,
    ("POST", "/api/knowledge-bases"): _EDITOR,
    ("POST", "/api/estimates"): _EDITOR,
    ("GET", "/api/knowledge-bases/{base_id}"): _ACL_FILTERED,
    ("PATCH", "/api/knowledge-bases/{base_id}"): _BASE_OWNER,
    ("DELETE", "/api/knowledge-bases/{base_id}"): _BASE_OWNER,
    ("GET", "/api/knowledge-bases/{base_id}/role"): _ACL_FILTERED,
    ("GET", "/api/knowledge-bases/{base_id}/shares"): _BASE_OWNER,
    ("PUT", "/api/knowledge-bases/{base_id}/shares"): _BASE_OWNER,
    ("DELETE", "/api/knowledge-bases/{base_id}/shares"): _BASE_OWNER,
    ("GET", "/api/knowledge-bases/{base_id}/items"): _ACL_FILTERED,
    ("GET", "/api/knowledge-bases/{base_id}/tree"): _ACL_FILTERED,
    ("POST", "/api/knowledge-bases/{base_id}/items"): _BASE_EDITOR,
    ("POST", "/api/knowledge-bases/{base_id}/items/delete"): _BASE_EDITOR,
    ("POST", "/api/knowledge-bases/{base_id}/items/reindex"): _BASE_EDITOR,
    ("POST", "/api/knowledge-bases/{base_id}/items/move"): _BASE_EDITOR,
    ("POST", "/api/knowledge-bases/{base_id}/items/tag"): _BASE_EDITOR,
    ("GET", "/api/knowledge-bases/{base_id}/tags"): _ACL_FILTERED,
    ("POST", "/api/knowledge-bases/{base_id}/files"): _BASE_EDITOR,
    ("GET", "/api/knowledge-bases/{base_id}/exclusions"): _BASE_EDITOR,
    ("DELETE", "/api/knowledge-bases/{base_id}/exclusions"): _BASE_EDITOR,
    ("DELETE", "/api/knowledge-bases/{base_id}/exclusions/{exclusion_id}"): _BASE_EDITOR,
    ("GET", "/api/knowledge-bases/{base_id}/retention"): _ADMIN,
    ("PUT", "/api/knowledge-bases/{base_id}/retention"): _ADMIN,
    ("GET", "/api/knowledge-bases/{base_id}/legal-holds"): _ADMIN,
    ("POST", "/api/knowledge-bases/{base_id}/legal-holds"): _ADMIN,
    ("DELETE", "/api/knowledge-bases/{base_id}/legal-holds/{hold_id}"): _ADMIN,
    ("GET", "/api/deletions"): _ADMIN,
    ("GET", "/api/deletions.csv"): _ADMIN,
    ("GET", "/api/knowledge-bases/{base_id}/queue"): _BASE_EDITOR,
    ("POST", "/api/knowledge-bases/{base_id}/index/move"): _ADMIN,
    ("POST", "/api/knowledge-bases/{base_id}/index/rebuild"): _ADMIN,
    ("POST", "/api/knowledge-bases/{base_id}/export"): _ADMIN,
    ("POST", "/api/knowledge-bases/import"): _ADMIN,
    ("GET", "/api/knowledge-bases/{base_id}/questions"): _ADMIN,
    ("DELETE", "/api/knowledge-bases/{base_id}/questions"): _ADMIN,
    ("GET", "/api/knowledge-bases/{base_id}/embedder"): _BASE_EDITOR,
    ("POST", "/api/knowledge-bases/{base_id}/embedder"): _ADMIN,
    ("POST", "/api/knowledge-bases/{base_id}/embedder/approve"): _ADMIN,
    ("POST", "/api/knowledge-bases/{base_id}/embedder/cancel"): _ADMIN,
    ("POST", "/api/knowledge-bases/{base_id}/embedder/revert"): _ADMIN,
    ("POST", "/api/knowledge-bases/{base_id}/queue/pause"): _BASE_EDITOR,
    ("POST", "/api/knowledge-bases/{base_id}/queue/resume"): _BASE_EDITOR,
    ("POST", "/api/knowledge-bases/{base_id}/queue/recover"): _BASE_EDITOR,
    ("POST", "/api/knowledge-bases/{base_id}/queue/dismiss"): _BASE_EDITOR,
    ("POST", "/api/knowledge-bases/{base_id}/search"): _ACL_FILTERED,
    ("POST", "/api/search"): _ACL_FILTERED,
    ("POST", "/api/ask"): _ACL_FILTERED,
    ("GET", "/api/saved-searches"): Rule("reader"),
    ("POST", "/api/saved-searches"): Rule("reader"),
    ("GET", "/api/saved-searches/{search_id}"): Rule("reader"),
    ("PATCH", "/api/saved-searches/{search_id}"): Rule("reader"),
    ("DELETE", "/api/saved-searches/{search_id}"): Rule("reader"),
    ("GET", "/api/capabilities"): Rule("reader"),
    ("POST", "/api/sample-base"): _EDITOR,
    ("GET", "/api/knowledge-items/{item_id}"): _ACL_FILTERED,
    ("PATCH", "/api/knowledge-items/{item_id}"): _BASE_EDITOR,
    ("DELETE", "/api/knowledge-items/{item_id}"): _BASE_EDITOR,
    ("POST", "/api/knowledge-items/{item_id}/reprocess"): _BASE_EDITOR,
    ("POST", "/api/knowledge-items/{item_id}/refresh"): _BASE_EDITOR,
    ("GET", "/api/knowledge-items/{item_id}/chunks"): _ACL_FILTERED,
    ("PATCH", "/api/knowledge-items/{item_id}/chunks/{chunk_id}"): _BASE_EDITOR,
    ("POST", "/api/knowledge-items/{item_id}/chunks/preview"): _ADMIN,
    ("GET", "/api/knowledge-items/{item_id}/assets"): _ACL_FILTERED,
    ("GET", "/api/knowledge-items/{item_id}/assets/{asset_hash}"): _ACL_FILTERED,
    ("POST", "/api/knowledge-items/{item_id}/assets/analyse"): _BASE_EDITOR,
    ("GET", "/api/knowledge-items/{item_id}/content"): _ACL_FILTERED,
    ("GET", "/api/knowledge-items/{item_id}/original"): _ACL_FILTERED,
    ("GET", "/api/knowledge-items/{item_id}/pages"): _ACL_FILTERED,
    ("GET", "/api/knowledge-items/{item_id}/pages/{page}"): _ACL_FILTERED,
    ("GET", "/api/knowledge-items/{item_id}/rendered"): _ACL_FILTERED,
    ("GET", "/api/knowledge-items/{item_id}/timeline"): _BASE_EDITOR,
    ("GET", "/api/knowledge-items/{item_id}/versions"): _ADMIN,
    ("GET", "/api/knowledge-items/{item_id}/versions/{version}/content"): _ADMIN,
    ("POST", "/api/knowledge-items/{item_id}/why-not"): _ADMIN_ACL_FILTERED,
    ("GET", "/api/jobs"): _ADMIN,
    ("POST", "/api/jobs/retry"): _ADMIN,
    ("GET", "/api/jobs/{job_id}"): _ADMIN,
    ("POST", "/api/jobs/{job_id}/retry"): _ADMIN,
    ("POST", "/api/jobs/{job_id}/cancel"): _ADMIN,
    ("POST", "/api/jobs/{job_id}/dismiss"): _ADMIN,
    ("DELETE", "/api/jobs/{job_id}"): _ADMIN,
    ("GET", "/api/queue"): _ADMIN,
    ("GET", "/api/workers"): _OPERATOR,
    ("GET", "/api/storage"): _OPERATOR,
    ("GET", "/api/embedders"): Rule("reader"),
    ("POST", "/api/embedders"): _ADMIN,
    ("POST", "/api/embedders/test"): _ADMIN,
    ("GET", "/api/embedders/{embedder_name}"): Rule("reader"),
    ("PATCH", "/api/embedders/{embedder_name}"): _ADMIN,
    ("DELETE", "/api/embedders/{embedder_name}"): _ADMIN,
    ("PUT", "/api/embedders/{embedder_name}/default"): _ADMIN,
    ("DELETE", "/api/embedders/{embedder_name}/default"): _ADMIN,
    ("POST", "/api/embedders/{embedder_name}/test"): _ADMIN,
    ("GET", "/api/events"): _ADMIN,
    ("GET", "/api/events/stream"): _ADMIN,
    ("GET", "/api/webhooks"): _ADMIN,
    ("POST", "/api/webhooks"): _ADMIN,
    ("GET", "/api/webhooks/{webhook_id}"): _ADMIN,
    ("PATCH", "/api/webhooks/{webhook_id}"): _ADMIN,
    ("DELETE", "/api/webhooks/{webhook_id}"): _ADMIN,
    ("POST", "/api/webhooks/{webhook_id}/test"): _ADMIN,
    ("GET", "/api/webhooks/{webhook_id}/dead-letters"): _ADMIN,
    ("POST", "/api/webhooks/{webhook_id}/dead-letters/{event_id}/redrive"): _ADMIN,
    ("POST", "/api/webhooks/{webhook_id}/dead-letters/{event_id}/skip"): _ADMIN,
    ("GET", "/api/connector-kinds"): _ADMIN,
    ("POST", "/api/connector-kinds/check"): _ADMIN,
    ("GET", "/api/connectors"): _ADMIN,
    ("POST", "/api/connectors"): _ADMIN,
    ("GET", "/api/connectors/{connector_id}"): _ADMIN,
    ("PATCH", "/api/connectors/{connector_id}"): _ADMIN,
    ("DELETE", "/api/connectors/{connector_id}"): _ADMIN,
    ("POST", "/api/connectors/{connector_id}/check"): _ADMIN,
    ("POST", "/api/connectors/{connector_id}/sign-in"): _ADMIN,
    ("POST", "/api/connectors/{connector_id}/sync"): _ADMIN,
    ("POST", "/api/connectors/{connector_id}/cancel"): _ADMIN,
    ("POST", "/api/connectors/{connector_id}/pause"): _ADMIN,
    ("POST", "/api/connectors/{connector_id}/resume"): _ADMIN,
    ("GET", "/api/connectors/{connector_id}/runs"): _ADMIN,
    ("GET", "/api/connectors/{connector_id}/push"): _ADMIN,
    ("POST", "/api/connectors/{connector_id}/push"): _ANYONE,
    ("POST", "/api/connectors/{connector_id}/push/secret"): _ADMIN,
    ("DELETE", "/api/connectors/{connector_id}/push/secret"): _ADMIN,
    ("GET", "/api/connectors/{connector_id}/failures"): _ADMIN,
    ("GET", "/api/connectors/{connector_id}/groups"): _ADMIN,
    ("GET", "/api/connectors/{connector_id}/identities"): _ADMIN,
    ("PUT", "/api/connectors/{connector_id}/identities/{user_id}"): _ADMIN,
    ("POST", "/api/connectors/{connector_id}/identities/import"): _ADMIN,
    ("POST", "/api/connectors/{connector_id}/identities/match"): _ADMIN,
    ("GET", "/api/connector-runs/{run_id}"): _ADMIN,
    ("GET", "/api/connector-runs/{run_id}/logs"): _ADMIN,
    ("POST", "/v1/files"): _EDITOR,
    ("GET", "/v1/files"): _ACL_FILTERED,
    ("GET", "/v1/files/{file_id}"): _ACL_FILTERED,
    ("GET", "/v1/files/{file_id}/content"): _ACL_FILTERED,
    ("DELETE", "/v1/files/{file_id}"): _EDITOR,
    ("POST", "/v1/vector_stores"): _EDITOR,
    ("GET", "/v1/vector_stores"): _ACL_FILTERED,
    ("GET", "/v1/vector_stores/{store_id}"): _ACL_FILTERED,
    ("POST", "/v1/vector_stores/{store_id}"): _ADMIN,
    ("DELETE", "/v1/vector_stores/{store_id}"): _ADMIN,
    ("POST", "/v1/vector_stores/{store_id}/search"): _ACL_FILTERED,
    ("POST", "/v1/vector_stores/{store_id}/files"): _BASE_EDITOR,
    ("GET", "/v1/vector_stores/{store_id}/files"): _ACL_FILTERED,
    ("GET", "/v1/vector_stores/{store_id}/files/{store_file_id}"): _ACL_FILTERED,
    ("POST", "/v1/vector_stores/{store_id}/files/{store_file_id}"): _BASE_EDITOR,
    ("DELETE", "/v1/vector_stores/{store_id}/files/{store_file_id}"): _BASE_EDITOR,
    ("GET", "/v1/vector_stores/{store_id}/files/{store_file_id}/content"): _ACL_FILTERED,
    ("POST", "/v1/vector_stores/{store_id}/file_batches"): _BASE_EDITOR,
    ("GET", "/v1/vector_stores/{store_id}/file_batches/{batch_id}"): _ACL_FILTERED,
    ("POST", "/v1/vector_stores/{store_id}/file_batches/{batch_id}/cancel"): _BASE_EDITOR,
    ("GET", "/v1/vector_stores/{store_id}/file_batches/{batch_id}/files"): _ACL_FILTERED,
    ("GET", "/v1/models"): _ACL_FILTERED,
    ("GET", "/v1/models/{model:path}"): _ACL_FILTERED,
    ("POST", "/v1/chat/completions"): _ACL_FILTERED,
    ("POST", "/v1/responses"): _ACL_FILTERED,
    ("POST", "/dify/retrieval"): _ACL_FILTERED,
    ("GET", "/scim/v2/ServiceProviderConfig"): _SCIM,
    ("GET", "/scim/v2/ResourceTypes"): _SCIM,
    ("GET", "/scim/v2/Schemas"): _SCIM,
    ("GET", "/scim/v2/Users"): _SCIM,
    ("POST", "/scim/v2/Users"): _SCIM,
    ("GET", "/scim/v2/Users/{scim_user_id}"): _SCIM,
    ("PUT", "/scim/v2/Users/{scim_user_id}"): _SCIM,
    ("PATCH", "/scim/v2/Users/{scim_user_id}"): _SCIM,
    ("DELETE", "/scim/v2/Users/{scim_user_id}"): _SCIM,
    ("GET", "/scim/v2/Groups"): _SCIM,
    ("POST", "/scim/v2/Groups"): _SCIM,
    ("GET", "/scim/v2/Groups/{scim_group_id}"): _SCIM,
    ("PUT", "/scim/v2/Groups/{scim_group_id}"): _SCIM,
    ("PATCH", "/scim/v2/Groups/{scim_group_id}"): _SCIM,
    ("DELETE", "/scim/v2/Groups/{scim_group_id}"): _SCIM,
    ("GET", "/api/health/invariants"): _ADMIN,
    ("GET", "/api/health/reconciler"): _OPERATOR,
    ("POST", "/api/health/reconciler"): _OPERATOR,
}


def may_change(method: str, path: str) -> bool:
    """Whether a request may change something. Such requests are in the audit log and accept an `Idempotency-Key`."""
    if method in ("GET", "HEAD"):
        return False
    match = find_rule(method, path)
    return match is not None and not (method == "POST" and match.template in _READ_ONLY_POSTS)


@dataclass(frozen=True)
class RuleMatch:
    """The rule of a request, with the path template of its route and the parameters of its path."""

    rule: Rule
    template: str
    parameters: Mapping[str, str]


def find_rule(method: str, path: str) -> RuleMatch | None:
    """The rule of a request. Where two routes match, the one with fewer parameters counts."""
    best: RuleMatch | None = None
    for template, rule in _RULES_BY_SHAPE.get((method, path.count("/")), ()):
        match = _path_pattern(template).fullmatch(path)
        if match is None:
            continue
        if best is None or len(match.groupdict()) < len(best.parameters):
            best = RuleMatch(rule, template, match.groupdict())
    return best


def route_path(scope: Mapping[str, Any]) -> str:
    """The path template of the route, as in `RULES`; empty before a route has matched."""
    return str(getattr(scope.get("route"), "path", ""))


def allowed_methods(path: str) -> list[str]:
    """The methods that a path supports. Where two routes match, the one with fewer parameters counts."""
    matches = [(route.count("{"), method) for method, route in RULES if _path_pattern(route).fullmatch(path)]
    fewest = min((parameter_count for parameter_count, _ in matches), default=0)
    return sorted(method for parameter_count, method in matches if parameter_count == fewest)


def _rules_by_shape() -> Mapping[tuple[str, int], list[tuple[str, Rule]]]:
    """The rules by method and number of segments, so that a request is compared with a few only."""
    shapes: dict[tuple[str, int], list[tuple[str, Rule]]] = {}
    for (method, template), rule in RULES.items():
        shapes.setdefault((method, template.count("/")), []).append((template, rule))
    return shapes


_RULES_BY_SHAPE = _rules_by_shape()


@functools.cache
def _path_pattern(route: str) -> re.Pattern[str]:
    return re.compile(re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]+)", route))
