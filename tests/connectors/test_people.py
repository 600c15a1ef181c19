"""Accounts whose address the tool does not show are listed, and mapped many at once."""

from pathlib import Path
from typing import Any

import httpx
import pytest

from gristmill import identity
from gristmill.cli.client_session import Refused
from gristmill.cli.connector_people import read_csv
from gristmill.identity.users import UserFields
from tests.connectors.fakes.confluence import FakeConfluenceDataCenter
from tests.connectors.fakes.tool import fake_tool_fixture
from tests.connectors.harness import ConnectorHarness

pytestmark = pytest.mark.slow

tool = fake_tool_fixture(FakeConfluenceDataCenter)


async def test_accounts_are_mapped_by_a_csv_file_and_by_users(
    http: httpx.AsyncClient, harness: ConnectorHarness
) -> None:
    """Access follows at once; rows that can't be followed are reported, and the others are saved."""
    await harness.sync()
    path = f"/api/connectors/{harness.connector.id}/identities"
    accounts = (await http.get(path, params={"unmapped": True})).json()["items"]
    assert {account["userId"] for account in accounts} == {"a:1", "b:2", "d:4"}

    async def post(action: str, **body: Any) -> dict[str, Any]:
        response = await http.post(f"{path}/{action}", json=body)
        assert response.status_code == 200, response.text
        return response.json()

    for bad_file in ("userId;email\na:1;ann@example.org\n", "email\nann@example.org\n", "\n"):
        response = await http.post(f"{path}/import", json={"csv": bad_file})
        assert (response.status_code, response.json()["code"]) == (422, "bad_csv")
    file = (
        "\ufeffName,Email,userId\n"
        ",Ann@example.org,a:1\nb:2,bob@example.org,\n\nstranger,x@example.org,\n,no address,d:4\n"
    )
    preview = await post("import", csv=file, dryRun=True)
    assert await harness.visible_ids("ann@example.org") == await harness.visible_ids("cat@example.org")
    result = await post("import", csv=file)
    assert result == preview
    assert [(entry["userId"], entry["email"]) for entry in result["mapped"]] == [
        ("a:1", "ann@example.org"),
        ("b:2", "bob@example.org"),
    ]
    assert [(row["line"], row["code"]) for row in result["failed"]] == [
        (5, "unknown_account"),
        (6, "bad_email"),
    ]
    assert await harness.visible_ids("ann@example.org") > await harness.visible_ids("cat@example.org")
    assert (await post("import", csv="userId,email\na:1,ann@example.org\n"))["unchanged"] == 1
    # Of two addresses for one account, either may be someone else's.
    rows = "d:4,,dan@example.org\n,d:4,eve@example.org\na:1,,ann@example.org\na:1,,Ann@Example.org\n"
    doubtful = await post("import", csv=f"userId,name,email\n{rows}")
    assert (doubtful["mapped"], doubtful["unchanged"]) == ([], 1)
    assert [(row["line"], row["code"]) for row in doubtful["failed"]] == [(3, "conflicting_rows")]
    assert "Line 2" in doubtful["failed"][0]["message"]

    # A user whom the identity provider knows by the account's name; a shared display name is no match.
    async with harness.mill.db.transaction() as tx:
        for email, name, user_name in (
            ("dan@example.org", "Dan", "D:4"),
            ("eve@example.org", "d:4", "eve"),
        ):
            fields = UserFields(email, name, user_name=user_name, source="scim")
            await identity.users.insert_user(tx, harness.connector.org_id, fields)
    matched = await post("match")
    assert [(entry["userId"], entry["email"]) for entry in matched["mapped"]] == [("d:4", "dan@example.org")]
    assert await harness.visible_ids("dan@example.org") > await harness.visible_ids("eve@example.org")
    assert (await http.get(path, params={"unmapped": True})).json()["items"] == []
    await post("import", csv="userId,email\nd:4,\n")
    assert await harness.visible_ids("dan@example.org") == await harness.visible_ids("eve@example.org")


def test_a_file_in_another_encoding_is_refused_with_what_to_do(tmp_path: Path) -> None:
    file = tmp_path / "people.csv"
    file.write_bytes("name,email\nJürgen,juergen@example.org\n".encode("cp1252"))
    with pytest.raises(Refused, match="Save it as CSV in UTF-8"):
        read_csv(str(file))
    with pytest.raises(Refused, match="No such file"):
        read_csv(str(tmp_path / "none.csv"))
