"""What SCIM clients read first: the supported features, the kinds of resources and their attributes."""

from typing import Any

from gristmill.server.compat.scim.resources import GROUP, USER

_SCHEMA = "urn:ietf:params:scim:schemas:core:2.0:Schema"
SERVICE_PROVIDER: dict[str, Any] = {
    "schemas": ["urn:ietf:params:scim:schemas:core:2.0:ServiceProviderConfig"],
    "patch": {"supported": True},
    "bulk": {"supported": False, "maxOperations": 0, "maxPayloadSize": 0},
    "filter": {"supported": True, "maxResults": 500},
    "changePassword": {"supported": False},
    "sort": {"supported": False},
    "etag": {"supported": False},
    "authenticationSchemes": [
        {
            "type": "oauthbearertoken",
            "name": "API key",
            "description": "A key with the role scim, as a bearer token.",
            "primary": True,
        }
    ],
}
RESOURCE_TYPES: list[dict[str, Any]] = [
    {
        "schemas": ["urn:ietf:params:scim:schemas:core:2.0:ResourceType"],
        "id": name,
        "name": name,
        "endpoint": f"/{name}s",
        "schema": schema,
    }
    for name, schema in (("User", USER), ("Group", GROUP))
]


def _attribute(name: str, kind: str = "string", **more: Any) -> dict[str, Any]:
    return {
        "name": name,
        "type": kind,
        "multiValued": False,
        "required": False,
        "caseExact": False,
        "mutability": "readWrite",
        "returned": "default",
        "uniqueness": "none",
        **more,
    }


SCHEMAS: list[dict[str, Any]] = [
    {
        "schemas": [_SCHEMA],
        "id": USER,
        "name": "User",
        "description": "A person.",
        "attributes": [
            _attribute("userName", required=True, uniqueness="server"),
            _attribute("externalId", caseExact=True),
            _attribute("displayName"),
            _attribute(
                "name",
                "complex",
                subAttributes=[_attribute(part) for part in ("formatted", "givenName", "familyName")],
            ),
            _attribute(
                "emails",
                "complex",
                multiValued=True,
                subAttributes=[_attribute("value"), _attribute("type"), _attribute("primary", "boolean")],
            ),
            _attribute("active", "boolean"),
            _attribute("groups", "complex", multiValued=True, mutability="readOnly"),
        ],
    },
    {
        "schemas": [_SCHEMA],
        "id": GROUP,
        "name": "Group",
        "description": "A group of people and of other groups.",
        "attributes": [
            _attribute("displayName", required=True, uniqueness="server"),
            _attribute("externalId", caseExact=True),
            _attribute(
                "members",
                "complex",
                multiValued=True,
                subAttributes=[_attribute("value"), _attribute("display"), _attribute("type")],
            ),
        ],
    },
]
