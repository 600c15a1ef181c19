"""Pages of a project's wiki, which GitLab returns all at once."""

from gristmill.connectors.gitlab.api import Project, WikiPage
from gristmill.connectors.port import Document, DocumentRef, Stream

WIKI = "wiki"


def page_document(project: Project, page: WikiPage) -> Document:
    """The document of a page."""
    return Document(
        DocumentRef(f"wiki:{project.id}:{page.slug}", Stream(project.scope, WIKI), {"slug": page.slug}),
        title=page.title or page.slug,
        body=page.content,
        audience=f"{project.scope}:{WIKI}",
        url=f"{project.web_url}/-/wikis/{page.slug}",
        metadata={"tool": "gitlab", "type": WIKI, "project": project.path_with_namespace, "slug": page.slug},
    )
