"""Invalid input in plain words."""

from typing import Annotated, Any

import httpx
import pytest
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from gristmill import validation
from tests.api_calls import assert_problem, make_base

_FOREIGN = (
    "Value error",
    "Input should",
    "Field required",
    "Extra inputs",
    "String should",
    "pydantic",
    "valid dictionary",
)


class _Inner(BaseModel):
    model_config = ConfigDict(extra="forbid")

    size: int = Field(ge=1)


class _Form(BaseModel):
    inner: list[_Inner]
    choice: int | list[str] = 0
    words: Annotated[str, AfterValidator(str.strip), Field(max_length=3)] = ""


def _errors(value: dict[str, Any]) -> list[tuple[str, str]]:
    with pytest.raises(ValidationError) as caught:
        _Form.model_validate(value)
    errors = validation.field_errors(caught.value.errors(), value)
    return [(error.field, error.message) for error in errors]


_CASES: list[tuple[dict[str, Any], str, str]] = [
    ({}, "inner", "is missing"),
    ({"inner": 3}, "inner", "must be a list"),
    ({"inner": [{}]}, "inner[0].size", "is missing"),
    ({"inner": [{"size": 1}, {"size": "x"}]}, "inner[1].size", "must be a whole number"),
    ({"inner": [{"size": 0}]}, "inner[0].size", "must be at least 1"),
    (
        {"inner": [{"size": 1, "sise": 2}]},
        "inner[0].sise",
        "is not a known field; remove it, or correct its spelling",
    ),
    # The two variants of `choice` are not part of the path.
    ({"inner": [], "choice": {}}, "choice", "must be a whole number or a list"),
    # Nor does the variant that was not sent have a message.
    ({"inner": [], "choice": [3]}, "choice[0]", "must be text"),
    ({"inner": [], "choice": "x"}, "choice", "must be a whole number"),
    ({"inner": [], "words": "long"}, "words", "must have at most 3 characters"),
]


@pytest.mark.parametrize(("value", "field", "message"), _CASES)
def test_an_error_has_the_json_path_of_its_field_and_our_words(
    value: dict[str, Any], field: str, message: str
) -> None:
    assert _errors(value) == [(field, message)]


def test_only_the_first_errors_are_sentences_and_the_others_are_counted() -> None:
    value = {"inner": [{"size": 0}] * 5}
    with pytest.raises(ValidationError) as caught:
        _Form.model_validate(value)
    text = validation.sentences(validation.field_errors(caught.value.errors(), value))
    assert text.startswith("inner[0].size must be at least 1. inner[1].size must be at least 1.")
    assert text.endswith("There are 2 more errors.")


async def test_no_refusal_speaks_in_the_words_of_the_framework(http: httpx.AsyncClient) -> None:
    """Every kind of invalid value, in bodies, queries, forms and the entries of a list."""
    base = await make_base(http)
    requests: list[tuple[str, str, dict[str, Any]]] = [
        ("POST", "/knowledge-bases", {"json": {}}),
        ("POST", "/knowledge-bases", {"json": {"name": ""}}),
        ("POST", "/knowledge-bases", {"json": {"name": 7}}),
        ("POST", "/knowledge-bases", {"json": []}),
        ("POST", "/knowledge-bases", {"content": b""}),
        ("POST", "/knowledge-bases", {"json": {"name": "x", "chunking": {"size": "many"}}}),
        ("POST", "/knowledge-bases", {"json": {"name": "x", "settings": {"ignore": "*.log"}}}),
        ("POST", "/knowledge-bases", {"json": {"name": "x" * 300}}),
        ("POST", f"/knowledge-bases/{base}/items", {"json": {"items": [{"type": "note", "content": " "}]}}),
        ("POST", f"/knowledge-bases/{base}/items", {"json": {"items": [{"type": "song"}]}}),
        ("POST", f"/knowledge-bases/{base}/items", {"json": {"items": [{}, 3, None]}}),
        ("POST", f"/knowledge-bases/{base}/items", {"json": {"items": [], "onConflict": "burn"}}),
        ("POST", f"/knowledge-bases/{base}/items/delete", {"json": {"itemIds": ["x"]}}),
        ("POST", f"/knowledge-bases/{base}/search", {"json": {"query": "x", "limit": 1.5}}),
        ("POST", f"/knowledge-bases/{base}/search", {"json": {"query": "x", "mode": "magic"}}),
        ("POST", f"/knowledge-bases/{base}/files", {"data": {"files": "no file"}}),
        ("POST", f"/knowledge-bases/{base}/files", {"files": {"files": b"x"}, "data": {"metadata": "{"}}),
        ("GET", f"/knowledge-bases/{base}/items", {"params": {"limit": "x"}}),
        ("GET", f"/knowledge-bases/{base}/items", {"params": {"status": "sad"}}),
        ("GET", "/jobs", {"params": {"cursor": "x"}}),
        ("POST", "/webhooks", {"json": {"url": "http://[", "types": []}}),
        ("POST", "/webhooks", {"json": {"url": "http://example.org:x", "types": []}}),
        ("POST", "/webhooks", {"json": {"url": "http://example.org", "secret": "whsec_?", "types": []}}),
        ("POST", "/api-keys", {"json": {"name": "x", "role": "king"}}),
        ("POST", "/api-keys", {"json": {"name": "x", "role": "reader", "expiresAt": 7}}),
        ("POST", "/api-keys", {"json": {"name": "x", "role": "reader", "expiresAt": "tomorrow"}}),
        ("POST", "/connectors", {"json": {"name": "x", "type": "jira", "config": {}, "credentials": {}}}),
    ]
    for method, path, options in requests:
        answer = await http.request(method, f"/api{path}", **options)
        problem = assert_problem(answer, 422, answer.json()["code"])
        texts = [problem["detail"], *(error["message"] for error in problem["errors"])]
        for text in texts:
            assert not any(words in text for words in _FOREIGN), (path, text)
            assert "can't be used here" not in text, (path, options, text)
