"""An OpenSearch that tests can start, assembled from what Maven can fetch.

    distribution    the small server that OpenSearch publishes for integration tests; it has no modules but its transport
    modules         painless (scripts; the k-NN plugin extends it), reindex (update and delete by query) and
                    mapper-extras (rank features)
    plugin          k-NN. Its archive has no native libraries: of its engines only Lucene's works

Maven decides where artifacts come from, so this works wherever Maven is configured. The installation is assembled once
per version, in `OPENSEARCH_TEST_CACHE` or the cache folder of the user or machine, and never changed afterwards.
"""

import fcntl
import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import escape

import platformdirs

VERSION = os.environ.get("OPENSEARCH_TEST_VERSION", "2.19.6")
_MAVEN_PLUGIN = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1"
_FETCH_TIMEOUT = 600  # seconds
_JAVA_NEEDED = 17 if VERSION.startswith("2.") else 21

_PROJECT = """<?xml version="1.0" encoding="UTF-8"?>
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>tests</groupId><artifactId>opensearch-{name}</artifactId><version>1</version><packaging>pom</packaging>
  {content}
</project>
"""
_DEPENDENCY = """<dependencies><dependency>
    <groupId>{group}</groupId><artifactId>{artifact}</artifactId><version>{version}</version><type>{type}</type>
    {exclusions}
  </dependency></dependencies>"""
_NOTHING_TRANSITIVE = (
    "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>"
)

# The jars of a module are published without these two files. The permissions are what a script compiler and a client of
# other clusters need under the security manager.
_DESCRIPTOR = """description={name}
version={version}
name={name}
classname={class_name}
java.version=11
opensearch.version={version}
extended.plugins=
has.native.controller=false
"""
_MODULES = {
    "lang-painless": (
        "lang-painless",
        "org.opensearch.painless.PainlessPlugin",
        'permission java.lang.RuntimePermission "createClassLoader"; permission java.lang.RuntimePermission "getClassLoader";',
    ),
    "mapper-extras": ("mapper-extras-client", "org.opensearch.index.mapper.MapperExtrasPlugin", ""),
    "reindex": (
        "reindex-client",
        "org.opensearch.index.reindex.ReindexPlugin",
        'permission java.net.SocketPermission "*", "connect"; permission java.lang.RuntimePermission "setContextClassLoader";',
    ),
}


class NotAvailable(Exception):
    """OpenSearch can't be had on this machine; the message says why."""


def java() -> Path:
    """The Java to run OpenSearch with: JAVA_HOME's, or the one on the path."""
    home = os.environ.get("JAVA_HOME")
    found = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if found is None or not Path(found).exists():
        raise NotAvailable("OpenSearch needs Java, and there is none on this machine.")
    banner = subprocess.run([found, "-version"], capture_output=True, text=True, timeout=60).stderr
    release = banner.partition('"')[2].partition(".")[0].partition('"')[0]
    if not release.isdecimal() or int(release) < _JAVA_NEEDED:
        raise NotAvailable(f"OpenSearch {VERSION} needs Java {_JAVA_NEEDED} or later; this is {release}.")
    return Path(found)


def install() -> Path:
    """The folder of the installation; assembled by the first of several processes that ask for it."""
    java()
    cache = Path(os.environ.get("OPENSEARCH_TEST_CACHE") or _default_cache())
    cache.mkdir(parents=True, exist_ok=True)
    home = cache / VERSION
    with (cache / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not home.exists():
            with tempfile.TemporaryDirectory(dir=cache) as folder:
                _assemble(Path(folder)).rename(home)  # complete or absent
    return home


def unprivileged_user() -> int | None:
    """The user to run nodes as, if it must be another one: OpenSearch refuses to run as root, as containers often do."""
    return pwd.getpwnam("nobody").pw_uid if os.geteuid() == 0 else None


def _default_cache() -> Path:
    """Root's own folders are closed to the user that nodes run as."""
    cache_path = platformdirs.user_cache_path if unprivileged_user() is None else platformdirs.site_cache_path
    return cache_path("gristmill-tests") / "opensearch"


@dataclass(frozen=True)
class _Artifact:
    """A jar, fetched with its dependencies, or an archive, which is unpacked."""

    group: str
    name: str
    version: str = VERSION
    is_archive: bool = False


_ARTIFACTS = {
    "server": _Artifact("org.opensearch.distribution.integ-test-zip", "opensearch", is_archive=True),
    "opensearch-knn": _Artifact("org.opensearch.plugin", "opensearch-knn", f"{VERSION}.0", is_archive=True),
    **{name: _Artifact("org.opensearch.plugin", artifact) for name, (artifact, *_) in _MODULES.items()},
}


def _assemble(folder: Path) -> Path:
    fetched = _fetch(folder / "projects", _ARTIFACTS)
    (home,) = fetched["server"].iterdir()
    (home / "plugins").mkdir(exist_ok=True)
    fetched["opensearch-knn"].rename(home / "plugins" / "opensearch-knn")
    (home / "modules").mkdir(exist_ok=True)
    for name, (_, class_name, permissions) in _MODULES.items():
        module = fetched[name].rename(home / "modules" / name)
        for jar in module.glob("*.jar"):
            if (home / "lib" / jar.name).exists():
                jar.unlink()
        descriptor = _DESCRIPTOR.format(name=name, version=VERSION, class_name=class_name)
        (module / "plugin-descriptor.properties").write_text(descriptor)
        (module / "plugin-security.policy").write_text(f"grant {{ {permissions} }};\n")
    return home


def _fetch(folder: Path, artifacts: Mapping[str, _Artifact]) -> dict[str, Path]:
    """Let Maven fetch the artifacts, all of a kind in one run, because each run takes seconds to start; the folder of each."""
    maven = shutil.which("mvn")
    if maven is None:
        raise NotAvailable("OpenSearch is fetched with Maven, and there is no `mvn` on the path.")
    folder.mkdir(parents=True)
    modules = "".join(f"<module>{name}</module>" for name in artifacts)
    (folder / "pom.xml").write_text(
        _PROJECT.format(name="all", content=f"<modules>{modules}</modules>"), encoding="utf-8"
    )
    for name, artifact in artifacts.items():
        content = _DEPENDENCY.format(
            group=escape(artifact.group),
            artifact=escape(artifact.name),
            version=escape(artifact.version),
            type="zip" if artifact.is_archive else "jar",
            exclusions=_NOTHING_TRANSITIVE if artifact.is_archive else "",
        )
        (folder / name).mkdir()
        (folder / name / "pom.xml").write_text(_PROJECT.format(name=name, content=content), encoding="utf-8")
    for goal, kind in (("unpack-dependencies", "zip"), ("copy-dependencies", "jar")):
        names = [name for name, artifact in artifacts.items() if artifact.is_archive == (kind == "zip")]
        result = subprocess.run(
            [
                maven,
                "-B",
                "-q",
                "-f",
                str(folder / "pom.xml"),
                "-pl",
                ",".join(names),
                f"{_MAVEN_PLUGIN}:{goal}",
                "-DincludeScope=runtime",
            ],
            capture_output=True,
            text=True,
            timeout=_FETCH_TIMEOUT,
        )
        if result.returncode != 0:
            reason = next((line for line in result.stdout.splitlines() if "ERROR" in line), "no reason given")
            raise NotAvailable(f"Maven can't fetch OpenSearch {VERSION}: {reason[:300]}")
    return {name: folder / name / "target" / "dependency" for name in artifacts}
