"""How long a server asks us to wait, in all the forms it may say so."""

from datetime import timedelta

import httpx
import pytest

from gristmill.embedding.ratelimit import pause_from_headers


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"Retry-After": "7"}, 7),
        ({"Retry-After-Ms": "1500", "Retry-After": "2"}, 1.5),
        ({"X-RateLimit-Reset-Requests": "6m0s"}, 360),
        ({"x-ratelimit-reset-tokens": "1h2m3.5s"}, 3723.5),
        ({"x-ratelimit-reset-requests": "20ms", "x-ratelimit-reset-tokens": "2s"}, 2),
        (
            {
                "x-ratelimit-remaining-requests": "0",
                "x-ratelimit-reset-requests": "8.64s",
                "x-ratelimit-remaining-tokens": "99",
                "x-ratelimit-reset-tokens": "6m",
            },
            8.64,
        ),
        ({"x-ratelimit-reset-requests": "7.66"}, 7.66),
        ({"x-ratelimit-reset-requests": "999999999d"}, 86_400),
        ({"x-ratelimit-remaining-requests": "5", "x-ratelimit-reset-requests": "9s"}, None),
        ({"x-ratelimit-reset-requests": "soon"}, None),
        ({"x-ratelimit-reset-requests": "-1s"}, None),
        ({"Retry-After-Ms": "soon"}, None),
        ({}, None),
    ],
)
def test_the_pause_that_is_asked_for(headers: dict[str, str], seconds: float | None) -> None:
    pause = pause_from_headers(httpx.Headers(headers))
    assert pause == (None if seconds is None else timedelta(seconds=seconds))
