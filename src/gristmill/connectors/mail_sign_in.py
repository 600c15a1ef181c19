"""Who reads the mail of an IMAP connector: someone with a password, with an access token, or who signed in at Google or Microsoft.

    sign-in at   by the host                               scope
    google       imap.gmail.com, imap.googlemail.com       https://mail.google.com/
    microsoft    outlook.office365.com and its aliases     https://outlook.office.com/IMAP.AccessAsUser.All offline_access

`provider` chooses for other hosts. The refresh token is sealed with the credentials, and replaced as access_tokens.py says; the mail
server asks for an access token before each login, and none is stored. Without a sign-in, or after its end, a run fails with
`connector_sign_in_needed`.
"""

from typing import Literal

from pydantic import Field, SecretStr, model_validator

from gristmill.connectors.access_tokens import RefreshTokenRenewal, SignInNeeded
from gristmill.connectors.mail_server import MailLogin, Security
from gristmill.connectors.port import BaseUrl, ConnectorForm, ConnectorLimits
from gristmill.connectors.sign_in import MICROSOFT_AUTHORITY, OAuthFlow, google_flow, microsoft_flow
from gristmill.errors import Permanent

MailProvider = Literal["google", "microsoft"]
_MICROSOFT_HOSTS = ("outlook.office365.com", "outlook.office.com", "imap-mail.outlook.com")
_PROVIDERS: dict[str, MailProvider] = {
    "imap.gmail.com": "google",
    "imap.googlemail.com": "google",
    **dict.fromkeys(_MICROSOFT_HOSTS, "microsoft"),
}
_FLOWS: dict[MailProvider, OAuthFlow] = {
    "google": google_flow("https://mail.google.com/"),
    "microsoft": microsoft_flow("https://outlook.office.com/IMAP.AccessAsUser.All"),
}
_TITLES: dict[MailProvider | None, str] = {"google": "Google", "microsoft": "Microsoft"}


class ImapConfig(ConnectorForm):
    """Which mail to follow."""

    host: str = Field(min_length=1, max_length=253, description="The IMAP server: `imap.example.org`.")
    port: int = Field(default=993, ge=1, le=65535, description="Its port: 993, or 143 with STARTTLS.")
    security: Security = Field(
        default="tls", description="`tls`, or `starttls` on port 143. Plain text is not supported."
    )
    folders: list[str] = Field(
        default=["*"],
        min_length=1,
        max_length=100,
        description="Folders to follow, as globs; all but trash, junk, drafts and archives of everything by default.",
    )
    exclude: list[str] = Field(default=[], max_length=100, description="Folders to leave out, as globs.")
    days: int | None = Field(
        default=None, ge=1, le=36_500, description="Only mail of the last so many days; all by default."
    )
    provider: MailProvider | None = Field(
        default=None,
        description="Where people sign in (OAuth): `google` or `microsoft`; known by the host if it is one of theirs.",
    )
    tenant: str = Field(
        default="common",
        min_length=1,
        max_length=200,
        pattern=r"^[\w.-]+$",
        description="For a sign-in at Microsoft: the id of the tenant, or one of its domains.",
    )
    authority: BaseUrl = Field(
        default=MICROSOFT_AUTHORITY, description="For a sign-in at Microsoft: the address that issues tokens."
    )

    @property
    def mail_provider(self) -> MailProvider | None:
        """Where people sign in; None if that is neither set nor known."""
        return self.provider or _PROVIDERS.get(self.host.lower())


class ImapCredentials(ConnectorForm):
    """Who reads the mail: with a password, or a client at which they sign in, or an access token."""

    username: str = Field(min_length=1, max_length=320, description="The user, usually an email address.")
    password: SecretStr | None = Field(default=None, description="Their password, or better an app password.")
    client_id: str | None = Field(
        default=None, description="The id of an OAuth client, in place of the password."
    )
    client_secret: SecretStr | None = Field(default=None, description="The secret of the OAuth client.")
    refresh_token: SecretStr | None = Field(
        default=None, description="A refresh token of the OAuth client; the sign-in fills it in."
    )
    access_token: SecretStr | None = Field(
        default=None,
        description="A token of OAuth (XOAUTH2), in place of the password. It expires after an hour.",
    )

    @model_validator(mode="after")
    def _check_one_method(self) -> "ImapCredentials":
        client = [self.client_id is not None, self.client_secret is not None]
        methods = [self.password is not None, all(client), self.access_token is not None]
        is_partial = (any(client) or self.refresh_token is not None) and not all(client)
        if sum(methods) != 1 or is_partial:
            raise ValueError("give a password, or clientId and clientSecret, or an access token")
        return self


def mail_sign_in_flow(config: ImapConfig) -> OAuthFlow | None:
    """How people sign in at the provider of a mailbox; None if it has none that is known."""
    return _FLOWS[config.mail_provider] if config.mail_provider is not None else None


def mail_login(config: ImapConfig, credentials: ImapCredentials, limits: ConnectorLimits) -> MailLogin:
    """How the connector logs in. Raises `SignInNeeded` as long as no one has signed in with the client."""
    secret = credentials.password or credentials.access_token
    return MailLogin(
        config.host,
        config.port,
        config.security,
        credentials.username,
        secret.get_secret_value() if secret is not None else "",
        is_token=credentials.password is None,
        renewal=_token_renewal(config, credentials, limits) if secret is None else None,
        advice=_advice(config, credentials),
    )


def _token_renewal(
    config: ImapConfig, credentials: ImapCredentials, limits: ConnectorLimits
) -> RefreshTokenRenewal:
    flow = mail_sign_in_flow(config)
    if flow is None:
        raise Permanent(
            f"{config.host} is not known as Google's or Microsoft's server. Set provider, or enter a password.",
            code="oauth_not_supported",
        )
    if credentials.refresh_token is None or credentials.client_secret is None:
        raise SignInNeeded.at(_TITLES[config.mail_provider])
    form = {
        "grant_type": "refresh_token",
        "client_id": credentials.client_id or "",
        "client_secret": credentials.client_secret.get_secret_value(),
        **({"scope": flow.scope} if config.mail_provider == "microsoft" else {}),
    }
    url = flow.token_url(config)
    token = credentials.refresh_token.get_secret_value()
    return RefreshTokenRenewal(limits.transport(url, {}), url, lambda: form, token, limits.secrets)


def _advice(config: ImapConfig, credentials: ImapCredentials) -> str:
    """What to do when a login is refused."""
    if credentials.client_id is not None:
        return f"Whoever signed in must be {credentials.username} or may open that mailbox, and IMAP must be switched on."
    if credentials.access_token is not None:
        return "Check the user name and the token: it lasts about an hour. With clientId and clientSecret it is renewed."
    if config.mail_provider == "microsoft":
        return "Microsoft accepts no passwords for IMAP: enter clientId and clientSecret of an app, then sign in."
    return "Check the user name and the password; many providers want an app password for IMAP, or that IMAP is switched on."
