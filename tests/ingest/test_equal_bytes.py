"""Files with equal bytes and other names: each is read as its own name asks for."""

from pathlib import Path

import httpx
import pytest

from gristmill.ingest.inspect_original import inspect_original
from gristmill.sources import Original
from tests.api_calls import add_items, make_base, wait_until_ended


async def test_equal_bytes_are_read_in_the_format_of_each_name(
    http: httpx.AsyncClient, tmp_path: Path
) -> None:
    """One is code, the other a table, whichever came first; the third shares the content of the first."""
    base = await make_base(http)
    contents: dict[str, str] = {}
    for name in ("a.py", "a.csv", "b.py"):
        path = tmp_path / name
        path.write_text("[1, 2]\n[3, 4]\n")
        (item,) = (await add_items(http, base, {"type": "file", "path": str(path)}))["created"]
        ended = await wait_until_ended(http, item["id"])
        assert ended["status"] == "completed", ended
        contents[name] = (await http.get(f"/api/knowledge-items/{item['id']}/content")).text
    assert contents["a.py"].startswith("```python")
    assert contents["a.csv"].startswith("|")
    assert contents["b.py"] == contents["a.py"]


@pytest.mark.parametrize(("names", "is_same"), [(("a.py", "b.py"), True), (("a.py", "a.json"), False)])
def test_the_digest_contains_the_format(names: tuple[str, str], is_same: bool) -> None:
    digests = {inspect_original(Original(b"[1]", name), other_reader="reader/1").digest for name in names}
    assert (len(digests) == 1) == is_same
