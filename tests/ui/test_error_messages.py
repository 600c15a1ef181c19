"""Messages of the server in Chinese: every code that a page can show has one."""

import re

from gristmill import work  # noqa: F401  # pyright: ignore[reportUnusedImport]  # defines the kinds
from gristmill.events.event import EVENTS
from gristmill.jobs import Work
from tests.docs.pages import ROOT, read

_FOLDER = ROOT / "src/gristmill/server/ui/static/js/locales"
_LOCALES = (_FOLDER / "zh-errors.js", _FOLDER / "zh-admin-errors.js")
# Sections of the page whose codes are printed by commands, and never reach a page.
_COMMAND_LINE = ("At start-up", "Commands")
# Defaults of classes, which nothing raises, and codes of the log.
_NEVER_SHOWN = {
    "backup_damaged",  # of commands
    "backup_format",
    "backup_needs_restart",
    "backup_own_database",
    "backup_postgres_version",
    "backup_running",
    "data_dir_not_empty",
    "no_backup",
    "nothing_to_back_up",
    "cannot_be_done",
    "conflict",
    "forbidden",
    "lease_lost",
    "limit_reached",
    "not_found",
    "temporarily_unavailable",
    "too_large",
    "work_failed",
}


def documented_codes() -> set[str]:
    """The codes of the reference that a page can show."""
    sections = re.split(r"^## ", read("docs/reference/errors.md"), flags=re.MULTILINE)
    shown = [section for section in sections if not section.startswith(_COMMAND_LINE)]
    return set(re.findall(r"^\| `(\w+)` \|", "".join(shown), re.MULTILINE)) - _NEVER_SHOWN


def test_every_code_of_the_server_has_a_chinese_message() -> None:
    """A page shows it in place of the English one; parameters of the English message are kept by a pattern."""
    translated = set(
        re.findall(r"^  (\w+):", "".join(file.read_text("utf-8") for file in _LOCALES), re.MULTILINE)
    )
    assert documented_codes() - translated == set()
    assert {code for code in translated if not code.startswith("why_")} - documented_codes() <= {"paused"}


def test_messages_of_every_page_are_not_in_the_file_of_admins() -> None:
    """An item that waits for its embedder says why on the page of its base, which does not load that file."""
    package = ROOT / "src/gristmill"
    sources = [*(package / "embedding").rglob("*.py"), package / "vault.py", package / "secret_references.py"]
    codes = set(re.findall(r'"([a-z]+(?:_[a-z]+)+)"', "".join(file.read_text("utf-8") for file in sources)))
    everywhere = set(re.findall(r"^  (\w+):", _LOCALES[0].read_text("utf-8"), re.MULTILINE))
    assert (codes & documented_codes()) - everywhere == set()


def test_every_event_has_words_in_the_timeline() -> None:
    """One without would be shown by the name of its class."""
    rows = read("src/gristmill/server/ui/static/js/pages/events/event-rows.js")
    assert {kind.type for kind in EVENTS} - set(re.findall(r"^  (\w+):", rows, re.MULTILINE)) == set()


def test_every_kind_of_job_has_a_name_in_both_languages() -> None:
    """The queue and the timeline of an item would show the name in the code, such as swap_embedder."""
    kinds = {str(kind.__dict__["kind"]) for kind in subclasses(Work) if "kind" in kind.__dict__}
    source = read("src/gristmill/server/ui/static/js/job-kinds.js")
    names = dict(re.findall(r'^  (\w+): "(.+)",$', source, re.MULTILINE))
    assert len(kinds) > 20
    assert kinds - set(names) == set()
    chinese = (_FOLDER / "zh-tend.js").read_text("utf-8")
    assert {
        name for name in names.values() if not re.search(rf'^  "?{name}"?: "', chinese, re.MULTILINE)
    } == set()


def subclasses(kind: type[Work]) -> set[type[Work]]:
    """All kinds of work that are below one, but for those of tests."""
    below = {lower for direct in kind.__subclasses__() for lower in subclasses(direct)}
    return {each for each in {kind, *below} if each.__module__.startswith("gristmill.")}


def test_what_the_integrity_checks_find_is_chinese_too() -> None:
    """The settings show it as it is."""
    source = read("src/gristmill/integrity/invariants.py").split("_CHECKS = (")[1].split("PROMISES =")[0]
    sentences = set(re.findall(r'"([A-Z][^"]+\.)"', source)) | {"Nothing: the reconciler repairs it."}
    chinese = "".join(file.read_text("utf-8") for file in _FOLDER.glob("zh-*.js"))
    assert len(sentences) > 15
    assert {sentence for sentence in sentences if f'"{sentence}":' not in chinese} == set()


def test_a_text_has_one_translation_in_every_file() -> None:
    """Pages load different files; of two translations, the one that came last would be shown."""
    translations: dict[str, set[str]] = {}
    for file in _FOLDER.glob("zh-*.js"):
        if file not in _LOCALES:
            entries = re.findall(r'^  (?:"([^"]+)"|(\w+)):\s+"(.+)",$', file.read_text("utf-8"), re.MULTILINE)
            for quoted, bare, translation in entries:
                translations.setdefault(quoted or bare, set()).add(translation)
    assert {text: found for text, found in translations.items() if len(found) > 1} == {}
