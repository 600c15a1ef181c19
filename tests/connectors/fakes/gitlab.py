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
    """To the millisecond, as GitLab has it."""
    return stamp.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


@dataclass
class Work:
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
    issues: list[Work] = field(default_factory=list[Work])
    merge_requests: list[Work] = field(default_factory=list[Work])
    wiki: dict[str, str] = field(default_factory=dict[str, str])
    files: dict[str, str] = field(default_factory=dict[str, str])
    secret_members: bool = False


class FakeGitLab(FakeTool):
    """A group with projects."""

    kind = "gitlab"

    def __init__(self) -> None:
        super().__init__()
        self.added = 0
        self.projects: list[Project] = []
        self.commits: dict[str, dict[str, str]] = {}
        self.blobs: dict[str, str] = {}
        self.people = {1: "ann@example.org", 2: "", 3: "cat@example.org", 4: "guest@example.org"}
        one = self.new_project("acme/deep/widget", "private")
        one.members = {1: OWNER, 2: REPORTER, 4: GUEST}
        self.new_project("acme/handbook", "public").members = {1: OWNER}
        for _ in range(12):
            self.add()
        for pattern, route in (
            ("/user", self._robot),
            ("/groups/{group}/projects", self._projects),
            ("/projects/{name}", self._project),
            ("/projects/{name}/(?P<thing>issues|merge_requests)", self._works),
            ("/projects/{name}/(?P<thing>issues|merge_requests)/{iid}", self._work),
            ("/projects/{name}/(?P<thing>issues|merge_requests)/{iid}/notes", self._notes),
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

    def new_project(self, path: str, visibility: str) -> Project:
        made = Project(self.new_id(), path, visibility)
        made.files = {"README.md": f"# Readme {self.new_word()}", "main.c": "int main;"}
        made.wiki = {"home": f"wiki {self.new_word()}"}
        self.projects.append(made)
        return made

    def add(self) -> None:
        self.added += 1
        project = self.projects[self.added % len(self.projects)]
        choice = self.added % 7
        if choice == 0:
            project.files[f"docs/{self.new_word()}.md"] = f"guide {self.new_word()}"
        elif choice == 1:
            project.wiki[f"page-{self.new_word()}"] = f"wiki {self.new_word()}"
        else:
            self.new_work(project.merge_requests if choice in (2, 3) else project.issues)

    def new_work(self, where: list[Work], *, confidential: bool = False) -> Work:
        iid = max((one.iid for one in where), default=0) + 1
        made = Work(
            self.new_id(), iid, f"Title {self.new_word()}", f"Text {self.new_word()}", self.now, confidential
        )
        made.notes = [self._new_comment() for _ in range(made.iid % 6)]
        made.notes.append(FakeComment(self.new_id(), "assigned to somebody", self.now, more={"system": True}))
        where.append(made)
        return made

    def _new_comment(self, **more: Any) -> FakeComment:
        return FakeComment(self.new_id(), f"said {self.new_word()}", self.now, more=more)

    def edit(self, pick: int) -> None:
        things = self._documents()
        project, thing = things[pick % len(things)]
        match thing, pick % 4:
            case str(), _:
                where = project.wiki if thing in project.wiki else project.files
                where[thing] = f"text {self.new_word()}"
                return
            case _, 0:
                thing.notes.append(self._new_comment())
            case _, 1:
                thing.notes.append(self._new_comment(internal=True))
            case _, 2:
                thing.notes = thing.notes[:-1]
            case _:
                thing.text = f"Text {self.new_word()}"
                thing.confidential = thing in project.issues and not thing.confidential
        thing.updated = self.now

    def delete(self, pick: int) -> None:
        things = self._documents()
        if len(things) < 4:
            return
        project, thing = things[pick % len(things)]
        if isinstance(thing, str):
            (project.wiki if thing in project.wiki else project.files).pop(thing)
        else:
            (project.issues if thing in project.issues else project.merge_requests).remove(thing)

    def change_permission(self, pick: int) -> None:
        members = self.projects[0].members
        if 3 in members:
            del members[3]
        else:
            members[3] = GUEST if pick % 2 else REPORTER

    def _documents(self) -> list[tuple[Project, Work | str]]:
        return [
            (project, thing)
            for project in self.projects
            for thing in (
                *project.issues,
                *project.merge_requests,
                *project.wiki,
                *(path for path in project.files if path.endswith(".md")),
            )
        ]

    def expected_documents(self) -> dict[str, ExpectedDocument]:
        expected: dict[str, ExpectedDocument] = {}
        for project in self.projects:
            for name, works in (("issue", project.issues), ("merge_request", project.merge_requests)):
                for work in works:
                    self._add_expected(project, name, work, expected)
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
        self, project: Project, name: str, work: Work, expected: dict[str, ExpectedDocument]
    ) -> None:
        needed = GUEST if name == "issue" else REPORTER
        acl = self._acl(project, needed)
        few = self._acl(project, REPORTER, members_only=True)
        said = [note for note in work.notes if not note.more.get("system")]
        seen = [note.text for note in said if not note.more.get("internal")]
        inner = [note.text for note in said if note.more.get("internal")]
        text = " ".join([work.title, work.text, *seen])
        expected[f"{name}:{work.id}"] = ExpectedDocument(words_in(text), few if work.confidential else acl)
        if inner:
            expected[f"{name}:{work.id}:internal"] = ExpectedDocument(
                words_in(" ".join([work.title, *inner])), few
            )

    def _acl(self, project: Project, needed: int, *, members_only: bool = False) -> frozenset[str]:
        if project.visibility == "public" and not members_only:
            return frozenset({"org:*"})
        if project.secret_members:
            return frozenset()
        let_in = [user for user, level in project.members.items() if level >= needed and self.people[user]]
        return frozenset(f"user_email:{self.people[user]}" for user in let_in)

    def is_detail(self, call: FakeCall) -> bool:
        return call.path.endswith("/notes") or "/blobs/" in call.path

    # ── what GitLab says ─────────────────────────────────────────────────────────────────────────────────

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
        found = [project for project in self.projects if project.path.startswith(f"{group}/")]
        return self.respond_page(call, found, self._project_json)

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

    def _works(self, call: FakeCall, name: str, thing: str) -> SiteResponse:
        params = call.require_only("scope", "order_by", "sort", "updated_after", "per_page", "page")
        assert params["scope"] == "all"
        after = params.get("updated_after")
        works: list[Work] = getattr(self._find_project(name), thing)
        found = [work for work in works if after is None or iso(work.updated) >= after]
        if params.get("order_by") == "updated_at":
            assert params["sort"] == "asc"
        found.sort(key=lambda one: (one.updated, hashlib.sha256(str(one.id).encode()).hexdigest()))
        return self.respond_page(call, found, self._work_json)

    def _work_json(self, work: Work) -> dict[str, Any]:
        return {
            "id": work.id,
            "iid": work.iid,
            "title": work.title,
            "description": work.text,
            "state": "opened",
            "web_url": f"https://gitlab.com/x/{work.iid}",
            "author": {"id": 1, "username": "ann", "name": "Ann"},
            "labels": ["bug"],
            "updated_at": iso(work.updated),
            "confidential": work.confidential,
            "user_notes_count": len(work.notes),
        }

    def _find_work(self, name: str, thing: str, iid: str) -> Work:
        for work in getattr(self._find_project(name), thing):
            if work.iid == int(iid):
                return work
        raise FakeError(404, {"message": "404 Not found"})

    def _work(self, call: FakeCall, name: str, thing: str, iid: str) -> Any:
        return self._work_json(self._find_work(name, thing, iid))

    def _notes(self, call: FakeCall, name: str, thing: str, iid: str) -> SiteResponse:
        call.require_only("order_by", "sort", "per_page", "page")
        return self.respond_page(
            call,
            self._find_work(name, thing, iid).notes,
            lambda one: {
                "id": one.id,
                "body": one.text,
                "author": {"id": 1, "username": one.by, "name": one.by},
                "created_at": iso(one.at),
                "system": one.more.get("system", False),
                "internal": one.more.get("internal", False),
            },
        )

    def _members(self, call: FakeCall, name: str) -> SiteResponse:
        call.require_only("per_page", "page")
        project = self._find_project(name)
        if project.secret_members:
            raise FakeError(403)
        return self.respond_page(
            call,
            list(project.members.items()),
            lambda one: {
                "id": one[0],
                "username": f"user{one[0]}",
                "name": "Somebody",
                "state": "active",
                "access_level": one[1],
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
        left = sorted(one for one in self.commits[params["ref"]].items() if one[0] > after)
        part = left[: self.page_size]
        headers: dict[str, str] = {}
        if len(left) > len(part):
            headers["Link"] = f'<{self.page_url(call, page_token=part[-1][0])}>; rel="next"'
        shown = [
            {"id": sha, "path": path, "name": path, "type": "blob", "mode": "100644"} for path, sha in part
        ]
        return self.respond(shown, **headers)

    def _store_blob(self, text: str) -> str:
        digest = hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()
        self.blobs[digest] = text
        return digest

    def _blob(self, call: FakeCall, name: str, sha: str) -> SiteResponse:
        return SiteResponse(200, self.blobs[sha].encode())
