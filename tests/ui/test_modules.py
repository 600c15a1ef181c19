"""The pages' modules, held against their types, the linter and their own tests; offline, by deno."""

import re
import subprocess
from pathlib import Path

import deno
import pytest

from gristmill.server.ui.static_files import bare

ROOT = Path(__file__).parents[2]
MODULES = "src/gristmill/server/ui/static/js"


@pytest.mark.parametrize(
    "arguments",
    [
        ["lint", MODULES, "tests/ui"],
        ["check", MODULES],
        ["test", "--no-remote", "--allow-read=src", "tests/ui"],
    ],
    ids=lambda arguments: arguments[0],
)
def test_the_modules_are_sound(arguments: list[str], tmp_path: Path) -> None:
    done = subprocess.run(
        [deno.find_deno_bin(), *arguments],
        cwd=ROOT,
        env={"DENO_DIR": str(tmp_path), "NO_COLOR": "1", "DENO_NO_UPDATE_CHECK": "1"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def code(source: str) -> str:
    """A module without comments and spaces: read character by character, with strings, templates and patterns in mind."""
    kept, inside, at = list[str](), list[str](), 0  # `inside`: templates, and braces within them
    before = ""  # the last character that was no space: tells a pattern from a division
    token = re.compile(r"/\*.*?\*/|//[^\n]*|\"(?:\\.|[^\"\\])*\"|'(?:\\.|[^'\\])*'|\s+|.", re.DOTALL)
    pattern = re.compile(r"/(?:\\.|\[(?:\\.|[^\]\\\n])*\]|[^/\\\n])+/[a-z]*")
    text = re.compile(r"(?:\\.|(?!\$\{)[^`\\])*", re.DOTALL)
    while at < len(source):
        if inside and inside[-1] == "`":
            found = text.match(source, at)
            assert found is not None
            at, closing = found.end(), source[found.end()]
            kept.append(found[0] + closing)
            at += 1 if closing == "`" else 2
            if closing == "`":
                inside.pop()
            else:
                inside.append("{")
            before = closing
            continue
        found = pattern.match(source, at) if before in "(,=:[!&|?{};>" and source[at] == "/" else None
        found = found if found and not found[0].startswith(("//", "/*")) else token.match(source, at)
        assert found is not None
        piece, at = found[0], found.end()
        is_comment = piece.startswith(("/*", "//")) and (len(piece) > 1)
        kept.append("" if is_comment else piece)
        if piece == "`" or (piece == "{" and inside):
            inside.append(piece)
        elif piece == "}" and inside:
            inside.pop()
        if not is_comment and not piece.isspace():
            before = piece[-1]
    return re.sub(r"\s", "", "".join(kept))


def test_what_is_left_out_when_they_are_sent_is_comments_and_indents_alone() -> None:
    for path in sorted((ROOT / MODULES).rglob("*.js")):
        whole, sent = path.read_text("utf-8"), bare(path.name, path.read_bytes()).decode()
        assert code(sent) == code(whole), path.name
        assert sent.count("\n") == whole.count("\n"), "an error's line is that of the source"
    trap = "const a = `/** no comment */`;"
    assert code(bare("a.js", trap.encode()).decode()) != code(trap), "the check would see it"
