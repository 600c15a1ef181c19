"""Usage, limits and dry runs from the command line."""

import csv
import io
import json
from pathlib import Path

import pytest

from tests.cli.conftest import RunCommand

pytestmark = pytest.mark.slow


def test_a_dry_run_a_budget_and_the_usage(run: RunCommand, tmp_path: Path) -> None:
    (tmp_path / "rye.md").write_text("Rye is ground into flour.\n\n" + "Stones turn slowly. " * 300)
    new = json.loads(run("add", "handbook", str(tmp_path), "--dry-run", "--json").stdout)
    assert run("base", "create", "handbook").code == 0, "the dry run has not created it"
    dry = json.loads(run("add", "handbook", str(tmp_path), "--dry-run", "--json").stdout)
    assert (dry["documents"], dry["exact"], dry["cost"]) == (1, True, None)
    assert new == dry
    assert "To embed:" in run("add", "handbook", str(tmp_path), "--dry-run").stdout
    assert json.loads(run("item", "list", "handbook", "--json").stdout) == []
    assert run("add", "handbook", str(tmp_path), "--wait").code == 0
    assert "0 texts" in run("reindex", "handbook", "--dry-run").stdout
    assert "documents" in run("base", "embedder", "handbook", "--max-tokens", "64", "--dry-run").stdout

    (row,) = csv.DictReader(io.StringIO(run("usage", "handbook", "--csv").stdout))
    assert (row["texts"], row["caller"]) == (str(dry["texts"]), "local")
    assert f"In all {dry['texts']} texts" in run("usage").stdout
    assert run("usage", "--until", "2020-01-01").stdout == "Nothing was embedded in these days.\n"

    assert run("limit", "list").stdout == "There are no budgets and quotas.\n"
    assert "budget of chunks" in run("limit", "set", "budget", "chunks", "1", "--base", "handbook").stdout
    assert "used up" in run("limit", "list", "handbook").stdout
    assert run("limit", "set", "quota", "money", "1").code == "invalid_request"
    assert run("limit", "remove", "budget", "chunks", "--base", "handbook").stdout == "Removed.\n"
    assert run("limit", "remove", "budget", "chunks", "--base", "handbook").code == "limit_not_found"
