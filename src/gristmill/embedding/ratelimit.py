"""How long a server that refuses for now asks us to wait: `Retry-After`, or the headers of OpenAI's form.

    Retry-After                     seconds, or a date
    Retry-After-Ms                  milliseconds; wins, because it is finer
    X-RateLimit-Reset-Requests …    as in `6m0s`, `1.5s`, `20ms` or plain seconds, together with what remains: those that
                                    have nothing left count, all of them when no header says what is left

What can't be read counts as not there.
"""

import re
from datetime import timedelta

import httpx

from gristmill import net

_LONGEST = timedelta(days=1)
_KINDS = ("requests", "tokens")
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
_DURATION = re.compile(r"(?:\d{1,9}(?:\.\d{1,9})?(?:ms|[smhd]))+|\d{1,9}(?:\.\d{1,9})?")
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|[smhd])?")


def asked_pause(headers: httpx.Headers) -> timedelta | None:
    """The pause that the server asks for, if it asks for one."""
    milliseconds = headers.get("Retry-After-Ms", "").strip()
    if milliseconds.isdecimal() and milliseconds.isascii():
        return min(timedelta(milliseconds=int(milliseconds[:12])), _LONGEST)
    asked = net.retry_after(headers)
    return _reset(headers) if asked is None else asked


def _reset(headers: httpx.Headers) -> timedelta | None:
    resets = {kind: _duration(headers.get(f"X-RateLimit-Reset-{kind}", "")) for kind in _KINDS}
    left = {kind: headers.get(f"X-RateLimit-Remaining-{kind}", "").strip() for kind in _KINDS}
    known = {kind: reset for kind, reset in resets.items() if reset is not None}
    spent = [reset for kind, reset in known.items() if left[kind] == "0"]
    unsaid = [reset for kind, reset in known.items() if not left[kind]]
    return max(spent or unsaid, default=None)


def _duration(value: str) -> timedelta | None:
    value = value.strip().lower()
    if not _DURATION.fullmatch(value):
        return None
    seconds = sum(float(number) * _UNITS[unit or "s"] for number, unit in _PART.findall(value))
    return min(timedelta(seconds=seconds), _LONGEST)
