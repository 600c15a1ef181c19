"""The texts by which a search measures the scale of an embedder's similarities, once per process."""

from collections.abc import Iterable

from gristmill.search.probe_texts import CHINESE_PROBES, ENGLISH_PROBES

PROBE_PASSAGES = frozenset(passage for _, passage in (*ENGLISH_PROBES, *CHINESE_PROBES))


def without_probes(texts: Iterable[str]) -> list[str]:
    """The texts that are of documents."""
    return [text for text in texts if text not in PROBE_PASSAGES]
