"""No converter raises, whatever its input, and none takes long."""

import time
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gristmill.connectors import markup

pytestmark = pytest.mark.slow


_ANY = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(["type", "text", "content", "attrs", "marks", "x"]), inner, max_size=4
        )
    ),
)


@settings(deadline=None, max_examples=200)
@given(_ANY, st.text())
def test_no_converter_raises_and_every_result_can_be_stored(anything: Any, text: str) -> None:
    for markdown in (markup.adf(anything), markup.adf(text), markup.storage(text), markup.wiki(text)):
        assert "\0" not in markdown
        markdown.encode()


HOSTILE: list[tuple[Callable[[str], str], str]] = [
    *((markup.storage, unit) for unit in ("<b>", "<ul><li>", "<a b=\"", "<", "<a ", "<!--", "<td rowspan=9 colspan=9>a", "<p>x", "</p>", "&#1")),
    *((markup.wiki, unit) for unit in ("*a ", "{{", "[a|", "!a.png", "|a", "{quote}x", "a\n", "*_-a-_* ", "??a")),
]  # fmt: skip


@pytest.mark.parametrize(
    ("convert", "unit"), HOSTILE, ids=lambda value: value if isinstance(value, str) else ""
)
def test_hostile_input_takes_linear_time(convert: Callable[[str], str], unit: str) -> None:
    """Four times the input takes about four times as long; a quadratic converter takes sixteen times as long."""

    def seconds(length: int) -> float:
        text = unit * (length // len(unit))
        best = 1e9
        for _ in range(2):
            started = time.process_time()
            convert(text)
            best = min(best, time.process_time() - started)
        return best

    assert seconds(48_000) < 9 * seconds(12_000) + 0.03
