"""Connectors from other packages, and the package that `gristmill connector new` writes."""

import importlib
import subprocess
import sys
from pathlib import Path

import pytest

from gristmill import app
from gristmill.cli.client_session import Refused
from gristmill.cli.new_connector import write_connector
from gristmill.connectors.port import ConnectorLimits
from gristmill.connectors.registry import ConnectorRegistry
from tests.command_line import invoke
from tests.connectors.fakes.tool import ExpectedDocument, FakeError, FakeTool, serve_fake, words_in
from tests.connectors.harness import ConnectorHarness, vault_of
from tests.docs.pages import ROOT


class FakeTracker(FakeTool):
    """A tool with the API of the template."""

    kind = "tracker_x"

    def __init__(self) -> None:
        super().__init__()
        self.articles = {str(self.new_id()): f"text {self.new_word()}" for _ in range(6)}
        self.untitled = set[str]()
        self.route("GET", "/articles", self._list)
        self.route("GET", "/articles/{key}", self._article)

    def config(self) -> dict[str, object]:
        assert self.site is not None
        return {"baseUrl": self.site.url}

    def expected_documents(self) -> dict[str, ExpectedDocument]:
        return {
            f"article:{key}": ExpectedDocument(words_in(text), frozenset({"org:*"}))
            for key, text in self.articles.items()
        }

    def add_article(self, title: str | None = "Article") -> str:
        """Add an article; its id."""
        key = str(self.new_id())
        self.articles[key] = f"text {self.new_word()}"
        self.untitled |= set() if title else {key}
        return key

    def _list(self, call: object) -> object:
        del call
        return {"items": [self._article(None, key) for key in self.articles], "next": None}

    def _article(self, call: object, key: str) -> dict[str, object]:
        del call
        if key not in self.articles:
            raise FakeError(404)
        text = self.articles[key]
        title = {} if key in self.untitled else {"title": "Article"}
        return {"id": key, "revision": text, "text": text, "url": None, "files": [], **title}


FORMLESS = """
from collections.abc import Callable
from dataclasses import replace
from gristmill.connectors.port import ConnectorForm
from gristmill_tracker_x import KIND

class Config(ConnectorForm):
    clock: Callable[[], float]

KIND = replace(KIND, name="formless", config=Config)
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package from the generator, as if it were installed, beside one that can't be imported."""
    folder = write_connector("tracker_x", tmp_path)
    assert "sample" not in (folder / "src/gristmill_tracker_x/__init__.py").read_text().lower()
    entry_points = (
        "[gristmill.connectors]\ntracker_x = gristmill_tracker_x:KIND\nbroken = nowhere:KIND\n"
        "github = gristmill_tracker_x:KIND\nformless = formless:KIND\n"
    )
    (folder / "src" / "formless.py").write_text(FORMLESS)
    info = folder / "src" / "gristmill_tracker_x-0.1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: gristmill-tracker-x\nVersion: 0.1.0\n")
    (info / "entry_points.txt").write_text(entry_points)
    monkeypatch.setattr(sys, "path", [str(folder / "src"), *sys.path])
    importlib.invalidate_caches()
    return folder


@pytest.mark.slow
async def test_a_plugin_is_offered_and_syncs_like_any_other_connector(
    package: Path, mill: app.Gristmill, caplog: pytest.LogCaptureFixture
) -> None:
    """A plugin that can't be imported is left out with a warning, and a document that it does not understand, with an error of the run."""
    del package
    assert "tracker_x" in {kind.name for kind in mill.connectors.kinds()}
    assert "github" in {kind.name for kind in mill.connectors.kinds()}
    assert all(kind.json_schemas() for kind in mill.connectors.kinds())  # as a list of all kinds does
    with serve_fake(FakeTracker()) as tool:
        harness = await ConnectorHarness.create(mill, tool)
        assert (await harness.sync()).status == "success"
        await harness.assert_matches_tool()
        key = next(iter(tool.articles))
        tool.articles[key] = f"changed {tool.new_word()}"
        tool.articles.pop(list(tool.articles)[-1])
        run = await harness.sync()
        assert (run.documents_ingested, run.documents_pruned) == (1, 1)
        await harness.assert_matches_tool()
        # One document that the plugin does not understand keeps none of the others out.
        odd = tool.add_article(title=None)
        tool.add_article()
        run = await harness.sync()
        assert (run.status, run.documents_ingested, run.item_errors) == ("completed_with_errors", 1, 1)
        assert f"article:{odd} can't be read: The connector does not understand" in await harness.log_text(
            run
        )
        assert "KeyError: 'title'" in caplog.text
    caplog.clear()
    ConnectorRegistry(vault_of(mill), ConnectorLimits(allow_private=True))
    assert "nowhere:KIND" in caplog.text
    assert "formless:KIND is left out: its settings have no JSON schema" in caplog.text


def test_the_test_that_the_generator_writes_passes(package: Path) -> None:
    result = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:randomly", "-p", "no:xdist", "tests"],
        cwd=package,
        env={"PYTHONPATH": "src", "PATH": ""},
        check=False,
        capture_output=True,
        text=True,
    )
    assert "1 passed" in result.stdout, result.stdout + result.stderr


def test_a_name_that_contains_that_of_the_template_is_written_once(tmp_path: Path) -> None:
    folder = write_connector("sample_docs", tmp_path)
    assert 'name = "gristmill-sample-docs"' in (folder / "pyproject.toml").read_text()
    assert "class SampleDocsConfig" in (folder / "src/gristmill_sample_docs/__init__.py").read_text()


def test_the_generator_refuses_bad_names_names_of_its_own_and_existing_folders(tmp_path: Path) -> None:
    """A plugin that takes the name of another kind is left out."""
    for name in ("My Tool", "tool_", "my__tool", "t", "t" * 42):
        with pytest.raises(Refused, match="small letters"):
            write_connector(name, tmp_path)
    with pytest.raises(Refused, match="itself"):
        write_connector("linear", tmp_path)
    write_connector("tool", tmp_path)
    with pytest.raises(Refused, match="exists already"):
        write_connector("tool", tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(Refused, match="can't be written: Not a directory"):
        write_connector("tool", tmp_path / "file")


def test_the_page_about_writing_a_connector_shows_what_the_command_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = invoke(["connector", "new", "sample"])
    assert result.exit_code == 0, result.output
    assert "pip install -e gristmill-sample" in result.stdout
    page = (ROOT / "docs/how-to/write-a-connector.md").read_text(encoding="utf-8")
    module = tmp_path / "gristmill-sample/src/gristmill_sample/__init__.py"
    assert f"```python\n{module.read_text(encoding='utf-8')}```" in page
