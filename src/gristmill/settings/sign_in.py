"""Settings of sessions, local accounts, the OpenID provider and provisioning."""

from datetime import timedelta
from typing import Literal

from pydantic import Field, SecretStr
from pydantic_settings import BaseSettings

from gristmill.settings.services import Duration

UserRoleName = Literal["reader", "editor", "admin"]


class SignInSettings(BaseSettings):
    """How people sign in."""

    session_life: Duration = Field(
        default=timedelta(hours=12),
        description="How long a browser session lasts after signing in.",
    )
    session_idle: Duration = Field(
        default=timedelta(hours=4),
        description="How long a browser session lasts without a request.",
    )
    password_sign_in: bool = Field(default=True, description="Let users who have a password sign in with it.")
    provisioned_role: UserRoleName = Field(
        default="reader",
        description="Role of users whom the identity provider creates, by SCIM or by their first sign-in.",
    )
    public_url: str | None = Field(
        default=None,
        pattern=r"^https?://[^/?#\s]+$",
        description="Address at which browsers reach the server, e.g. `https://kb.example.org`; by default the one of each request.",
    )
    oidc_issuer: str | None = Field(
        default=None,
        pattern=r"^https?://\S+$",
        description="Issuer of the OpenID provider at which people sign in, e.g. `https://sso.example.org/realms/main`.",
    )
    oidc_client_id: str | None = Field(
        default=None, description="Client id of Gristmill at the OpenID provider."
    )
    oidc_client_secret: SecretStr | None = Field(
        default=None,
        description="Client secret of Gristmill at the OpenID provider; none for a public client.",
    )
    oidc_name: str = Field(default="SSO", description="Name of the OpenID provider on the sign-in page.")
    oidc_scopes: str = Field(
        default="openid email profile", description="Scopes that are requested from the OpenID provider."
    )
    oidc_groups_claim: str = Field(default="groups", description="Claim that lists the groups of a person.")
    oidc_groups: dict[str, str] = Field(
        default_factory=dict,
        description="Group of Gristmill for each group of the claim; with none, groups of the claim keep their names.",
    )
    oidc_roles: dict[str, UserRoleName] = Field(
        default_factory=dict,
        description="Role for groups of the claim; the highest counts, and `provisioned_role` without any. With none, roles are not changed by signing in.",
    )
    oidc_organisation: str = Field(
        default="local", description="Organisation of people who sign in at the OpenID provider."
    )
    oidc_trust_email: bool = Field(
        default=False,
        description="Accept addresses that the OpenID provider does not mark as verified. Only if people can't choose their address there.",
    )
