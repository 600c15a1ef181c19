"""Items to add, one model per type, and selections of items.

Each model translates itself into what `operations/add.py` takes: the item to insert, and the source to probe before the
request is answered (none where probing would make the caller wait for the network).
"""

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal, Self, cast
from uuid import UUID

from pydantic import (
    AfterValidator,
    Field,
    StrictBool,
    StringConstraints,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WrapValidator,
    field_validator,
    model_validator,
)

from gristmill import validation
from gristmill.catalog import ItemId, ItemStatus, NewItem, RenderChoice, TreeFilter, access
from gristmill.errors import FieldError, Invalid, Permanent
from gristmill.operations import add
from gristmill.operations.freshness import FreshnessChoice
from gristmill.operations.refresh_rule import parse_rule
from gristmill.operations.source_factory import ADDED_LOCALLY, FolderSource, SourceFactory
from gristmill.server.api.schemas.bases import Chunking
from gristmill.server.api.schemas.common import (
    Acl,
    JsonObject,
    NonBlankText,
    PathText,
    Patterns,
    RequestModel,
    Tag,
    Title,
)
from gristmill.server.api.schemas.freshness import RefreshIn
from gristmill.sources import NoteSource, normalise
from gristmill.sources.disk import DiskAccess
from gristmill.sources.site_rules import DEFAULT_DEPTH, DEFAULT_PAGES
from gristmill.validation import InvalidValue, is_printable
from gristmill.work import OnActive

_MAX_NAME = 4096  # characters of an invalid entry that are sent back


class _AccessFields(RequestModel):
    """Fields of every item type. Without `acl` the item inherits the access list of its container or base."""

    acl: Acl | None = None
    metadata: Annotated[JsonObject, Field(default_factory=dict)]

    def with_acl_and_metadata(self, item: NewItem) -> NewItem:
        """`item` with the access list and metadata of the request."""
        acl = None if self.acl is None else access.parse_acl(self.acl)
        return replace(item, acl=acl, metadata=self.metadata)


class _NewItemFields(_AccessFields):
    """Items that have a title of their own if none is sent."""

    title: Title | None = None


class NewNote(_NewItemFields):
    """A note; its text is part of the request."""

    type: Literal["note"]
    content: NonBlankText

    @property
    def name(self) -> str:
        """Its title, by default its first line."""
        first_line = self.content.strip().splitlines()[0].lstrip("# ")
        return self.title or "".join(c for c in first_line if is_printable(c)).strip()[:80] or "Note"

    def to_entry(self, _sources: SourceFactory, _access: DiskAccess) -> add.ItemToAdd:
        """The item to add."""
        item = NewItem("note", self.name, self.name, body=self.content)
        return add.ItemToAdd(self.with_acl_and_metadata(item), NoteSource(self.content, self.name))


class _RefreshedItem(_NewItemFields):
    """Items with a source that can be checked for changes. Without `refresh`, their container or base says when."""

    refresh: RefreshIn | None = None

    def freshness(self, *, watch: bool | None = None) -> FreshnessChoice:
        """How the item is to be kept fresh."""
        rule = None if self.refresh is None else self.refresh.to_rule()
        if rule is not None:
            parse_rule(rule)
        return FreshnessChoice(rule, watch)


class _DiskItem(_RefreshedItem):
    path: PathText

    @field_validator("path")
    @classmethod
    def _require_absolute(cls, path: str) -> str:
        if not Path(path).is_absolute():
            raise ValueError("must be an absolute path on the server, such as /srv/documents")
        return path

    @property
    def name(self) -> str:
        """Its path as it was sent."""
        return self.path

    def new_item(self, kind: str, access: DiskAccess) -> NewItem:
        """The item, identified by its path. Its source says whether it may be read from outside `allowed_paths`."""
        path = os.path.normpath(self.path)
        name = self.title or Path(path).name or path
        source = {"path": path} | ({} if access.is_confined else {ADDED_LOCALLY: True})
        return self.with_acl_and_metadata(NewItem(kind, name, path, source=source))


class NewFile(_DiskItem):
    """A file on the server's disk, read when it is indexed."""

    type: Literal["file"]

    def to_entry(self, sources: SourceFactory, access: DiskAccess) -> add.ItemToAdd:
        """The item to add."""
        item = self.new_item("file", access)
        source = sources.file_source(Path(item.key), access)
        return add.ItemToAdd(item, source, self.path, self.freshness())


class NewDirectory(_DiskItem):
    """A folder on the server's disk with everything below it; each file becomes its own item. Without `watch` it is watched if that
    is cheap."""

    type: Literal["directory"]
    ignore: Patterns | None = None
    watch: StrictBool | None = None

    def to_entry(self, _sources: SourceFactory, access: DiskAccess) -> add.ItemToAdd:
        """The item to add. The ignore patterns are part of its source, so that a reindex applies them again."""
        item = self.new_item("directory", access)
        source = item.source | ({"ignore": self.ignore} if self.ignore else {})
        folder = FolderSource(Path(item.key), access)
        return add.ItemToAdd(
            replace(item, source=source), folder, self.path, self.freshness(watch=self.watch)
        )


class _WebItem(_RefreshedItem):
    url: Annotated[str, Field(max_length=8192)]
    render: (
        Annotated[
            RenderChoice,
            Field(
                description="Whether a browser renders the page, or the pages below it; without it, as the base's settings say."
            ),
        ]
        | None
    ) = None

    @field_validator("url")
    @classmethod
    def _require_web_address(cls, url: str) -> str:
        try:
            normalise(url)
        except Permanent as error:
            raise InvalidValue(error.message, code=error.code) from None
        return url

    @property
    def name(self) -> str:
        """Its URL as it was sent."""
        return self.url

    def new_item(self, kind: str) -> NewItem:
        """The item, identified by its URL in its normal form."""
        url = normalise(self.url)
        is_named = self.title is not None or kind != "url"
        source = {"url": url} | ({"render": self.render} if self.render else {})
        item = NewItem(kind, self.title or url[:500], url, source=source, titled_by_source=not is_named)
        return self.with_acl_and_metadata(item)


class NewUrl(_WebItem):
    """A web page, fetched when it is indexed."""

    type: Literal["url"]

    def to_entry(self, _sources: SourceFactory, _access: DiskAccess) -> add.ItemToAdd:
        """The item to add. Its job fetches the page, so that the caller does not wait for it."""
        return add.ItemToAdd(self.new_item("url"), None, self.url, self.freshness())


class NewFolder(_AccessFields):
    """A folder of the base, which people file items in; it has no folder on a disk."""

    type: Literal["folder"]
    title: Title

    @property
    def name(self) -> str:
        """Its title."""
        return self.title

    def to_entry(self, _sources: SourceFactory, _access: DiskAccess) -> add.ItemToAdd:
        """The item to add."""
        item = self.with_acl_and_metadata(NewItem("directory", self.title, self.title))
        return add.ItemToAdd(item, None)


class NewSitemap(_WebItem):
    """A sitemap, or a site whose robots.txt names one; each page becomes its own item."""

    type: Literal["sitemap"]

    def to_entry(self, _sources: SourceFactory, _access: DiskAccess) -> add.ItemToAdd:
        """The item to add."""
        return add.ItemToAdd(self.new_item("sitemap"), None, self.url, self.freshness())


def _site_pattern(text: str) -> str:
    if not text.startswith(("/", "*")):
        raise ValueError("must begin with / or *, such as /docs/*")
    return text


SitePattern = Annotated[
    str, StringConstraints(max_length=500), AfterValidator(_site_pattern), Field(examples=["/docs/*"])
]
SitePatterns = Annotated[list[SitePattern], Field(max_length=100)]


class NewSite(_WebItem):
    """A web site, crawled from its start page; each page becomes its own item. Patterns are compared with path and query, `*` is any
    text."""

    type: Literal["site"]
    max_depth: Annotated[int, Field(ge=0, le=50)] = DEFAULT_DEPTH
    max_pages: Annotated[int, Field(ge=1, le=50_000)] = DEFAULT_PAGES
    include: Annotated[SitePatterns, Field(default_factory=list)]
    exclude: Annotated[SitePatterns, Field(default_factory=list)]
    use_sitemaps: bool = True

    def to_entry(self, _sources: SourceFactory, _access: DiskAccess) -> add.ItemToAdd:
        """The item to add. The rules are part of its source, so that each crawl applies them."""
        rules = self.model_dump(
            by_alias=True, include={"max_depth", "max_pages", "include", "exclude", "use_sitemaps"}
        )
        item = self.new_item("site")
        site = replace(item, source=item.source | rules)
        return add.ItemToAdd(site, None, self.url, self.freshness())


AnyItem = Annotated[
    NewNote | NewFile | NewDirectory | NewFolder | NewUrl | NewSitemap | NewSite,
    Field(discriminator="type"),
]


@dataclass(frozen=True)
class MalformedItem:
    """An entry that is none of the types, or whose fields are invalid."""

    path: str  # what it names, as sent
    code: str
    errors: tuple[FieldError, ...]

    def to_error(self) -> Invalid:
        """Why it is refused."""
        return Invalid(validation.sentences(self.errors), code=self.code, fields=self.errors)


def _validate_alone(
    value: object, validate: ValidatorFunctionWrapHandler
) -> NewNote | NewFile | NewDirectory | NewFolder | NewUrl | NewSitemap | NewSite | MalformedItem:
    """Keep an invalid entry as a MalformedItem, so that it does not cost the others."""
    try:
        return validate(value)
    except ValidationError as error:
        problems = error.errors(include_url=False, include_input=False)
        fields = validation.field_errors(problems, value)
        return MalformedItem(_name_as_sent(value), validation.error_code(problems), tuple(fields))


def _name_as_sent(value: object) -> str:
    entry = cast("dict[str, object]", value) if isinstance(value, dict) else {}
    name = next(
        (text for key in ("path", "url", "title", "content") if isinstance(text := entry.get(key), str)), ""
    )
    # A lone surrogate is one of the reasons why an entry is malformed, and can't be sent back.
    return name[:_MAX_NAME].encode("utf-8", "replace").decode()


def _with_any_entry(schema: dict[str, Any]) -> None:
    schema["items"] = {"anyOf": [schema["items"], {"description": "Anything else is reported in `failed`."}]}


class NewItems(RequestModel):
    """Items to add; each is accepted or rejected on its own."""

    items: Annotated[
        list[Annotated[AnyItem, WrapValidator(_validate_alone)]],
        Field(max_length=10_000, json_schema_extra=_with_any_entry),
    ]
    parent_id: UUID | None = None
    on_conflict: add.OnConflict = "rename"
    dry_run: bool = False


class NewBaseItems(RequestModel):
    """Items that a base to be created would have, for an estimate; without `embedder`, with the default one."""

    items: Annotated[
        list[Annotated[AnyItem, WrapValidator(_validate_alone)]],
        Field(max_length=10_000, json_schema_extra=_with_any_entry),
    ]
    embedder: str | None = None
    chunking: Chunking = Chunking()


class SelectionFilter(RequestModel):
    """Items that match every field: of the children of `parentId`, or of the whole base."""

    parent_id: UUID | None = None
    status: Annotated[list[ItemStatus] | None, Field(max_length=10)] = None
    type: Annotated[list[str] | None, Field(max_length=10)] = None
    q: Annotated[str | None, Field(max_length=500)] = None
    tag: Tag | None = None
    leaves: bool = False

    def to_tree_filter(self) -> TreeFilter:
        """What it selects in the tree. A filter without a field selects the roots, and with them everything."""
        return TreeFilter(
            parent=ItemId(self.parent_id) if self.parent_id else None,
            statuses=[str(status) for status in self.status or ()],
            types=self.type or (),
            title=self.q,
            tag=self.tag,
            leaves=self.leaves,
        )


class Selection(RequestModel):
    """Items, each including everything below it: by their ids, or all that match a filter when the request is made."""

    item_ids: Annotated[list[UUID] | None, Field(max_length=10_000)] = None
    filter: SelectionFilter | None = None

    @model_validator(mode="after")
    def _require_one(self) -> Self:
        if (self.item_ids is None) == (self.filter is None):
            raise ValueError("must have either itemIds or filter")
        return self


class MovedSelection(Selection):
    """Items to move: under `parentId`, or to the top of `toBaseId`, by default of their own base."""

    to_base_id: UUID | None = None
    parent_id: UUID | None = None


class TaggedSelection(Selection):
    """Tags to add to items, and tags to remove from them."""

    add: Annotated[list[Tag], Field(max_length=50, default_factory=list)]
    remove: Annotated[list[Tag], Field(max_length=50, default_factory=list)]


class ReindexSelection(Selection):
    """Items to reindex, and what to do when some of them are still being processed."""

    on_active: OnActive = "reject"
    dry_run: bool = False
