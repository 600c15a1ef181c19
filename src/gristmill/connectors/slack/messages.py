"""Slack's messages as markdown: mentions by name, links, and the texts of blocks and attachments."""

import hashlib
import html
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any

from gristmill.connectors import markup
from gristmill.connectors.json_values import as_dict, as_list
from gristmill.connectors.port import Attachment
from gristmill.connectors.slack.api import SlackUser

_NOISE = frozenset(
    (
        *("channel_join", "channel_leave", "channel_topic", "channel_purpose", "channel_name"),
        *(
            "channel_archive",
            "channel_unarchive",
            "channel_posting_permissions",
            "channel_convert_to_private",
        ),
        *("group_join", "group_leave", "group_topic", "group_purpose", "group_name", "group_archive"),
        *(
            "group_unarchive",
            "pinned_item",
            "unpinned_item",
            "bot_add",
            "bot_remove",
            "bot_enable",
            "bot_disable",
        ),
        *("reminder_add", "tombstone", "thread_broadcast"),
    )
)
# What Slack puts where an app gave blocks alone.
_PLACEHOLDERS = frozenset(
    (
        "This content can't be displayed.",
        "This message contains interactive elements.",
        "[no preview available]",
    )
)
_RECHECK = timedelta(days=7)  # how long after its last reply a thread is read once a day, for edited replies
_REFERENCE = re.compile(r"<([^<>|]*)(?:\|([^<>]*))?>")
_BOLD = re.compile(r"(?<![\w*])\*(?=\S)([^*\n]+?)(?<=\S)\*(?![\w*])")
_TITLE_LENGTH = 80


def day_of(message: Mapping[str, Any]) -> date:
    """The day on which a message was written, in UTC."""
    return time_of(str(message.get("ts") or "0")).date()


def time_of(ts: str) -> datetime:
    """The time of a message from its `ts`."""
    try:
        return datetime.fromtimestamp(float(ts), UTC)
    except (ValueError, OverflowError, OSError):
        return datetime.fromtimestamp(0, UTC)


def is_thread(message: Mapping[str, Any]) -> bool:
    """Whether a message has replies."""
    return bool(message.get("reply_count")) and message.get("thread_ts", message.get("ts")) == message.get(
        "ts"
    )


def is_noise(message: Mapping[str, Any]) -> bool:
    """Whether a message says nothing: someone joined, a topic was set; or it is in its thread already."""
    return str(message.get("subtype") or "") in _NOISE


def mark_of(messages: Iterable[Mapping[str, Any]]) -> str:
    """A hash that changes when one of the messages is edited or deleted, or one is added."""
    states = [
        [
            message.get("ts"),
            message.get("user"),
            message.get("text"),
            as_dict(message.get("edited")).get("ts"),
            [[file.get("id"), file.get("mode")] for file in map(as_dict, as_list(message.get("files")))],
        ]
        for message in messages
    ]
    return hashlib.sha256(json.dumps(states, default=str).encode()).hexdigest()[:32]


def thread_mark(root: Mapping[str, Any], now: datetime) -> str:
    """The mark of a thread. An edited reply does not show in the root: a young thread has another mark every day."""
    latest = str(root.get("latest_reply") or root.get("ts") or "0")
    is_young = time_of(latest) > now - _RECHECK
    parts = [
        mark_of([root]),
        str(root.get("reply_count")),
        latest,
        *([f"{now:%Y-%m-%d}"] if is_young else []),
    ]
    return " ".join(parts)


def to_markdown(messages: Sequence[Mapping[str, Any]], users: Mapping[str, SlackUser]) -> str:
    """Messages one after the other, each with its author and time."""
    parts: list[str] = []
    for message in messages:
        text = _message_text(message, users)
        files = [str(file.get("name") or file.get("title") or "") for file in _files(message)]
        text = "\n\n".join(part for part in (text, *(f"(file: {name})" for name in files if name)) if part)
        if text:
            parts.append(
                f"**{_author(message, users)}**, {time_of(str(message.get('ts'))):%Y-%m-%d %H:%M}:\n\n{text}"
            )
    return markup.strip_unstorable("\n\n".join(parts))


def title_of(message: Mapping[str, Any], users: Mapping[str, SlackUser]) -> str:
    """The first line of a message, cut to a title."""
    line = (_message_text(message, users).splitlines() or [""])[0].replace("**", "")
    return line if len(line) <= _TITLE_LENGTH else f"{line[:_TITLE_LENGTH].rsplit(' ', 1)[0]} …"


def attachments_of(messages: Iterable[Mapping[str, Any]]) -> tuple[Attachment, ...]:
    """The files of messages, each once. Files elsewhere, and those that Slack no longer shows, are left out."""
    attachments: dict[str, Attachment] = {}
    for file in (file for message in messages for file in _files(message)):
        url = file.get("url_private_download") or file.get("url_private")
        if (
            not url
            or file.get("is_external")
            or file.get("mode") in ("external", "tombstone", "hidden_by_limit")
        ):
            continue
        source_id = f"file:{file.get('id')}"
        size = file.get("size")
        attachments[source_id] = Attachment(
            source_id,
            markup.strip_unstorable(str(file.get("name") or file.get("title") or file.get("id"))),
            size if isinstance(size, int) else None,
            str(file.get("mimetype") or "") or None,
            {"url": str(url)},
        )
    return tuple(attachments[source_id] for source_id in sorted(attachments))


def _files(message: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [as_dict(file) for file in as_list(message.get("files"))]


def _author(message: Mapping[str, Any], users: Mapping[str, SlackUser]) -> str:
    user = users.get(str(message.get("user") or ""))
    if user is not None:
        return user.name
    profile = as_dict(message.get("bot_profile"))
    return str(message.get("username") or profile.get("name") or message.get("user") or "Unknown")


def _message_text(message: Mapping[str, Any], users: Mapping[str, SlackUser]) -> str:
    if message.get("subtype") == "tombstone":
        return ""
    text = _own_text(message.get("text"))
    # What people write is in `text` too; of what apps write, it is a summary, or nothing at all.
    blocks = [block for block in as_list(message.get("blocks")) if not text or not _is_written(block)]
    parts = [text, *_block_texts(blocks)]
    for attachment in map(as_dict, as_list(message.get("attachments"))):
        own = [str(attachment.get(name) or "") for name in ("pretext", "title", "text")]
        own += [
            f"{field.get('title')}: {field.get('value')}"
            for field in map(as_dict, as_list(attachment.get("fields")))
        ]
        own += _block_texts(attachment.get("blocks"))
        parts += [part for part in own if part] or [_own_text(attachment.get("fallback"))]
    said = [
        part for number, part in enumerate(parts) if part and not any(part in each for each in parts[:number])
    ]
    return "\n\n".join(_convert(part, users) for part in said).strip()


def _own_text(text: object) -> str:
    """A text, unless it is what Slack shows where there is none."""
    return "" if text in _PLACEHOLDERS else str(text or "")


def _is_written(block: object) -> bool:
    return as_dict(block).get("type") == "rich_text"


def _block_texts(blocks: object) -> list[str]:
    """The texts of blocks: one for each block. Buttons say nothing."""
    texts: list[str] = []
    for block in as_list(blocks):
        if as_dict(block).get("type") == "actions":
            continue
        words: list[str] = []
        pending: list[Any] = [block]
        while pending:
            value = pending.pop()
            entry, text = as_dict(value), as_dict(value).get("text")
            if isinstance(text, str) and entry.get("type") != "button":
                words.append(text)
            pending += reversed(as_list(value) or list(entry.values()))
        # Pieces of what people write follow each other; those of apps are fields.
        texts.append("".join(words) if _is_written(block) else "\n".join(word.strip() for word in words))
    return [text for text in texts if text.strip()]


def _convert(text: str, users: Mapping[str, SlackUser]) -> str:
    """Slack's own markup as markdown; code stays as it is."""
    pieces = re.split(r"(```.*?```|`[^`\n]*`)", text, flags=re.S)
    return "".join(
        html.unescape(piece)
        if index % 2
        else html.unescape(
            _BOLD.sub(r"**\1**", _REFERENCE.sub(lambda match: _reference(match, users), piece))
        )
        for index, piece in enumerate(pieces)
    )


def _reference(match: re.Match[str], users: Mapping[str, SlackUser]) -> str:
    target, label = match[1], match[2]
    if target.startswith("@"):
        user = users.get(target[1:])
        return f"@{user.name if user else label or target[1:]}"
    if target.startswith("#"):
        return f"#{label or target[1:]}"
    if target.startswith("!"):
        return label or f"@{target[1:].partition('^')[0]}"
    if target.startswith("mailto:"):
        return label or target.removeprefix("mailto:")
    return f"[{label}]({target})" if label and label != target else target
