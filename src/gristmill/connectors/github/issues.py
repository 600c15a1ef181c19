"""Issues and pull requests with their comments and reviews: GitHub lists them together."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from gristmill.connectors.github.api import Comment, GitHubApi, Issue, Repository
from gristmill.connectors.listing.by_updated_at import UpdatedEntry, UpdatedListing, UpdatedPage
from gristmill.connectors.markup.sections import comment_section, join_sections
from gristmill.connectors.port import Document, DocumentRef, Stream
from gristmill.errors import SourceGone

ISSUE = "issue"


@dataclass(frozen=True)
class IssueListing(UpdatedListing):
    """The issues and pull requests of a repository, for `listing.by_updated_at`."""

    api: GitHubApi
    repository: Repository
    with_issues: bool
    with_pull_requests: bool

    async def fetch_page(self, since: datetime | None, page: int) -> UpdatedPage:
        """What changed since an instant."""
        issues, has_more, now = await self.api.issues(self.repository.full_name, since, page)
        return UpdatedPage([self._entry(issue) for issue in issues], has_more, now)

    async def fetch_documents(self, entry: UpdatedEntry) -> list[Document]:
        """The document of an issue, with all comments."""
        return [await self._document(entry.data)]

    async def fetch(self, ref: DocumentRef) -> Document:
        """One issue as it is now."""
        issue = await self.api.issue(self.repository.full_name, int(ref.locator["number"]))
        # For a transferred issue GitHub returns the one it became in the other repository.
        if self._ref(issue).source_id != ref.source_id or not self._is_followed(issue):
            raise SourceGone(f"{ref.source_id} is no longer there.")
        return await self._document(issue)

    def _is_followed(self, issue: Issue) -> bool:
        return self.with_issues if issue.pull_request is None else self.with_pull_requests

    def _entry(self, issue: Issue) -> UpdatedEntry:
        ref = self._ref(issue)
        is_followed = self._is_followed(issue)
        return UpdatedEntry(ref.source_id, issue.updated_at, ref, issue, is_followed=is_followed)

    def _ref(self, issue: Issue) -> DocumentRef:
        locator = {"repository": self.repository.full_name, "number": issue.number}
        return DocumentRef(f"issue:{issue.id}", Stream(self.repository.scope, ISSUE), locator)

    async def _document(self, issue: Issue) -> Document:
        name, number, pull_request = self.repository.full_name, issue.number, issue.pull_request
        comments = await self.api.comments(name, number) if issue.comments else []
        if pull_request is not None:
            comments += await self.api.reviews(name, number)
            comments += await self.api.line_comments(name, number)
        return Document(
            self._ref(issue),
            title=f"{issue.title} (#{number})",
            body=_body(issue, comments),
            audience=self.repository.scope,
            url=issue.html_url,
            updated_at=issue.updated_at,
            metadata={
                "tool": "github",
                "type": ISSUE if pull_request is None else "pull_request",
                "repository": name,
                "number": number,
                "state": "merged" if (pull_request or {}).get("merged_at") else issue.state,
                "labels": [label if isinstance(label, str) else label.name or "" for label in issue.labels],
                **({"author": issue.user.login} if issue.user else {}),
            },
        )


def _body(issue: Issue, comments: Sequence[Comment]) -> str:
    sections = [f"# {issue.title}", issue.body or ""]
    for comment in sorted(comments, key=lambda comment: (_parse_written_at(comment), comment.id)):
        if (comment.body or "").strip():
            author, day = comment.user.login if comment.user else None, _parse_written_at(comment)[:10]
            sections.append(comment_section(author, day, comment.body or "", location=comment.path or ""))
    return join_sections(sections)


def _parse_written_at(comment: Comment) -> str:
    stamp = comment.created_at or comment.submitted_at
    return "" if stamp is None else stamp.isoformat()
