"""Long tables of texts without pages: wherever one opens them, they are tables with their head."""

import re

import httpx

from tests.wait_until import wait_until

ROWS = 3_000


async def add(http: httpx.AsyncClient, files: dict[str, str]) -> dict[str, str]:
    """Upload files, wait until they are completed, and return their ids by title."""
    base = (await http.post("/api/knowledge-bases", json={"name": "tables"})).json()["id"]
    form = [("files", (name, text.encode())) for name, text in files.items()]
    assert (await http.post(f"/api/knowledge-bases/{base}/files", files=form)).status_code == 202

    async def are_completed() -> bool:
        items = (await http.get(f"/api/knowledge-bases/{base}/items")).json()["items"]
        return all(item["status"] == "completed" for item in items)

    await wait_until(are_completed, limit=60)
    items = (await http.get(f"/api/knowledge-bases/{base}/items")).json()["items"]
    return {item["title"]: item["id"] for item in items}


async def test_a_row_far_into_a_table_without_pages_is_shown_with_its_head(http: httpx.AsyncClient) -> None:
    csv = "Name,Note\n" + "".join(f"sack {n},{'rye ' * 8}\n" for n in range(ROWS))
    rows = "".join(f"| sack {n} | {'oats ' * 8} |\n" for n in range(ROWS))
    markdown = f"# Store\n\n| Old | Head |\n|---|---|\n| a | b |\n\nThe sacks:\n\n| Name | Note |\n|---|---|\n{rows}\nEnd.\n"
    text = "# Store\n\n| Name | Note |\n|---|---|\n| a | b |\n\n" + "| no table\n" * 9_000
    items = await add(http, {"sacks.csv": csv, "sacks.md": markdown, "pipes.md": text})
    for name in ("sacks.csv", "sacks.md"):
        path = f"/api/knowledge-items/{items[name]}"
        content = (await http.get(f"{path}/content")).text
        at = content.index("sack 2777 ")
        assert at > 100_000
        for place in ({"at": at}, {"after": content.rindex("\n", 0, at) + 1}):
            window = (await http.get(f"{path}/rendered", params=place)).json()
            block = next(found for found in window["blocks"] if found["start"] <= at < found["end"])
            assert "<td>sack 2777</td>" in block["html"]
            assert "<th>Name</th>\n<th>Note</th>" in block["html"]
            assert "|" not in block["html"]
            assert content[block["rows"][1] :].startswith("| sack ")
    path = f"/api/knowledge-items/{items['pipes.md']}/rendered"
    window = (await http.get(path, params={"at": len(text) - 100})).json()
    assert "<th>" not in "".join(block["html"] for block in window["blocks"])  # a blank line ended the table


async def test_rows_that_are_longer_than_the_first_one_are_shown_whole(http: httpx.AsyncClient) -> None:
    """The first line of a CSV file can be a title, and its rows of any length."""
    csv = "Sacks of 2024\nName,Note,Price\nrye,a|b,3\noats,,4,late\n"
    items = await add(http, {"sacks.csv": csv})
    path = f"/api/knowledge-items/{items['sacks.csv']}"
    (block,) = (await http.get(f"{path}/rendered")).json()["blocks"]
    cells = re.findall("<t[hd]>(.*?)</t[hd]>", block["html"])
    rows = [["Sacks of 2024"], ["Name", "Note", "Price"], ["rye", "a|b", "3"], ["oats", "", "4", "late"]]
    assert cells == [cell for row in rows for cell in [*row, "", "", ""][:4]]
    content = (await http.get(f"{path}/content")).text
    assert [content[row:].split(" ")[1] for row in block["rows"]] == ["Sacks", "Name", "rye", "oats"]
