"""Where a base can be indexed, by the words and addresses that requests use."""

from urllib.parse import urlsplit

from gristmill.catalog import IndexKind
from gristmill.errors import Invalid
from gristmill.settings import Settings


def index_kind_of(place: str, settings: Settings) -> IndexKind:
    """The index that `embedded`, `opensearch` or an address means. An address must be one of `index_url`: every server and
    worker has to know it, and its credentials are in the settings alone."""
    if place == "embedded":
        return "embedded"
    if place != "opensearch" and "://" not in place:
        raise Invalid(
            "Move a base to `embedded`, to `opensearch`, or to an address of `index_url`.",
            code="invalid_request",
        )
    if settings.index_url is None:
        raise Invalid(
            "There is no search engine. Set `index_url` for every server and worker, and restart.",
            code="index_not_configured",
        )
    addresses = {_without_credentials(url) for url in settings.index_url.get_secret_value().split(",")}
    if place != "opensearch" and _without_credentials(place) not in addresses:
        raise Invalid(
            "This address is not in `index_url`. Add it there for every server and worker, and restart; or move the base to "
            "`opensearch`, the search engine that is set.",
            code="index_not_configured",
        )
    return "opensearch"


def _without_credentials(url: str) -> tuple[str, str, str]:
    parts = urlsplit(url.strip())
    return parts.scheme.lower(), parts.netloc.rpartition("@")[2].lower(), parts.path.rstrip("/")
