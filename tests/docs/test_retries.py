"""The page about retries has the numbers of the code."""

# pyright: reportPrivateUsage=false
from dataclasses import dataclass
from datetime import timedelta

import pytest

from gristmill.connectors import transport
from gristmill.embedding import governor
from gristmill.embedding.embedder import BAD_ANSWER_ATTEMPTS
from gristmill.events import webhook_delivery
from gristmill.ingest import embed, image_describers
from gristmill.ingest.processors import conversion
from gristmill.jobs import retry
from gristmill.sources import blobs, fetch, sitemap, url
from gristmill.work import AnalyseAssets, CheckFileProcessing, IndexDocument, PrepareRoot, SyncConnector
from tests.docs.pages import read

PAGE = "docs/explanation/retries.md"
REQUEST_TIMEOUT = timedelta(seconds=30)  # the default of `net.client`


@dataclass(frozen=True)
class Ladder:
    """What fails, and the layers that try again."""

    name: str
    attempts: int
    each_attempt: timedelta  # with every request running into its timeout
    requests: int = 1

    @property
    def waits(self) -> timedelta:
        return sum((retry.backoff(n, 1.0) for n in range(1, self.attempts)), timedelta(0))

    @property
    def row(self) -> str:
        longest = self.attempts * self.each_attempt + self.waits
        return (
            f"| {self.name} | {self.attempts} | {self.requests} | {self.attempts * self.requests} |"
            f" {in_words(self.waits)} | {in_words(longest)} |"
        )


def in_words(time: timedelta) -> str:
    seconds = time.total_seconds()
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 90 * 60:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"


def connector_attempt() -> timedelta:
    pauses = [
        min(transport._MAX_DELAY, transport._FIRST_DELAY * 2**n) for n in range(transport._MAX_TRIES - 1)
    ]
    return transport._MAX_TRIES * REQUEST_TIMEOUT + timedelta(seconds=sum(pauses))


LADDERS = [
    Ladder("a page whose server does not answer", IndexDocument.attempts, url._TIMEOUT),
    Ladder("a page whose host does not exist", fetch.UNKNOWN_HOST_ATTEMPTS, timedelta(0)),
    Ladder("a sitemap whose server does not answer", PrepareRoot.attempts, sitemap.SitemapRules.timeout),
    Ladder(
        "an upload in an object store that is down",
        IndexDocument.attempts,
        blobs._STORE_TIMEOUT,
        1 + blobs._STORE_RETRIES,
    ),
    Ladder("a document for which the embedder returns nonsense", BAD_ANSWER_ATTEMPTS, timedelta(0)),
    Ladder(
        "an image whose description fails",
        AnalyseAssets.attempts,
        image_describers.VisionConfig.timeout,
    ),
    Ladder("a file processor that can't be reached", CheckFileProcessing.attempts, timedelta(0)),
    Ladder(
        "a connector's tool that does not answer",
        SyncConnector.attempts,
        connector_attempt(),
        transport._MAX_TRIES,
    ),
]


@pytest.mark.parametrize("ladder", LADDERS, ids=lambda ladder: ladder.name)
def test_the_page_has_the_product_of_each_ladder(ladder: Ladder) -> None:
    assert ladder.row in read(PAGE)


def test_the_page_has_no_other_ladder() -> None:
    rows = [line for line in read(PAGE).splitlines() if line.startswith("| a")]
    assert len(rows) == len(LADDERS)


def test_a_connector_outlasts_an_outage_of_some_minutes() -> None:
    """S2-22: the next scheduled run may be hours away."""
    (ladder,) = (ladder for ladder in LADDERS if "connector" in ladder.name)
    assert ladder.waits / 2 > timedelta(minutes=4)  # on average


def test_the_page_has_the_numbers_of_what_keeps_its_own_count() -> None:
    waits = sum(webhook_delivery.SCHEDULE, timedelta(0))
    facts = [
        f"{1 + len(webhook_delivery.SCHEDULE)} attempts",
        f"within {in_words(waits)} to {in_words(1.2 * waits)}",
        f"ends after {webhook_delivery.TIMEOUT.total_seconds():.0f} seconds",
        f"{governor.PATIENCE.total_seconds():.0f} seconds for documents",
        f"{governor.QUERY_PATIENCE.total_seconds():.0f} seconds for searches",
        f"after {embed._PATIENCE.total_seconds():.0f} seconds",
        f"{conversion.DEADLINE.total_seconds() / 60:.0f} minutes without progress",
    ]
    page = read(PAGE)
    assert [fact for fact in facts if fact not in page] == []
