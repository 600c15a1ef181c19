"""`--filter` as it is typed, and as the API takes it."""

from typing import Any

import pytest

from gristmill.cli.filters import parse_filters
from gristmill.errors import Invalid


@pytest.mark.parametrize(
    ("texts", "filters"),
    [
        ([], {}),
        (["team=sales"], {"op": "eq", "key": "team", "value": "sales"}),
        (["year>=2020"], {"op": "gte", "key": "year", "value": 2020}),
        (["year <= 2020.5"], {"op": "lte", "key": "year", "value": 2020.5}),
        (["year>2020"], {"op": "gt", "key": "year", "value": 2020}),
        (["year<2020"], {"op": "lt", "key": "year", "value": 2020}),
        (["draft!=true"], {"op": "ne", "key": "draft", "value": True}),
        (['year="2020"'], {"op": "eq", "key": "year", "value": "2020"}),
        (['name="a,b"'], {"op": "eq", "key": "name", "value": "a,b"}),
        (["formula=a=b"], {"op": "eq", "key": "formula", "value": "a=b"}),
        (["note="], {"op": "eq", "key": "note", "value": ""}),
        (["tag=a,b"], {"op": "in", "key": "tag", "value": ["a", "b"]}),
        (["year!=2020,2021"], {"op": "nin", "key": "year", "value": [2020, 2021]}),
        (["type=note,file"], {"types": ["note", "file"]}),
        (
            ["a=1", "b>2", "type=note"],
            {
                "types": ["note"],
                "and": [{"op": "eq", "key": "a", "value": 1}, {"op": "gt", "key": "b", "value": 2}],
            },
        ),
    ],
)
def test_conditions_become_filters_of_the_api(texts: list[str], filters: dict[str, Any]) -> None:
    assert parse_filters(texts) == filters


@pytest.mark.parametrize("text", ["year", "=2020", "", "year~2020"])
def test_what_is_no_condition_is_refused(text: str) -> None:
    with pytest.raises(Invalid) as error:
        parse_filters([text])
    assert error.value.code == "bad_option"
