"""Pages of a MediaWiki, as its own parser renders them, and files that were uploaded to it.

Each namespace is a stream. `allpages` lists every page with its last revision, which is its mark; a move makes a revision
too. A page is named by its number, so that it stays the same document when it is moved. Without an account, only what is
public can be read. Who may see a page can't be asked: everyone sees all pages, or the people that the connector's own list
names.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Collection, Sequence
from typing import Any
from urllib.parse import urlencode, urlsplit

from pydantic import Field, SecretStr, model_validator

from gristmill.connectors.json_values import as_dict
from gristmill.connectors.kept_pages import KeptPages, as_page
from gristmill.connectors.listing import by_mark
from gristmill.connectors.listing.by_mark import MarkedPage
from gristmill.connectors.port import (
    AccessUpdate,
    Account,
    Attachment,
    BaseUrl,
    Batch,
    Checkpoints,
    Connector,
    ConnectorForm,
    ConnectorKind,
    ConnectorLimits,
    Document,
    DocumentRef,
    ListedDocument,
    Stream,
)
from gristmill.connectors.streams import errors_as_problems
from gristmill.connectors.transport import (
    ApiResponse,
    CredentialsRejected,
    Transport,
    parse,
    rate_limited,
)
from gristmill.errors import SourceGone, Unreadable

CHECKPOINT_VERSION = 1
PAGE = "page"
_FILES = 6  # the namespace of uploaded files
_MAX_BYTES = 64 << 20
_DENIED = frozenset({"readapidenied", "login-required"})
_MISSING = frozenset({"nosuchpageid", "missingtitle"})


class MediaWikiConfig(ConnectorForm):
    """What to follow in a MediaWiki."""

    api_url: BaseUrl = Field(description="The address of its API: `https://HOST/w/api.php`.")
    namespaces: list[int] = Field(
        default=[0], min_length=1, max_length=50, description="Namespaces by number: 0 are articles, 6 files."
    )


class MediaWikiCredentials(ConnectorForm):
    """A bot password; nothing for a public wiki."""

    username: str | None = Field(default=None, description="The user, with the bot's name: `Ann@reader`.")
    password: SecretStr | None = Field(
        default=None, description="The bot password, from Special:BotPasswords."
    )

    @model_validator(mode="after")
    def _check_both(self) -> "MediaWikiCredentials":
        if (self.username is None) != (self.password is None):
            raise ValueError("give username and password, or neither for a public wiki")
        return self


class MediaWikiConnector(Connector):
    """One wiki."""

    def __init__(self, config: MediaWikiConfig, credentials: MediaWikiCredentials, http: Transport) -> None:
        super().__init__(http)
        self._config, self._credentials, self._http = config, credentials, http
        self._turn, self._session = asyncio.Lock(), 0
        self._pages = KeptPages()  # that were read and not downloaded yet, by number

    async def check(self) -> Account:
        """What the wiki is called, and as whom we read it."""
        data = await self._query({"action": "query", "meta": "siteinfo|userinfo"})
        user = data["query"]["userinfo"]
        site = str(data["query"]["general"]["sitename"])
        return Account(site, "without an account" if "anon" in user else str(user["name"]))

    async def find_problems(self) -> list[str]:
        """Namespaces that the wiki does not have."""
        data = await self._query({"action": "query", "meta": "siteinfo", "siprop": "namespaces"})
        known = {int(number) for number in data["query"]["namespaces"]}
        return [
            f"The wiki has no namespace {number}. Correct `namespaces`."
            for number in self._config.namespaces
            if number not in known
        ]

    async def estimate(self, checkpoints: Checkpoints) -> int | None:
        """How many articles there are, in the first run."""
        if checkpoints or self._config.namespaces != [0]:
            return None
        data = await self._query({"action": "query", "meta": "siteinfo", "siprop": "statistics"})
        return int(data["query"]["statistics"]["articles"])

    async def sync(self, checkpoints: Checkpoints, finished: Collection[Stream] = ()) -> AsyncIterator[Batch]:
        """A listing of each namespace."""
        for number in self._config.namespaces:
            stream = Stream(f"namespace:{number}", PAGE)
            if stream in finished:
                continue

            async def fetch_page(cursor: str | None, number: int = number) -> MarkedPage:
                return await self._list(number, cursor)

            batches = by_mark.read(
                stream, CHECKPOINT_VERSION, checkpoints.get(stream), fetch_page, [by_mark.everybody()]
            )
            async for batch in errors_as_problems(stream, batches):
                yield batch

    async def fetch(self, ref: DocumentRef) -> Document:
        """One page as it is now."""
        page_id = str(ref.locator["page"])
        data = await self._query(
            {
                "action": "query",
                "pageids": page_id,
                "prop": "info|imageinfo",
                "inprop": "url",
                "iiprop": "url|sha1|size|mime",
            }
        )
        page = data["query"]["pages"][0]
        if "missing" in page or page["ns"] not in self._config.namespaces or "redirect" in page:
            raise SourceGone(f"Page {page_id} is no longer followed.")
        parsed = (
            await self._query(
                {"action": "parse", "pageid": page_id, "prop": "text|revid", "disableeditsection": 1}
            )
        )["parse"]
        html = as_page(parsed["text"])
        self._pages.keep(page_id, html)
        return Document(
            DocumentRef(ref.source_id, Stream(f"namespace:{page['ns']}", PAGE), {"page": page_id}),
            title=page["title"],
            body="",
            audience=by_mark.EVERYBODY,
            url=page.get("fullurl"),
            metadata={"tool": "mediawiki", "type": PAGE},
            attachments=_file_of(page),
            file=Attachment(f"{parsed['revid']}", "page.html", len(html), "text/html", {"page": page_id}),
            mark=str(parsed["revid"]),
        )

    async def resolve_access(self, audience_keys: Sequence[str]) -> AsyncIterator[AccessUpdate]:
        """Everyone sees everything."""
        if by_mark.EVERYBODY in audience_keys:
            yield AccessUpdate([by_mark.everybody()])

    async def download(self, attachment: Attachment) -> AsyncIterator[bytes]:
        """The HTML of a page, or an uploaded file."""
        if "page" in attachment.locator:
            page_id = str(attachment.locator["page"])
            html = self._pages.take(page_id)
            if html is None:
                stream = Stream(f"namespace:{self._config.namespaces[0]}", PAGE)
                await self.fetch(DocumentRef(f"page:{page_id}", stream, {"page": page_id}))
                html = self._pages.take(page_id)
            if html is None:
                raise SourceGone("The page was read too long ago.")
            yield html
            return
        async for piece in self._http.stream(str(attachment.locator["url"])):
            yield piece

    async def _list(self, namespace: int, cursor: str | None) -> MarkedPage:
        params: dict[str, str | int] = {
            "action": "query",
            "generator": "allpages",
            "gapnamespace": namespace,
            "gaplimit": 500,
            "gapfilterredir": "nonredirects",
            "prop": "info",
            **(json.loads(cursor) if cursor else {}),
        }
        data = await self._query(params)
        stream = Stream(f"namespace:{namespace}", PAGE)
        entries = [
            ListedDocument(
                DocumentRef(f"page:{page['pageid']}", stream, {"page": str(page["pageid"])}),
                mark=str(page["lastrevid"]),
            )
            for page in data.get("query", {}).get("pages", [])
        ]
        return MarkedPage(entries, json.dumps(data["continue"]) if "continue" in data else None)

    async def _query(self, params: dict[str, str | int]) -> dict[str, Any]:
        """A request, signed in; errors in the body are translated."""
        response = await self._request(params)
        data = parse(dict[str, Any], response.data, "MediaWiki")
        code = _error_code(data)
        where = urlsplit(self._config.api_url).netloc
        if code in ("ratelimited", "maxlag"):
            raise rate_limited(response.headers, where)
        if code in _MISSING:
            raise SourceGone("The page is no longer there.")
        if code in _DENIED:
            raise CredentialsRejected(f"{where} can't be read without an account. Enter a bot password.")
        if code == "permissiondenied":  # of one page: others can be read
            raise Unreadable(f"This account can't read the page of {where}.", code="connector_forbidden")
        if code:
            raise Unreadable(f"{where} refuses the request ({code}).", code="connector_refused")
        return data

    async def _request(self, params: dict[str, str | int]) -> ApiResponse:
        """The response to a request. A session ends at some time: without an account, a wiki may show less, which must not look
        like deletions. So it is asserted that we are signed in, and we sign in again where we are not."""
        params = {**params, "format": "json", "formatversion": 2}
        if self._credentials.password is None:
            return await self._http.get("", params)
        session = await self._sign_in(0)
        response = await self._http.get("", {**params, "assert": "user"})
        if _error_code(response.data) != "assertuserfailed":
            return response
        await self._sign_in(session)
        return await self._http.get("", {**params, "assert": "user"})

    async def _sign_in(self, ended_session: int) -> int:
        """Sign in unless we are; the number of the session, which is later than the one that has ended."""
        async with self._turn:  # pages are read several at a time, and wikis limit sign-ins
            if self._session <= ended_session:
                await self._begin_session()
                self._session += 1
            return self._session

    async def _begin_session(self) -> None:
        assert self._credentials.password is not None
        base: dict[str, str | int] = {"format": "json", "formatversion": 2}
        response = await self._http.get("", {**base, "action": "query", "meta": "tokens", "type": "login"})
        form = {
            "lgname": self._credentials.username,
            "lgpassword": self._credentials.password.get_secret_value(),
            "lgtoken": response.data["query"]["tokens"]["logintoken"],
        }
        body = await self._http.raw(
            "POST",
            "",
            {**base, "action": "login"},
            urlencode(form).encode(),
            limit=_MAX_BYTES,
            Content_Type="application/x-www-form-urlencoded",
        )
        if json.loads(body).get("login", {}).get("result") != "Success":
            raise CredentialsRejected("The wiki rejects the bot password. Enter a new one, then sync again.")


def _error_code(data: object) -> str:
    return str(as_dict(as_dict(data).get("error")).get("code") or "")


def _file_of(page: dict[str, Any]) -> tuple[Attachment, ...]:
    """The newest version of the file that a page of the namespace of files describes."""
    return tuple(
        Attachment(
            info["sha1"], page["title"].partition(":")[2], info["size"], info["mime"], {"url": info["url"]}
        )
        for info in page.get("imageinfo", [])[:1]
        if "sha1" in info and "url" in info  # not of a file that was hidden, or that the wiki has lost
    )


def _open(config: MediaWikiConfig, credentials: MediaWikiCredentials, limits: ConnectorLimits) -> Connector:
    return MediaWikiConnector(config, credentials, limits.transport(config.api_url, {}))


KIND = ConnectorKind(
    "mediawiki",
    MediaWikiConfig,
    MediaWikiCredentials,
    _open,
    CHECKPOINT_VERSION,
    "MediaWiki",
    has_permissions=False,
)
