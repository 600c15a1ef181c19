"""Sample: the articles of a tool with a small JSON API.

    GET /articles?cursor=…    {"items": [{"id", "revision"}], "next": cursor or null}
    GET /articles/{id}        {"id", "revision", "title", "text", "url", "files": [{"id", "name", "size"}]}
    GET /files/{id}           the bytes of an attachment

Replace these requests with those of your tool. The listing names every article with its revision; Gristmill reads those
that are new or have another revision, and prunes those that are gone.
"""

from collections.abc import AsyncIterator, Collection, Sequence
from typing import Any

from pydantic import Field, SecretStr

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
from gristmill.connectors.transport import Transport

CHECKPOINT_VERSION = 1
ARTICLES = Stream("sample", "article")


class SampleConfig(ConnectorForm):
    """What to follow. These fields become the form in the browser, and `--set` on the command line."""

    base_url: BaseUrl = Field(description="The address of the API.")


class SampleCredentials(ConnectorForm):
    """The secrets. They are stored encrypted and never shown."""

    token: SecretStr = Field(description="A token that may read articles.")


class SampleConnector(Connector):
    """The tool, opened with a configuration and credentials."""

    def __init__(self, http: Transport) -> None:
        super().__init__(http)
        self._http = http

    async def check(self) -> Account:
        """Whether the credentials are good. The transport raises errors that people understand."""
        await self._http.get("/articles")
        return Account("Sample")

    async def sync(self, checkpoints: Checkpoints, finished: Collection[Stream] = ()) -> AsyncIterator[Batch]:
        """A listing of all articles, page by page."""
        if ARTICLES in finished:
            return
        checkpoint = checkpoints.get(ARTICLES)
        async for batch in by_mark.read(
            ARTICLES, CHECKPOINT_VERSION, checkpoint, self._fetch_page, [by_mark.everybody()]
        ):
            yield batch

    async def fetch(self, ref: DocumentRef) -> Document:
        """One article as it is now. A 404 becomes SourceGone: then the article is pruned."""
        article: dict[str, Any] = (await self._http.get(f"/articles/{ref.locator['id']}")).data
        return Document(
            ref,
            title=article["title"],
            body=article["text"],  # markdown
            audience=by_mark.EVERYBODY,
            url=article["url"],
            attachments=tuple(
                Attachment(file["id"], file["name"], file["size"]) for file in article["files"]
            ),
            mark=str(article["revision"]),
        )

    async def resolve_access(self, audience_keys: Sequence[str]) -> AsyncIterator[AccessUpdate]:
        """Who may see what: here everyone. A tool with permissions yields an `Audience` for each key."""
        if by_mark.EVERYBODY in audience_keys:
            yield AccessUpdate([by_mark.everybody()])

    async def download(self, attachment: Attachment) -> AsyncIterator[bytes]:
        """The bytes of an attachment."""
        async for piece in self._http.stream(f"/files/{attachment.source_id}"):
            yield piece

    async def _fetch_page(self, cursor: str | None) -> MarkedPage:
        page: dict[str, Any] = (await self._http.get("/articles", {"cursor": cursor})).data
        entries = [
            ListedDocument(
                DocumentRef(f"article:{item['id']}", ARTICLES, {"id": item["id"]}),
                mark=str(item["revision"]),
            )
            for item in page["items"]
        ]
        return MarkedPage(entries, page["next"])


def _open(config: SampleConfig, credentials: SampleCredentials, limits: ConnectorLimits) -> Connector:
    headers = {"Authorization": f"Bearer {credentials.token.get_secret_value()}"}
    return SampleConnector(limits.transport(config.base_url, headers))


KIND = ConnectorKind("sample", SampleConfig, SampleCredentials, _open, CHECKPOINT_VERSION, "Sample")
