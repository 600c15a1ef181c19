"""A fake GitLab with the part of its API that we use; strict about requests, and without totals."""

import hashlib
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from tests.connectors.fakes.tool import (
    ExpectedDocument,
    FakeCall,
    FakeComment,
    FakeError,
    FakeTool,
    words_in,
)
from tests.sources.site import SiteResponse

GUEST, REPORTER, OWNER = 10, 20, 50


def iso(stamp: datetime) -> str:
    """A timestamp to the millisecond, as GitLab writes it."""
    return stamp.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


@dataclass
class WorkItem:
    """An issue or merge request."""

    id: int
    iid: int
    title: str
    text: str
    updated: datetime
    confidential: bool = False
    notes: list[FakeComment] = field(default_factory=list[FakeComment])


@dataclass
class Project:
    """A project."""

    id: int
    path: str
    visibility: str = "private"
    members: dict[int, int] = field(default_factory=dict[int, int])  # account → level
    issues: list[WorkItem] = field(default_factory=list[WorkItem])
    merge_requests: list[WorkItem] = field(default_factory=list[WorkItem])
    wiki: dict[str, str] = field(default_factory=dict[str, str])
    files: dict[str, str] = field(default_factory=dict[str, str])
    hides_members: bool = False


class FakeGitLab(FakeTool):
    """A group with projects."""

    kind = "gitlab"

    def __init__(self) -> None:
        super().__init__()
        self.add_count = self.last_iid = 0
        self.projects: list[Project] = []
        self.commits: dict[str, dict[str, str]] = {}
        self.blobs: dict[str, str] = {}
        self.people = {1: "ann@example.org", 2: "", 3: "cat@example.org", 4: "guest@example.org"}
        widget = self.add_project("acme/deep/widget", "private")
        widget.members = {1: OWNER, 2: REPORTER, 4: GUEST}
        self.add_project("acme/handbook", "public").members = {1: OWNER}
        for _ in range(12):
            self.add()
        for pattern, route in (
            ("/user", self._robot),
            ("/groups/{group}/projects", self._projects),
            ("/projects/{name}", self._project),
            ("/projects/{name}/(?P<collection>issues|merge_requests)", self._list_work_items),
            ("/projects/{name}/(?P<collection>issues|merge_requests)/{iid}", self._work_item),
            ("/projects/{name}/(?P<collection>issues|merge_requests)/{iid}/notes", self._notes),
            ("/projects/{name}/members/all", self._members),
            ("/users/{number}", self._user),
            ("/projects/{name}/wikis", self._wikis),
            ("/projects/{name}/wikis/{slug}", self._wiki),
            ("/projects/{name}/repository/branches/main", self._branch),
            ("/projects/{name}/repository/tree", self._tree),
            ("/projects/{name}/repository/blobs/{sha}/raw", self._blob),
        ):
            self.route("GET", f"/api/v4{pattern}", route)

    # ── what tests do ────────────────────────────────────────────────────────────────────────────────────

    def config(self) -> dict[str, Any]:
        assert self.site is not None
        return {"baseUrl": self.site.url, "groups": ["acme"]}

    def add_project(self, path: str, visibility: str) -> Project:
        project = Project(self.new_id(), path, visibility)
        project.files = {"README.md": f"# Readme {self.new_word()}", "main.c": "int main;"}
        project.wiki = {"home": f"wiki {self.new_word()}"}
        self.projects.append(project)
        return project

    def add(self) -> None:
        self.add_count += 1
        project = self.projects[self.add_count % len(self.projects)]
        choice = self.add_count % 7
        if choice == 0:
            project.files[f"docs/{self.new_word()}.md"] = f"guide {self.new_word()}"
        elif choice == 1:
            project.wiki[f"page-{self.new_word()}"] = f"wiki {self.new_word()}"
        else:
            self.add_work_item(project.merge_requests if choice in (2, 3) else project.issues)

    def add_work_item(self, work_items: list[WorkItem], *, confidential: bool = False) -> WorkItem:
        self.last_iid += 1  # GitLab uses no number twice
        iid = self.last_iid
        work_item = WorkItem(
            self.new_id(), iid, f"Title {self.new_word()}", f"Text {self.new_word()}", self.now, confidential
        )
        work_item.notes = [self._new_comment() for _ in range(work_item.iid % 6)]
        work_item.notes.append(FakeComment(self.new_id(), "assigned to Ann", self.now, more={"system": True}))
        work_items.append(work_item)
        return work_item

    def _new_comment(self, **more: Any) -> FakeComment:
        return FakeComment(self.new_id(), f"said {self.new_word()}", self.now, more=more)

    def edit(self, pick: int) -> None:
        documents = self._documents()
        project, document = documents[pick % len(documents)]
        match document, pick % 4:
            case str(), _:
                files = project.wiki if document in project.wiki else project.files
                files[document] = f"text {self.new_word()}"
                return
            case _, 0:
                document.notes.append(self._new_comment())
            case _, 1:
                document.notes.append(self._new_comment(internal=True))
            case _, 2:
                document.notes = document.notes[:-1]
            case _:
                document.text = f"Text {self.new_word()}"
                document.confidential = document in project.issues and not document.confidential
        document.updated = self.now

    def delete(self, pick: int) -> None:
        documents = self._documents()
        if len(documents) < 4:
            return
        project, document = documents[pick % len(documents)]
        if isinstance(document, str):
            (project.wiki if document in project.wiki else project.files).pop(document)
        else:
            (project.issues if document in project.issues else project.merge_requests).remove(document)

    def change_permission(self, pick: int) -> None:
        members = self.projects[0].members
        if 3 in members:
            del members[3]
        else:
            members[3] = GUEST if pick % 2 else REPORTER

    def _documents(self) -> list[tuple[Project, WorkItem | str]]:
        return [
            (project, document)
            for project in self.projects
            for document in (
                *project.issues,
                *project.merge_requests,
                *project.wiki,
                *(path for path in project.files if path.endswith(".md")),
            )
        ]

    def expected_documents(self) -> dict[str, ExpectedDocument]:
        expected: dict[str, ExpectedDocument] = {}
        for project in self.projects:
            for name, work_items in (("issue", project.issues), ("merge_request", project.merge_requests)):
                for work_item in work_items:
                    self._add_expected(project, name, work_item, expected)
            for slug, text in project.wiki.items():
                expected[f"wiki:{project.id}:{slug}"] = ExpectedDocument(
                    words_in(f"{slug} {text}") & words_in(text), self._acl(project, GUEST)
                )
            for path, text in project.files.items():
                if path.endswith(".md"):
                    expected[f"file:{project.id}:{path}"] = ExpectedDocument(
                        words_in(text), self._acl(project, REPORTER)
                    )
        return expected

    def _add_expected(
        self, project: Project, name: str, work_item: WorkItem, expected: dict[str, ExpectedDocument]
    ) -> None:
        level = GUEST if name == "issue" else REPORTER
        acl = self._acl(project, level)
        restricted_acl = self._acl(project, REPORTER, members_only=True)
        comments = [note for note in work_item.notes if not note.more.get("system")]
        public_texts = [note.text for note in comments if not note.more.get("internal")]
        internal_texts = [note.text for note in comments if note.more.get("internal")]
        text = " ".join([work_item.title, work_item.text, *public_texts])
        expected[f"{name}:{work_item.id}"] = ExpectedDocument(
            words_in(text), restricted_acl if work_item.confidential else acl
        )
        if internal_texts:
            expected[f"{name}:{work_item.id}:internal"] = ExpectedDocument(
                words_in(" ".join([work_item.title, *internal_texts])), restricted_acl
            )

    def _acl(self, project: Project, min_level: int, *, members_only: bool = False) -> frozenset[str]:
        if project.visibility == "public" and not members_only:
            return frozenset({"org:*"})
        if project.hides_members:
            return frozenset()
        readers = [
            user for user, level in project.members.items() if level >= min_level and self.people[user]
        ]
        return frozenset(f"user_email:{self.people[user]}" for user in readers)

    def is_detail(self, call: FakeCall) -> bool:
        return call.path.endswith("/notes") or "/blobs/" in call.path

    # ── the API ─────────────────────────────────────────────────────────────────────────────────

    def _robot(self, call: FakeCall) -> Any:
        return {"id": 9, "username": "robot", "name": "Robot"}

    def _find_project(self, name: str) -> Project:
        for project in self.projects:
            if name in (str(project.id), project.path):
                return project
        raise FakeError(404, {"message": "404 Project Not Found"})

    def _projects(self, call: FakeCall, group: str) -> SiteResponse:
        call.require_only("include_subgroups", "with_shared", "order_by", "sort", "per_page", "page")
        assert call.params["include_subgroups"] == "true"
        projects = [project for project in self.projects if project.path.startswith(f"{group}/")]
        return self.respond_page(call, projects, self._project_json)

    def _project(self, call: FakeCall, name: str) -> Any:
        return self._project_json(self._find_project(name))

    def _project_json(self, project: Project) -> dict[str, Any]:
        return {
            "id": project.id,
            "path_with_namespace": project.path,
            "web_url": f"https://gitlab.com/{project.path}",
            "visibility": project.visibility,
            "default_branch": "main",
            "issues_access_level": "enabled",
            "merge_requests_access_level": "enabled",
            "wiki_access_level": "enabled",
            "repository_access_level": "enabled",
        }

    def _list_work_items(self, call: FakeCall, name: str, collection: str) -> SiteResponse:
        params = call.require_only("scope", "order_by", "sort", "updated_after", "per_page", "page")
        assert params["scope"] == "all"
        after = params.get("updated_after")
        all_items: list[WorkItem] = getattr(self._find_project(name), collection)
        work_items = [item for item in all_items if after is None or iso(item.updated) >= after]
        if params.get("order_by") == "updated_at":
            assert params["sort"] == "asc"
        work_items.sort(key=lambda item: (item.updated, hashlib.sha256(str(item.id).encode()).hexdigest()))
        return self.respond_page(call, work_items, self._work_item_json)

    def _work_item_json(self, work_item: WorkItem) -> dict[str, Any]:
        return {
            "id": work_item.id,
            "iid": work_item.iid,
            "title": work_item.title,
            "description": work_item.text,
            "state": "opened",
            "web_url": f"https://gitlab.com/x/{work_item.iid}",
            "author": {"id": 1, "username": "ann", "name": "Ann"},
            "labels": ["bug"],
            "updated_at": iso(work_item.updated),
            "confidential": work_item.confidential,
            "user_notes_count": len(work_item.notes),
        }

    def _find_work_item(self, name: str, collection: str, iid: str) -> WorkItem:
        for work_item in getattr(self._find_project(name), collection):
            if work_item.iid == int(iid):
                return work_item
        raise FakeError(404, {"message": "404 Not found"})

    def _work_item(self, call: FakeCall, name: str, collection: str, iid: str) -> Any:
        return self._work_item_json(self._find_work_item(name, collection, iid))

    def _notes(self, call: FakeCall, name: str, collection: str, iid: str) -> SiteResponse:
        call.require_only("order_by", "sort", "per_page", "page")
        return self.respond_page(
            call,
            self._find_work_item(name, collection, iid).notes,
            lambda note: {
                "id": note.id,
                "body": note.text,
                "author": {"id": 1, "username": note.by, "name": note.by},
                "created_at": iso(note.at),
                "system": note.more.get("system", False),
                "internal": note.more.get("internal", False),
            },
        )

    def _members(self, call: FakeCall, name: str) -> SiteResponse:
        call.require_only("per_page", "page")
        project = self._find_project(name)
        if project.hides_members:
            raise FakeError(403)
        return self.respond_page(
            call,
            list(project.members.items()),
            lambda member: {
                "id": member[0],
                "username": f"user{member[0]}",
                "name": "Ann",
                "state": "active",
                "access_level": member[1],
            },
        )

    def _user(self, call: FakeCall, number: str) -> Any:
        return {
            "id": int(number),
            "username": f"user{number}",
            "name": "x",
            "public_email": self.people[int(number)],
        }

    def _wikis(self, call: FakeCall, name: str) -> Any:
        assert call.require_only("with_content")["with_content"] == "true"
        return [self._page(slug, text) for slug, text in self._find_project(name).wiki.items()]

    def _wiki(self, call: FakeCall, name: str, slug: str) -> Any:
        wiki = self._find_project(name).wiki
        if slug not in wiki:
            raise FakeError(404)
        return self._page(slug, wiki[slug])

    def _page(self, slug: str, text: str) -> dict[str, Any]:
        return {"slug": slug, "title": slug, "content": text, "format": "markdown", "encoding": "UTF-8"}

    def _branch(self, call: FakeCall, name: str) -> Any:
        shas = {path: self._store_blob(text) for path, text in self._find_project(name).files.items()}
        commit = hashlib.sha1(repr(sorted(shas.items())).encode(), usedforsecurity=False).hexdigest()
        self.commits[commit] = shas
        return {"name": "main", "commit": {"id": commit}}

    def _tree(self, call: FakeCall, name: str) -> SiteResponse:
        params = call.require_only("ref", "recursive", "pagination", "per_page", "page_token")
        assert params["pagination"] == "keyset"
        if params["ref"] not in self.commits:
            raise FakeError(404)
        after = params.get("page_token", "")
        remaining = sorted(entry for entry in self.commits[params["ref"]].items() if entry[0] > after)
        page = remaining[: self.page_size]
        headers: dict[str, str] = {}
        if len(remaining) > len(page):
            headers["Link"] = f'<{self.page_url(call, page_token=page[-1][0])}>; rel="next"'
        entries = [
            {"id": sha, "path": path, "name": path, "type": "blob", "mode": "100644"} for path, sha in page
        ]
        return self.respond(entries, **headers)

    def _store_blob(self, text: str) -> str:
        digest = hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()
        self.blobs[digest] = text
        return digest

    def _blob(self, call: FakeCall, name: str, sha: str) -> SiteResponse:
        return SiteResponse(200, self.blobs[sha].encode())
