"""WebDAV servers: wsgidav in this process, and Apache's mod_dav from the system's packages. Both want a password."""

import base64
import hashlib
import os
import shutil
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from wsgidav.wsgidav_app import WsgiDAVApp

from tests.connectors.fakes.wsgi import serve_wsgi
from tests.connectors.servers import ServerUnavailable, run_program
from tests.free_port import free_port

USER, PASSWORD = "ann", "s3cret"
_MODULES = Path("/usr/lib/apache2/modules")
_LOADED = (
    *("mpm_event", "authn_core", "authn_file", "authz_core", "authz_user", "auth_basic", "alias"),
    *("dav", "dav_fs", "dav_lock"),
)
_CONFIG = """
ServerName localhost
ServerRoot {place}
Listen 127.0.0.1:{port}
PidFile {place}/apache.pid
ErrorLog {place}/error.log
{modules}
{user}
DavLockDB {place}/locks
DocumentRoot {place}
Alias /dav {folder}
<Directory {folder}>
  Dav On
  AuthType Basic
  AuthName files
  AuthUserFile {place}/users
  Require valid-user
</Directory>
"""


@contextmanager
def serve_wsgidav(folder: Path) -> Generator[str]:
    """Serve a folder by wsgidav; its address."""
    application = WsgiDAVApp(
        {
            "provider_mapping": {"/dav": str(folder)},
            "simple_dc": {"user_mapping": {"*": {USER: {"password": PASSWORD}}}},
            "http_authenticator": {"accept_basic": True, "accept_digest": False, "default_to_digest": False},
            "logging": {"enable": False},
            "verbose": 0,
        }
    )
    with serve_wsgi(application) as address:
        yield f"{address}/dav"


@contextmanager
def run_apache(folder: Path, place: Path) -> Generator[tuple[str, str]]:
    """Serve a folder by Apache; its address and version. `place` is for Apache's own files."""
    program = shutil.which("apache2", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
    if program is None or not (_MODULES / "mod_dav.so").exists():
        raise ServerUnavailable("it needs Apache with mod_dav (Debian's apache2)")
    port = free_port()
    modules = "\n".join(f"LoadModule {name}_module {_MODULES}/mod_{name}.so" for name in _LOADED)
    (place / "users").write_text(f"{USER}:{{SHA}}{_sha1(PASSWORD)}\n")
    user = ""
    if os.geteuid() == 0:
        user = "User nobody\nGroup nogroup"
        for path in (folder, place):
            shutil.chown(path, "nobody", "nogroup")
    config = place / "apache.conf"
    config.write_text(_CONFIG.format(place=place, port=port, modules=modules, user=user, folder=folder))
    with run_program([program, "-X", "-f", str(config)], port, place / "output"):
        yield f"http://127.0.0.1:{port}/dav", _apache_version(program)


def _apache_version(program: str) -> str:
    output = subprocess.check_output([program, "-v"], text=True)
    return output.partition("Apache/")[2].split()[0]


def _sha1(password: str) -> str:
    """A password as Apache's files of users have it."""
    return base64.b64encode(hashlib.sha1(password.encode(), usedforsecurity=False).digest()).decode()
