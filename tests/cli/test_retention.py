"""`gristmill base retention`, `base hold`, `base lift` and `gristmill deletions`."""

import csv
import json
from pathlib import Path

from tests.gristmill_process import environment, run_command, run_serve


def test_a_base_gets_rules_and_a_hold_and_the_report_is_written(
    database_url: str, data_dir: Path, cache_dir: Path, tmp_path: Path, quick_embedder: dict[str, str]
) -> None:
    env = environment(data_dir, cache_dir, database_url=database_url, **quick_embedder)

    def run(*words: str, code: int = 0) -> str:
        ended = run_command(env, *words)
        assert ended.returncode == code, ended.stdout + ended.stderr
        return ended.stdout + ended.stderr

    with run_serve(env, log=tmp_path / "log"):
        run("add", "handbook", "--note", "Refunds take 14 days.", "--wait")
        assert "without limit" in run("base", "retention", "handbook")
        assert "3,650 days" in run("base", "retention", "handbook", "--documents", "3650", "--versions", "90")
        shown = run("base", "retention", "handbook", "--documents", "0")
        assert "without limit" in shown
        assert "90 days" in shown
        assert "No legal hold" in run("base", "hold", "handbook")
        hold = json.loads(run("base", "hold", "handbook", "--reason", "Case 7", "--json"))["items"][0]
        assert "Case 7" in run("base", "hold", "handbook")
        assert "legal hold" in run("base", "delete", "handbook", "--yes", code=1)
        assert "lifted" in run("base", "lift", "handbook", hold["id"])
        assert "Nothing was deleted" in run("deletions")
        item = json.loads(run("item", "list", "handbook", "--json"))[0]["id"]
        run("item", "delete", item, "--yes")
        run("base", "delete", "handbook", "--yes")
        report = tmp_path / "deletions.csv"
        while "0 deletions" in run("deletions", "--csv", str(report)):
            pass
    (row,) = csv.DictReader(report.read_text().splitlines())
    assert (row["base_name"], row["type"], row["reason"], row["title"]) == ("handbook", "note", "person", "")
