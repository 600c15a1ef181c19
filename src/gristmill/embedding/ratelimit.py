"""The pause that a rate-limiting server asks for, from `Retry-After` or OpenAI's rate-limit headers.

    Retry-After                     seconds, or a date
    Retry-After-Ms                  milliseconds; preferred, because it is finer
    X-RateLimit-Reset-Requests …    a duration such as `6m0s`, `1.5s`, `20ms` or plain seconds. Only the limits count whose
                                    X-RateLimit-Remaining is 0, or those without such a header

Headers that can't be parsed are ignored.
"""

import re
from datetime import timedelta

import httpx

from gristmill import net

_MAX_PAUSE = timedelta(days=1)
_KINDS = ("requests", "tokens")
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
_DURATION = re.compile(r"(?:\d{1,9}(?:\.\d{1,9})?(?:ms|[smhd]))+|\d{1,9}(?:\.\d{1,9})?")
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|[smhd])?")


def pause_from_headers(headers: httpx.Headers) -> timedelta | None:
    """The pause that the response headers ask for, if any."""
    milliseconds = headers.get("Retry-After-Ms", "").strip()
    if milliseconds.isdecimal() and milliseconds.isascii():
        return min(timedelta(milliseconds=int(milliseconds[:12])), _MAX_PAUSE)
    pause = net.retry_after(headers)
    return _pause_until_reset(headers) if pause is None else pause


def _pause_until_reset(headers: httpx.Headers) -> timedelta | None:
    resets = {kind: _duration(headers.get(f"X-RateLimit-Reset-{kind}", "")) for kind in _KINDS}
    remaining = {kind: headers.get(f"X-RateLimit-Remaining-{kind}", "").strip() for kind in _KINDS}
    known = {kind: reset for kind, reset in resets.items() if reset is not None}
    exhausted = [reset for kind, reset in known.items() if remaining[kind] == "0"]
    unspecified = [reset for kind, reset in known.items() if not remaining[kind]]
    return max(exhausted or unspecified, default=None)


def _duration(value: str) -> timedelta | None:
    value = value.strip().lower()
    if not _DURATION.fullmatch(value):
        return None
    seconds = sum(float(number) * _UNITS[unit or "s"] for number, unit in _PART.findall(value))
    return min(timedelta(seconds=seconds), _MAX_PAUSE)
