"""The rules, the dashboard and the runbook name metrics and sections that exist; promtool accepts and tests the rules."""

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from gristmill import app
from tests.docs.pages import ROOT
from tests.wait_until import wait_until

RULES = ROOT / "deploy/prometheus/gristmill.rules.yaml"
DASHBOARD = ROOT / "deploy/grafana/gristmill.json"
_METRIC = re.compile(r"\b(gristmill_\w+)")
_RECORDED = re.compile(r"\b(gristmill:[\w:]+)")
# A family's samples have these endings.
_SAMPLES = re.compile(r"_(?:bucket|sum|count|total)$")


def rules() -> list[dict[str, Any]]:
    return [rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]]


def expressions() -> list[str]:
    panels = json.loads(DASHBOARD.read_text())["panels"]
    of_panels = [target["expr"] for panel in panels for target in panel["targets"]]
    return [rule["expr"] for rule in rules()] + of_panels


async def test_every_metric_of_the_rules_and_the_dashboard_is_exported(
    mill: app.Gristmill, http: httpx.AsyncClient
) -> None:
    """Also the labels that they select by."""
    await http.post("/api/search", json={"query": "wheel"})
    text = (await http.get("/metrics")).text
    families = {family.name: family for family in text_string_to_metric_families(text)}
    names = {name for expression in expressions() for name in _METRIC.findall(expression)}
    assert len(names) > 10
    for name in names:
        assert _SAMPLES.sub("", name) in families, name
    recorded = {name for expression in expressions() for name in _RECORDED.findall(expression)}
    assert recorded <= {rule["record"] for rule in rules() if "record" in rule}
    checks = {sample.labels["check"] for sample in families["gristmill_ready"].samples}
    assert {"database", "schema", "workers", "embedder", "disk"} == checks
    selected = {name for expression in expressions() for name in re.findall(r'check="(\w+)"', expression)}
    assert selected <= checks | {"index"}


async def test_the_checks_that_alerts_look_at_are_fine_where_all_is_well(http: httpx.AsyncClient) -> None:
    """On a busy machine the embedder may take a moment to respond to its first check."""

    async def is_ready() -> bool:
        families = text_string_to_metric_families((await http.get("/metrics")).text)
        (ready,) = [family for family in families if family.name == "gristmill_ready"]
        return all(sample.value == 1 for sample in ready.samples)

    await wait_until(is_ready)


def test_every_alert_says_what_happens_and_links_to_its_section() -> None:
    alerts = [rule for rule in rules() if "alert" in rule]
    assert len(alerts) >= 10
    for alert in alerts:
        page, _, anchor = alert["annotations"]["runbook"].partition("#")
        headings = re.findall(r"^## (.+)$", (ROOT / page).read_text(), re.MULTILINE)
        assert anchor == alert["alert"].lower()
        assert alert["alert"] in headings
        assert alert["labels"]["severity"] in ("critical", "warning")
        assert alert["annotations"]["summary"].endswith(".")
    sections = re.findall(r"^## (.+)$", (ROOT / "docs/how-to/runbooks/alerts.md").read_text(), re.MULTILINE)
    assert sections == [alert["alert"] for alert in alerts]


@pytest.mark.skipif(
    shutil.which("promtool") is None, reason="there is no promtool: apt-get install prometheus"
)
@pytest.mark.parametrize(
    "arguments",
    [("check", "rules", RULES), ("test", "rules", RULES.with_name("gristmill.test.yaml"))],
    ids=["check", "test"],
)
def test_promtool_accepts_the_rules(arguments: tuple[str | Path, ...]) -> None:
    ended = subprocess.run(
        ["promtool", *map(str, arguments)], capture_output=True, text=True, timeout=60, check=False
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
