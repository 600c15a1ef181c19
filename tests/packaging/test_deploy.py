"""The files of `deploy/` name existing commands, settings and paths. The tests can't build images."""

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, cast

import pytest
import typer.main
import yaml

from gristmill.cli.commands import cli
from gristmill.settings import ENV_PREFIX, Settings
from tests.docs.pages import ROOT

DEPLOY = ROOT / "deploy"
KNOWN = {ENV_PREFIX + name.upper() for name in Settings.model_fields}


def compose_file(name: str = "compose.yaml") -> dict[str, Any]:
    return yaml.safe_load((DEPLOY / name).read_text())


def assert_command_accepted(words: list[str]) -> None:
    """Assert that the CLI can parse this command line, without running it."""
    assert words[0].rpartition("/")[2] == "gristmill"
    group = cast(Any, typer.main.get_command(cli))
    command = group.commands[words[1]]
    command.make_context(words[1], words[2:], resilient_parsing=False).close()


def test_compose_runs_commands_and_sets_settings_that_exist() -> None:
    services = compose_file()["services"]
    assert set(services) == {"db", "server", "worker"}
    for name in ("server", "worker"):
        assert_command_accepted(services[name]["command"])
        assert set(services[name]["environment"]) <= KNOWN, name
        dockerfile = services[name]["build"]["dockerfile"]
        assert (ROOT / dockerfile).is_file()
    environment = services["worker"]["environment"] | {"GRISTMILL_DATABASE_URL": "postgresql://x"}
    Settings.model_validate(
        {key.removeprefix(ENV_PREFIX).lower(): value for key, value in environment.items()}
    )
    assert "pgvector" in services["db"]["image"]


def test_composed_services_share_the_database_and_the_uploads() -> None:
    services = compose_file()["services"]
    assert services["server"]["volumes"] == services["worker"]["volumes"]
    urls = {services[name]["environment"]["GRISTMILL_DATABASE_URL"] for name in ("server", "worker")}
    assert len(urls) == 1
    assert urls.pop().endswith("@db/gristmill")


def test_the_cluster_adds_nodes_that_the_services_are_pointed_at() -> None:
    cluster, services = compose_file("compose.cluster.yaml"), compose_file()["services"]
    nodes = {name for name in cluster["services"] if name.startswith("search")}
    assert nodes == {"search1", "search2", "search3"}
    for name in ("server", "worker"):
        environment = cluster["services"][name]["environment"]
        assert name in services
        assert set(environment) <= KNOWN
        settings = Settings.model_validate({"index_url": environment["GRISTMILL_INDEX_URL"]})
        assert settings.index_url is not None
        addresses = settings.index_url.get_secret_value().split(",")
        assert {address.removeprefix("http://").partition(":")[0] for address in addresses} == nodes
    for name in nodes:
        node = cluster["services"][name]
        assert set(node["environment"]["discovery.seed_hosts"].split(",")) == nodes
        assert node["environment"]["node.name"] == name
        assert node["volumes"] == [f"{name}:/usr/share/opensearch/data"]
        assert name in cluster["volumes"]


def test_the_image_copies_what_is_there_and_runs_a_command_that_exists() -> None:
    text = (DEPLOY / "Dockerfile").read_text()
    for line in re.findall(r"^COPY (?!--from)(.+)$", text, re.MULTILINE):
        for source in line.split()[:-1]:
            assert (ROOT / source).exists(), source
    assert set(re.findall(r"GRISTMILL_\w+", text)) <= KNOWN
    (words,) = re.findall(r"^CMD (\[.+\])$", text, re.MULTILINE)
    assert_command_accepted(yaml.safe_load(words))
    assert "\nUSER gristmill\n" in text


@pytest.mark.parametrize("name", ["gristmill.service", "gristmill-worker@.service"])
def test_units_start_a_command_that_exists_with_settings_that_exist(name: str) -> None:
    text = (DEPLOY / name).read_text()
    (command,) = re.findall(r"^ExecStart=(.+)$", text, re.MULTILINE)
    assert_command_accepted(command.split())
    assert (
        set(re.findall(r"GRISTMILL_[A-Z_]+(?==/|=\w)", text.partition("[Service]")[2])) - {"GRISTMILL_NAME"}
        <= KNOWN
    )


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="there is no systemd here")
@pytest.mark.parametrize("name", ["gristmill.service", "gristmill-worker@.service"])
def test_systemd_finds_nothing_wrong_with_the_units(name: str, tmp_path: Path) -> None:
    here = str(Path(sys.executable).with_name("gristmill"))
    text = (DEPLOY / name).read_text().replace("/opt/gristmill/bin/gristmill", here)
    unit = tmp_path / name.replace("@.", "@1.")
    unit.write_text(text)
    process = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(unit)], capture_output=True, text=True, timeout=60
    )
    about = [line for line in process.stderr.splitlines() if unit.name in line]
    assert about == [], process.stderr
