"""The files of `deploy/` name existing commands, settings and paths. `bench/image.sh` builds and runs the image."""

import importlib.util
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

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


def is_known(variables: Iterable[str]) -> bool:
    """Whether each is a setting, or one of the object store."""
    return all(name in KNOWN or name.startswith("AWS_") for name in variables)


def validate_settings(environment: Mapping[str, str]) -> Settings:
    """The settings of an environment, each with the type that the code expects."""
    values = {
        name.removeprefix(ENV_PREFIX).lower(): value
        for name, value in environment.items()
        if name.startswith(ENV_PREFIX) and not value.startswith("${")
    }
    lists = {name: json.loads(value) for name, value in values.items() if value[:1] in "[{"}
    return Settings.model_validate({**values, **lists})


def test_compose_runs_commands_and_sets_settings_that_exist() -> None:
    services = compose_file()["services"]
    assert set(services) == {"db", "objects", "bucket", "server", "worker"}
    for name in ("server", "worker"):
        assert_command_accepted(services[name]["command"])
        assert is_known(services[name]["environment"]), name
        dockerfile = services[name]["build"]["dockerfile"]
        assert (ROOT / dockerfile).is_file()
        validate_settings(services[name]["environment"])
        # As the image promises: no root, and nothing written but the volume and /tmp.
        assert services[name]["read_only"] is True
        assert services[name]["tmpfs"] == ["/tmp"]
        assert services[name]["cap_drop"] == ["ALL"]
        assert [volume.partition(":")[2] for volume in services[name]["volumes"]] == ["/data"]
    assert "pgvector" in services["db"]["image"]
    volumes = {
        volume.partition(":")[0] for service in services.values() for volume in service.get("volumes", ())
    }
    assert volumes == set(compose_file()["volumes"])


def test_composed_services_share_the_database_the_uploads_and_the_key() -> None:
    services = compose_file()["services"]
    server: dict[str, str] = services["server"]["environment"]
    worker: dict[str, str] = services["worker"]["environment"]
    for name in ("GRISTMILL_DATABASE_URL", "GRISTMILL_BLOB_URL", "GRISTMILL_SECRET_KEY", "AWS_ENDPOINT_URL"):
        assert server[name] == worker[name], name
    assert server["GRISTMILL_DATABASE_URL"].endswith("@db/gristmill")
    assert urlsplit(server["AWS_ENDPOINT_URL"]).hostname in services
    bucket = urlsplit(server["GRISTMILL_BLOB_URL"]).netloc
    assert services["bucket"]["command"][-1] == f"store/{bucket}"


def test_the_embedding_server_is_the_one_that_the_services_use() -> None:
    added, services = compose_file("compose.embedder.yaml")["services"], compose_file()["services"]
    for name in ("server", "worker"):
        settings = validate_settings(added[name]["environment"])
        embedder = settings.embedders[settings.embedder]
        assert urlsplit(embedder.url).hostname in added
        assert embedder.model in added["embedder"]["command"]
        assert name in services


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
    assert "\nUSER 7373\n" in text


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


# ── Kubernetes ───────────────────────────────────────────────────────────────────────────────────────────

KUBERNETES = DEPLOY / "kubernetes"


def kubernetes_objects() -> list[dict[str, Any]]:
    """All objects of the Kustomize base, by the list of its resources."""
    base = yaml.safe_load((KUBERNETES / "kustomization.yaml").read_text())
    files = {path.name for path in KUBERNETES.glob("*.yaml")} - {"kustomization.yaml"}
    assert set(base["resources"]) == files
    return [
        document
        for name in base["resources"]
        for document in yaml.safe_load_all((KUBERNETES / name).read_text())
    ]


def test_pods_run_commands_that_exist_without_rights() -> None:
    objects = kubernetes_objects()
    (shared,) = (entry["data"] for entry in objects if entry["kind"] == "ConfigMap")
    pods = [entry["spec"]["template"] for entry in objects if entry["kind"] == "Deployment"]
    for pod in pods:
        (container,) = pod["spec"]["containers"]
        assert_command_accepted(container["args"])
        own = {entry["name"]: entry["value"] for entry in container["env"]}
        assert is_known(shared | own)
        validate_settings(shared | own)
        assert pod["spec"]["securityContext"]["runAsNonRoot"] is True
        assert f"--uid {pod['spec']['securityContext']['runAsUser']} " in (DEPLOY / "Dockerfile").read_text()
        assert container["securityContext"]["readOnlyRootFilesystem"] is True
        assert {mount["mountPath"] for mount in container["volumeMounts"]} == {"/data", "/tmp"}
        ports = {port["name"]: port["containerPort"] for port in container["ports"]}
        port = str(own.get("GRISTMILL_WORKER_PORT", container["args"][-1]))
        assert str(ports[container["livenessProbe"]["httpGet"]["port"]]) == port
    (service,) = (entry for entry in objects if entry["kind"] == "Service")
    assert service["spec"]["selector"].items() <= pods[0]["metadata"]["labels"].items()


@pytest.mark.skipif(
    shutil.which("kubectl") is None
    or shutil.which("kubeconform") is None
    or importlib.util.find_spec("kubernetes_validate") is None,
    reason="needs kubectl, kubeconform and, for the schemas, `uv run --with kubernetes-validate`",
)
def test_the_schemas_of_kubernetes_accept_the_objects(tmp_path: Path) -> None:
    """The schemas are those of the newest version in the package kubernetes-validate; kubeconform wants each in one piece."""
    package = importlib.util.find_spec("kubernetes_validate")
    assert package is not None
    assert package.origin is not None
    folders = (Path(package.origin).parent / "kubernetes-json-schema").glob("v*-local-strict")
    newest = max(folders, key=lambda path: [int(part) for part in re.findall(r"\d+", path.name)])

    def load(path: Path) -> dict[str, Any]:
        return json.loads(path.read_text().replace('"/api/_definitions.json#', '"#'))

    definitions = load(newest / "_definitions.json")["$defs"]
    for document in kubernetes_objects():
        group, _, version = document["apiVersion"].rpartition("/")
        parts = [document["kind"].lower(), *([group.partition(".")[0]] if group else []), version]
        name = f"{'-'.join(parts)}.json"
        schema = load(newest / name)
        schema.pop("$id", None)
        (tmp_path / name).write_text(json.dumps({**schema, "$defs": definitions}))
    rendered = subprocess.run(
        ["kubectl", "kustomize", str(KUBERNETES)], capture_output=True, check=True, timeout=60
    )
    location = f"{tmp_path}/{{{{.ResourceKind}}}}{{{{.KindSuffix}}}}.json"
    command = ["kubeconform", "-strict", "-summary", "-schema-location", location]
    checked = subprocess.run(command, input=rendered.stdout, capture_output=True, timeout=60, check=False)
    assert checked.returncode == 0, checked.stdout
    assert b"Invalid: 0, Errors: 0, Skipped: 0" in checked.stdout
