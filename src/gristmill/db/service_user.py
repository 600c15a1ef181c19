"""As whom the embedded PostgreSQL runs when Gristmill runs as root, which PostgreSQL itself refuses.

    the first of these that isn't root      why
    owner of the database's files           only they can read them
    owner of the data dir                   its files stay in one hand
    user `gristmill`, user `postgres`       made for it
    a new system user `gristmill`           nothing else was there

An ordinary user runs it as themselves, and nothing here does anything. The user must reach the programs and
the database. The data dir, with all that is in it, lets in nobody but this user's group, and only to pass
through (0710). A folder above it, or above the programs, that is closed to this user is opened for passing
through (o+x), never for reading, one by one, and each is logged.
"""

import errno
import logging
import os
import pwd
import shutil
import stat
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from gristmill.errors import SetupError

log = logging.getLogger(__name__)

# What a server needs of our environment. The rest holds secrets (API keys), or settings of other servers
# (PGDATA, PGPORT); messages must be English for us to recognise them.
_PASSED_ENVIRONMENT = ("PATH", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")
_ALTERNATIVES = (
    "Run Gristmill as an ordinary user, or set GRISTMILL_DATABASE_URL to a PostgreSQL of your own."
)


@dataclass(frozen=True)
class ServiceUser:
    """Who runs the server; both None for whoever we are."""

    uid: int | None = None
    gid: int | None = None

    def take_ownership(self, path: Path) -> None:
        """Give `path` to this user."""
        if self.uid is not None and self.gid is not None:
            os.chown(path, self.uid, self.gid, follow_symlinks=False)

    def allow_traversal(self, folder: Path) -> None:
        """Let this user pass through a folder of Gristmill's own."""
        if self.gid is not None and not self.can_traverse(folder):
            os.chown(folder, -1, self.gid)
            folder.chmod(stat.S_IMODE(folder.stat().st_mode) | stat.S_IXGRP)

    def can_traverse(self, folder: Path) -> bool:
        """Whether the folder's mode lets this user through."""
        info = folder.stat()
        if info.st_uid == self.uid:
            return bool(info.st_mode & stat.S_IXUSR)
        return bool(info.st_mode & (stat.S_IXGRP if info.st_gid == self.gid else stat.S_IXOTH))

    def popen(
        self,
        command: Sequence[str | Path],
        *,
        output: int,
        inherited_fds: Sequence[int] = (),
        variables: Mapping[str, str] = {},
    ) -> "subprocess.Popen[bytes]":
        """Start `command` as this user in a session of its own, out of reach of the terminal's Ctrl-C.

        It inherits the file descriptors in `keep`, and with them the locks that they hold.
        """
        environment = {name: os.environ[name] for name in _PASSED_ENVIRONMENT if name in os.environ}
        try:
            return subprocess.Popen(  # noqa: S603
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd="/",
                env={**environment, "LC_ALL": "C", "TZ": "UTC", **variables},
                user=self.uid,
                group=self.gid,
                extra_groups=None if self.uid is None else [],
                umask=0o077,
                start_new_session=True,
                pass_fds=inherited_fds,
            )
        except OSError as error:
            raise self._spawn_error(str(command[0]), error) from error

    def spawn(
        self, command: Sequence[str | Path], *, output: int, inherited_fds: Sequence[int], **variables: str
    ) -> int:
        """Start `command` as `popen` does, for it to outlive us; its pid, for us to reap."""
        process = self.popen(command, output=output, inherited_fds=inherited_fds, variables=variables)
        process.returncode = 0  # or it would warn, when we end, of a child that still runs
        return process.pid

    def can_run(self, script: str, path: Path) -> bool:
        """Whether the shell `script` goes well over `path`, as `$1`, for this user."""
        with self.popen(["/bin/sh", "-c", script, "sh", path], output=subprocess.DEVNULL) as process:
            return process.wait() == 0

    def _spawn_error(self, program: str, error: OSError) -> SetupError:
        if self.uid is None or error.errno in (errno.EACCES, errno.ENOENT):
            return SetupError(
                f"{program} can't be executed ({error.strerror}). Install Gristmill where programs may run, "
                f"or set GRISTMILL_DATABASE_URL to a PostgreSQL of your own.",
                code="database_programs_unusable",
            )
        return SetupError(
            f"PostgreSQL can't run as root, and root can't start it as user {self.uid} here "
            f"({error.strerror}). {_ALTERNATIVES}",
            code="no_service_user",
        )


def choose(data_dir: Path, pgdata: Path) -> ServiceUser:
    """The user to run the server as, made if need be."""
    if os.geteuid() != 0:
        return ServiceUser()
    for path in (pgdata, data_dir):
        if path.exists() and (owner := path.stat()).st_uid != 0:
            return ServiceUser(owner.st_uid, owner.st_gid)
    for name in ("gristmill", "postgres"):
        if (user := _find_user(name)) is not None:
            return user
    return _create("gristmill")


def ensure_access(user: ServiceUser, postgres: Path, data_dir: Path) -> None:
    """See to it that `user` can run `postgres` and enter `data_dir`, or say what keeps them out."""
    if user.uid is None:
        return
    if not user.can_run('"$1" --version', postgres):
        _open_parents(user, postgres.parent)
        if not user.can_run('"$1" --version', postgres):
            raise SetupError(
                f"User {user.uid}, who runs PostgreSQL because Gristmill runs as root, can't execute {postgres}. "
                f"Make the files under {postgres.parent.parent} readable for others, or install Gristmill "
                f"with a umask of 022.",
                code="database_programs_unusable",
            )
    if not user.can_run('cd "$1"', data_dir):
        _open_parents(user, data_dir)
        if not user.can_run('cd "$1"', data_dir):
            raise SetupError(
                f"User {user.uid}, who runs PostgreSQL because Gristmill runs as root, can't enter {data_dir}. "
                f"Choose another GRISTMILL_DATA_DIR.",
                code="data_dir_not_reachable",
            )


def _open_parents(user: ServiceUser, target: Path) -> None:
    real = target.resolve()
    for folder in (target, *target.parents, real, *real.parents):
        if not user.can_traverse(folder):
            folder.chmod(stat.S_IMODE(folder.stat().st_mode) | stat.S_IXOTH)
            log.warning("folder opened for passing through, not for reading", extra={"folder": str(folder)})


def _find_user(name: str) -> ServiceUser | None:
    try:
        entry = pwd.getpwnam(name)
    except KeyError:
        return None
    return ServiceUser(entry.pw_uid, entry.pw_gid) if entry.pw_uid != 0 else None


def _create(name: str) -> ServiceUser:
    command_sets = (
        (["useradd", "--system", "--user-group", "--no-create-home", "--shell", "/usr/sbin/nologin", name],),
        # BusyBox, as on Alpine
        (["addgroup", "-S", name], ["adduser", "-S", "-D", "-H", "-s", "/sbin/nologin", "-G", name, name]),
    )
    for commands in command_sets:
        for program, *arguments in commands:
            if (executable := shutil.which(program, path="/usr/sbin:/sbin:/usr/bin:/bin")) is not None:
                subprocess.run([executable, *arguments], capture_output=True, check=False)  # noqa: S603
        if (user := _find_user(name)) is not None:
            log.info("system user made to run PostgreSQL", extra={"user": name})
            return user
    raise SetupError(
        f"PostgreSQL can't run as root, and the system user {name!r} could not be made. {_ALTERNATIVES}",
        code="no_service_user",
    )
