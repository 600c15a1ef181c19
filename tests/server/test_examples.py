"""Every request body and response has an example that matches its schema, except pages of resources that have their own."""

import json
from collections.abc import Iterator
from importlib import resources
from typing import Any, cast

import jsonschema
import pytest

from gristmill import app
from tests.docs.pages import blocks, read

# Responses with one self-explaining field, and pages of resources that have their own example.
# Lists of what has an example, and small bodies that the reference describes by their fields.
WITHOUT = {
    "Body_import_base_api_knowledge_bases_import_post",
    "AnalyseOut",
    "ChangedChunk",
    "ChunkOut",
    "Chunking",
    "DeletedQuestions",
    "EndedSessions",
    "JobAccepted",
    "MovedSelection",
    "Page_AskedQuestionOut_",
    "Page_BaseOut_",
    "Page_ConnectorOut_",
    "Page_ExclusionOut_",
    "Page_FailureOut_",
    "Page_GroupOut_",
    "Page_IdentityOut_",
    "Page_HoldOut_",
    "Page_ItemOut_",
    "Page_KeyOut_",
    "Page_LimitOut_",
    "Page_LineOut_",
    "Page_MemberOut_",
    "Page_RunOut_",
    "Page_SavedSearchOut_",
    "Page_UserOut_",
    "Page_WebhookOut_",
    "NewBaseItems",
    "NewOwnKey",
    "OwnRoleOut",
    "StorageOut",
    "TaggedOut",
    "TaggedSelection",
    "TagsOut",
    "TakenBack",
}


@pytest.fixture
def schema(mill: app.Gristmill) -> dict[str, Any]:
    return mill.api.openapi()


def schema_names(schema: dict[str, Any]) -> Iterator[str]:
    """The schemas of request bodies and successful responses."""
    for methods in schema["paths"].values():
        for operation in methods.values():
            good = [answer for status, answer in operation["responses"].items() if status.startswith("2")]
            for part in [operation.get("requestBody", {}), *good]:
                for content in part.get("content", {}).values():
                    if "$ref" in content.get("schema", {}):
                        yield str(content["schema"]["$ref"]).rpartition("/")[2]


async def test_every_body_and_answer_has_an_example(schema: dict[str, Any]) -> None:
    without = {
        name for name in schema_names(schema) if "examples" not in schema["components"]["schemas"][name]
    }
    assert without == WITHOUT


async def test_every_example_matches_its_schema_and_is_used(schema: dict[str, Any]) -> None:
    text = resources.files("gristmill.server.api").joinpath("examples.json").read_text()
    for name, example in json.loads(text).items():
        assert schema["components"]["schemas"][name]["examples"] == [example], name
        root_schema = {"$ref": f"#/components/schemas/{name}", "components": schema["components"]}
        cast(Any, jsonschema.Draft202012Validator(root_schema)).validate(example)


def test_examples_are_what_the_documentation_shows() -> None:
    blocks_shown = [
        json.loads(block.text) for block in blocks(read("docs/reference/api.md")) if block.language == "json"
    ]
    text = resources.files("gristmill.server.api").joinpath("examples.json").read_text()
    missing = {name for name, example in json.loads(text).items() if example not in blocks_shown}
    assert missing == {
        "Body_upload_files_api_knowledge_bases__base_id__files_post",
        "ConnectorChange",
        "ItemOut",
        "KeyOut",
        "WebhookOut",
        "SearchBasesIn",
    }
