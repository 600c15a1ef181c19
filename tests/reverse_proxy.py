"""nginx or Caddy from the system's packages, with the recipe of `deploy/`, in front of a server of a test.

`BEHIND_NGINX=1 uv run pytest tests/ui tests/acceptance/test_client_story.py` puts nginx in front of every `gristmill serve` that a
test starts. Behind it there is no local user: the test's clients get an admin key, and its browsers a session of this key. Each proxy
has an address of its own (127.0.0.2 to 127.0.0.200), because browsers send cookies to all ports of an address.
"""

import functools
import ipaddress
import os
import shutil
import socket
import ssl
import subprocess
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.free_port import free_port

RECIPES = Path(__file__).parents[1] / "deploy"
NGINX = shutil.which("nginx", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
CADDY = shutil.which("caddy")
BEHIND_NGINX = os.environ.get("BEHIND_NGINX", "") not in ("", "0")
_ADDRESSES = 199
_LOOKS, _PAUSE = 600, 0.02


@dataclass(frozen=True)
class Certificate:
    """A certificate of all loopback addresses, which signs itself, and its key."""

    path: Path
    key_path: Path


@functools.cache
def certificate() -> Certificate:
    """The certificate of this test process."""
    folder = Path(tempfile.mkdtemp(prefix="gristmill-tls-"))
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Gristmill tests")])
    addresses = [x509.IPAddress(ipaddress.ip_address(f"127.0.0.{n}")) for n in range(1, _ADDRESSES + 2)]
    now = datetime.now(UTC)
    signed = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=2))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(x509.SubjectAlternativeName([*addresses, x509.DNSName("localhost")]), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    made = Certificate(folder / "cert.pem", folder / "key.pem")
    made.path.write_bytes(signed.public_bytes(serialization.Encoding.PEM))
    made.key_path.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )
    return made


def client_tls() -> ssl.SSLContext:
    """Trusts the certificate, and nothing else."""
    return ssl.create_default_context(cafile=certificate().path)


def free_address(port: int = 0) -> tuple[str, int]:
    """An address and port for a proxy: a free port, or this one; the address follows from the port."""
    port = port or free_port()
    return f"127.0.0.{2 + port % _ADDRESSES}", port


@contextmanager
def run_nginx(server_url: str, port: int = 0) -> Generator[str]:
    """nginx with the recipe in front of the server; its URL."""
    assert NGINX is not None
    address, port = free_address(port)
    site = (RECIPES / "nginx/gristmill.conf").read_text()
    folder = "/etc/letsencrypt/live/kb.example.org"
    for text, replacement in (
        ("127.0.0.1:7373", server_url.removeprefix("http://")),
        ("listen 80;", "listen unix:{folder}/plain.sock;"),
        ("listen 443 ssl http2", f"listen {address}:{port} ssl http2"),
        ("server_name kb.example.org", "server_name _"),
        (f"{folder}/fullchain.pem", str(certificate().path)),
        (f"{folder}/privkey.pem", str(certificate().key_path)),
    ):
        assert text in site, text
        site = site.replace(text, replacement)
    with tempfile.TemporaryDirectory(prefix="gristmill-nginx-", ignore_cleanup_errors=True) as place:
        config = Path(place) / "nginx.conf"
        paths = "".join(f"{kind}_temp_path {place}/{kind};\n" for kind in _TEMPORARY)
        user = "user root;\n" if os.geteuid() == 0 else ""
        config.write_text(
            f"{user}daemon off;\nworker_processes 1;\npid {place}/pid;\nerror_log {place}/error.log;\n"
            f"events {{}}\nhttp {{\naccess_log {place}/access.log;\n{paths}{site.replace('{folder}', place)}}}\n"
        )
        command = [NGINX, "-p", place, "-e", f"{place}/error.log", "-c", str(config)]
        with _run(command, address, port, Path(place) / "error.log"):
            yield f"https://{address}:{port}"


_TEMPORARY = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")


@contextmanager
def run_caddy(server_url: str) -> Generator[str]:
    """Caddy with the recipe in front of the server; its URL."""
    assert CADDY is not None
    address, port = free_address()
    site = (RECIPES / "caddy/Caddyfile").read_text()
    made = certificate()
    for text, replacement in (
        ("127.0.0.1:7373", server_url.removeprefix("http://")),
        (
            "kb.example.org {",
            f"https://{address}:{port} {{\n\tbind {address}\n\ttls {made.path} {made.key_path}",
        ),
    ):
        assert text in site, text
        site = site.replace(text, replacement)
    with tempfile.TemporaryDirectory(prefix="gristmill-caddy-", ignore_cleanup_errors=True) as place:
        config = Path(place) / "Caddyfile"
        # It would wait for every connection that a client has left open.
        config.write_text("{\n\tadmin off\n\tauto_https disable_redirects\n\tgrace_period 1s\n}\n" + site)
        log = Path(place) / "log"
        command = [CADDY, "run", "--config", str(config), "--adapter", "caddyfile"]
        with _run(command, address, port, log, home=place):
            yield f"https://{address}:{port}"


@contextmanager
def _run(command: list[str], address: str, port: int, log: Path, home: str | None = None) -> Generator[None]:
    env = {**os.environ, **({} if home is None else {"HOME": home, "XDG_DATA_HOME": home})}
    with log.open("ab") as stream:
        process = subprocess.Popen(command, stdout=stream, stderr=stream, env=env)
    try:
        _wait_for_port(process, address, port, log)
        yield
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait_for_port(process: "subprocess.Popen[bytes]", address: str, port: int, log: Path) -> None:
    for _ in range(_LOOKS):
        assert process.poll() is None, log.read_text()[-3000:]
        with socket.socket() as probe:
            if probe.connect_ex((address, port)) == 0:
                return
        time.sleep(_PAUSE)
    raise AssertionError(f"the proxy does not listen: {log.read_text()[-3000:]}")
