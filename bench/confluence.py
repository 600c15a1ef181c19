"""How many requests Confluence gets: `uv run --group bench python -m bench.confluence [--pages 10000]`.

Reads a fake Confluence of nested pages with attachments, restrictions and comments for the first time, Cloud and Data Center,
and counts the requests. Nothing is stored, and attachments are not downloaded: each of those is one request more.
"""

import argparse
import asyncio
import re
from collections import Counter

from tests.connectors.confluence.test_requests import fill, read_all
from tests.connectors.fakes.confluence import FakeConfluence, FakeConfluenceDataCenter
from tests.connectors.fakes.tool import serve_fake


async def count(kind: type[FakeConfluence], pages: int) -> None:
    """Read one fake for the first time, and print what it was asked for."""
    with serve_fake(kind()) as fake:
        fill(fake, pages)
        fake.page_size, fake.inline_limit = 250, 25
        documents, _ = await read_all(fake)
        paths = Counter(re.sub(r"\d{2,}", "{id}", call.path) for call in fake.calls)
        requests = len(fake.calls)
        print(
            f"{kind.__name__}: {len(documents)} documents, {requests} requests, {requests / pages:.3f} a page"
        )
        for path, times in paths.most_common():
            print(f"  {times:6} {path}")


def main() -> None:
    """Count for Cloud and Data Center."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pages", type=int, default=10_000)
    pages = parser.parse_args().pages
    for kind in (FakeConfluence, FakeConfluenceDataCenter):
        asyncio.run(count(kind, pages))


if __name__ == "__main__":
    main()
