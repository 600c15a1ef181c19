"""Debian packages that a server needs: installed if that was asked for, else the server is skipped."""

import os
import shutil
import subprocess

from bench.connectors_real.tool import Place
from tests.connectors.servers import ServerUnavailable

_INSTALL_SECONDS = 600


def require_packages(place: Place, *packages: str) -> None:
    """Install what is missing, if this is allowed; the services of the packages are not started."""
    missing = [package for package in packages if not _is_installed(package)]
    if not missing:
        return
    if not place.may_install or os.geteuid() != 0 or shutil.which("apt-get") is None:
        raise ServerUnavailable(f"not installed: {', '.join(missing)} (as root, --install does it)")
    env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "RUNLEVEL": "1"}
    command = ["apt-get", "install", "-y", "-q", "--no-install-recommends", *missing]
    try:
        ended = subprocess.run(
            command, env=env, capture_output=True, text=True, timeout=_INSTALL_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        raise ServerUnavailable(f"the installation of {', '.join(missing)} took too long") from None
    if ended.returncode != 0:
        raise ServerUnavailable(f"{', '.join(missing)} can't be installed: {ended.stderr[-200:]}")


def _is_installed(package: str) -> bool:
    if shutil.which("dpkg-query") is None:
        return False
    query = ["dpkg-query", "-W", "-f", "${Status}", package]
    ended = subprocess.run(query, capture_output=True, text=True, check=False)
    return ended.stdout.endswith("ok installed")
