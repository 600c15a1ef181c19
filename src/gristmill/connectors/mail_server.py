"""One connection to an IMAP server. Its calls run in a thread, one at a time, and after an interruption the next one connects again.

    no connection, time-out, BYE                 Transient            connector_unavailable
    the server is busy, or limits connections    Transient            connector_unavailable
    login refused                                CredentialsRejected  connector_unauthorized: the run ends
    no access token for the login                what TokenRenewal raises
    any other NO or BAD                          Unreadable           connector_refused

Mailboxes are opened for reading only, and messages are read without a mark that they were seen. No message of an error contains what
the server said: it may repeat the password.
"""

import asyncio
import contextlib
import imaplib
import logging
import socket
import ssl
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeVar, cast

from imapclient import IMAPClient
from imapclient.exceptions import IMAPClientError, LoginError
from imapclient.tls import IMAP4_TLS

from gristmill import net
from gristmill.connectors.access_tokens import TokenRenewal
from gristmill.connectors.transport import CredentialsRejected
from gristmill.errors import Transient, Unreadable

_TIMEOUT = 60.0  # seconds for one answer of the server
_CONNECT_TIMEOUT = 10.0
_MAX_LINE_BYTES = 64 << 20
# What the library logs in detail contains the mail.
logging.getLogger("imapclient").setLevel(logging.WARNING)
_BUSY = ("[UNAVAILABLE]", "[LIMIT]", "[INUSE]", "[SERVERBUG]", "[THROTTLED]", "[OVERQUOTA]")
# Gmail and Outlook say it in words, and refuse even a login so.
_BUSY_WORDS = ("TOO MANY SIMULTANEOUS CONNECTIONS", "REQUEST IS THROTTLED", "AUTHENTICATED BUT NOT CONNECTED")

Security = Literal["tls", "starttls"]
Result = TypeVar("Result")


class MailConnection(Protocol):
    """What a connection is used for: the part of `IMAPClient` that connectors call. Numbers of messages are UIDs."""

    def noop(self) -> object:
        """Ask for nothing."""
        ...

    def list_folders(self) -> list[tuple[Sequence[bytes], bytes, str]]:
        """Every folder: its flags, the separator of its name, its name."""
        ...

    def folder_exists(self, folder: str) -> bool:
        """Whether there is such a folder."""
        ...

    def folder_status(self, folder: str, what: Sequence[str]) -> Mapping[bytes, int]:
        """Counts of a folder, without opening it."""
        ...

    def select_folder(self, folder: str, readonly: bool = False) -> Mapping[bytes, Any]:
        """Open a folder."""
        ...

    def search(self, criteria: Sequence[Any]) -> Sequence[int]:
        """The messages of the open folder that fit."""
        ...

    def fetch(self, messages: Sequence[int], data: Sequence[str]) -> Mapping[int, Mapping[bytes, Any]]:
        """Parts of messages of the open folder."""
        ...

    def logout(self) -> object:
        """End the session."""
        ...

    def shutdown(self) -> object:
        """End the connection without a word to the server."""
        ...

    def socket(self) -> socket.socket:
        """What it reads from."""
        ...


@dataclass(frozen=True)
class MailLogin:
    """Where the mail is, and who reads it: with a password, or with a token of OAuth. With a renewal, each login uses a token of
    it; else the secret is used as it is. `advice` is for those whose login is refused."""

    host: str
    port: int
    security: Security
    username: str
    secret: str
    is_token: bool
    renewal: TokenRenewal | None = None
    advice: str = ""


class MailServer:
    """The connection of one connector."""

    def __init__(
        self, login: MailLogin, *, allow_private: bool, ssl_context: ssl.SSLContext | None = None
    ) -> None:
        self._login, self._allow_private = login, allow_private
        self._ssl_context = ssl_context or ssl.create_default_context()
        self._client: MailConnection | None = None
        self._turn = asyncio.Lock()

    async def call(self, action: Callable[[MailConnection], Result]) -> Result:
        """Run `action` with the connection; it must not keep it."""
        async with self._turn:
            client = self._client or await self._connect()
            self._client = client
            try:
                return await asyncio.to_thread(action, client)
            except BaseException as error:
                if isinstance(error, (OSError, imaplib.IMAP4.abort, asyncio.CancelledError)):
                    # Its thread may still be reading: this connection is not used again.
                    self._client = None
                    _drop(client)
                if isinstance(error, (OSError, imaplib.IMAP4.error)):
                    raise self._translate(error) from None
                raise

    async def close(self) -> None:
        """Log out, if there is a connection."""
        client, self._client = self._client, None
        if client is not None:
            with contextlib.suppress(OSError, imaplib.IMAP4.error):
                await asyncio.to_thread(client.logout)
            _drop(client)
        if self._login.renewal is not None:
            await self._login.renewal.close()

    async def _connect(self) -> MailConnection:
        login = self._login
        secret = login.secret if login.renewal is None else await login.renewal.token()
        address = await net.address_of(login.host, login.port, allow_private=self._allow_private)
        try:
            return await asyncio.to_thread(self._log_in, address, secret)
        except LoginError as error:
            if _is_busy(error):
                raise self._busy() from None
            raise CredentialsRejected(
                f"{login.host} refuses the login of {login.username}. {login.advice}"
            ) from None
        except ssl.SSLCertVerificationError as error:
            raise Unreadable(
                f"The certificate of {login.host} is not valid: {error.verify_message}.",
                code="connector_refused",
            ) from None
        except (OSError, imaplib.IMAP4.error) as error:
            raise self._translate(error) from None

    def _log_in(self, address: str, secret: str) -> MailConnection:
        login = self._login
        client = _CheckedClient(login, address, self._ssl_context)
        try:
            if login.security == "starttls":
                cast(Any, client).starttls(self._ssl_context)
            if login.is_token:
                client.oauth2_login(login.username, secret)
            else:
                client.login(login.username, secret)
        except BaseException:
            _drop(cast(MailConnection, client))
            raise
        return cast(MailConnection, client)

    def _translate(self, error: Exception) -> Exception:
        login = self._login
        if isinstance(error, (OSError, imaplib.IMAP4.abort)):
            return Transient(
                f"{login.host}:{login.port} can't be reached, or ended the connection.",
                code="connector_unavailable",
            )
        if _is_busy(error):
            return self._busy()
        return Unreadable(f"{login.host} refused a request.", code="connector_refused")

    def _busy(self) -> Transient:
        return Transient(
            f"{self._login.host} is busy, or allows no further connection now.", code="connector_unavailable"
        )


class _CheckedClient(IMAPClient):
    """Connects to the address that was checked, and compares the certificate with the name."""

    def __init__(self, login: MailLogin, address: str, context: ssl.SSLContext) -> None:
        self._address = address
        self._context = context
        self._uses_tls = login.security == "tls"
        super().__init__(login.host, login.port, ssl=self._uses_tls, ssl_context=context, timeout=_TIMEOUT)

    def _create_IMAP4(self) -> imaplib.IMAP4:  # noqa: N802  # pyright: ignore[reportIncompatibleMethodOverride]
        if self._uses_tls:
            return _CheckedTls(self.host, self.port, self._context, self._address)
        return _CheckedPlain(self.host, self.port, self._address)


class _LongLines(imaplib.IMAP4):
    """Reads longer lines than the library's megabyte: the numbers of all messages of a folder are one line."""

    def readline(self) -> bytes:
        line = cast(bytes, self.file.readline(_MAX_LINE_BYTES + 1))
        if len(line) > _MAX_LINE_BYTES:
            raise self.error("The server sent a line that is too long.")
        return line


class _CheckedTls(_LongLines, IMAP4_TLS):
    def __init__(self, host: str, port: int, context: ssl.SSLContext, address: str) -> None:
        self._address = address
        super().__init__(host, port, context, _TIMEOUT)

    def _create_socket(self, timeout: float | None = None) -> socket.socket:
        plain = _connect(self._address, self.port)
        assert self.ssl_context is not None
        try:
            return self.ssl_context.wrap_socket(plain, server_hostname=self.host)
        except BaseException:
            plain.close()
            raise


class _CheckedPlain(_LongLines):
    def __init__(self, host: str, port: int, address: str) -> None:
        self._address = address
        super().__init__(host, port)

    def _create_socket(self, timeout: float | None = None) -> socket.socket:
        return _connect(self._address, self.port)


def _is_busy(error: Exception) -> bool:
    text = str(error).upper()
    return any(sign in text for sign in (*_BUSY, *_BUSY_WORDS))


def _connect(address: str, port: int) -> socket.socket:
    connection = socket.create_connection((address, port), timeout=_CONNECT_TIMEOUT)
    connection.settimeout(_TIMEOUT)
    return connection


def _drop(client: MailConnection) -> None:
    """End a connection without a word to the server."""
    with contextlib.suppress(OSError, imaplib.IMAP4.error, IMAPClientError, ValueError):
        client.shutdown()
    # The library leaves it open if its buffer can't be closed.
    with contextlib.suppress(OSError, AttributeError):
        client.socket().close()
