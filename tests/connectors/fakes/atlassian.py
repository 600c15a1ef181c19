"""What the fakes of Jira and Confluence have in common."""

import base64
from typing import Any

from tests.connectors.fakes.tool import SECRET, FakeCall, FakeError, FakeTool

EMAIL = "robot@example.org"


class FakeAtlassian(FakeTool):
    """People, groups and authentication of both tools."""

    cloud = True

    def __init__(self) -> None:
        super().__init__()
        self.people = {
            "a:1": "ann@example.org",
            "b:2": "bob@example.org",
            "c:3": "cat@example.org",
            "d:4": "",
        }
        self.groups = {"devs": ["a:1", "b:2"], "all": ["a:1", "b:2", "d:4"]}

    def config(self) -> dict[str, Any]:
        assert self.site is not None
        return {"baseUrl": self.site.url, "deployment": "cloud" if self.cloud else "data_center"}

    def credentials(self) -> dict[str, Any]:
        return {"email": EMAIL, "token": SECRET} if self.cloud else {"token": SECRET}

    def check_authorization(self, call: FakeCall) -> None:
        pair = base64.b64encode(f"{EMAIL}:{SECRET}".encode()).decode()
        expected = f"Basic {pair}" if self.cloud else f"Bearer {SECRET}"
        if call.headers.get("authorization") != expected:
            raise FakeError(401, {"message": f"no {SECRET}"})
