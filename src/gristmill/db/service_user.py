"""The user that the local PostgreSQL runs as when Gristmill runs as root, which PostgreSQL itself refuses.

    the first of these that isn't root      why
    owner of the database's files           only they can read them
    owner of the data dir                   its files keep one owner
    user `gristmill`, user `postgres`       meant for it
    a new system user `gristmill`           there is no other

For an ordinary user the server runs as that user, and nothing here has an effect. The user must be able to reach the
programs and the database. The data dir is closed to all but this user's group, and only to traverse (0710). A folder above
it, or above the programs, that this user can't traverse is opened for traversal (o+x), never for reading; each one is
logged.
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

# What a server needs of our environment. The rest may contain secrets (API keys), or settings of other servers (PGDATA,
# PGPORT); messages must be English for us to recognise them.
_PASSED_ENVIRONMENT = ("PATH", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")
_ALTERNATIVES = (
    "Run Gristmill as an ordinary user, or set GRISTMILL_DATABASE_URL to a PostgreSQL of your own."
)


@dataclass(frozen=True)
class ServiceUser:
    """The user that runs the server; both None for our own user."""

    uid: int | None = None
    gid: int | None = None

    def take_ownership(self, path: Path) -> None:
        """Make this user the owner of `path`."""
        if self.uid is not None and self.gid is not None:
            os.chown(path, self.uid, self.gid, follow_symlinks=False)

    def allow_traversal(self, folder: Path) -> None:
        """Let this user traverse one of Gristmill's own folders."""
        if self.gid is not None and not self.can_traverse(folder):
            os.chown(folder, -1, self.gid)
            folder.chmod(stat.S_IMODE(folder.stat().st_mode) | stat.S_IXGRP)

    def can_traverse(self, folder: Path) -> bool:
        """Whether the folder's mode lets this user traverse it."""
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
        """Start `command` as this user in a session of its own, so that the terminal's Ctrl-C does not reach it.

        It inherits the file descriptors in `inherited_fds`, and their locks.
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
        """Start `command` as `popen` does, to outlive us; its pid, for us to reap."""
        process = self.popen(command, output=output, inherited_fds=inherited_fds, variables=variables)
        process.returncode = 0  # or Popen would warn at our exit that the child still runs
        return process.pid

    def can_run(self, script: str, path: Path) -> bool:
        """Whether the shell `script` succeeds for this user, with `path` as `$1`."""
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
    """The user to run the server as; created if necessary."""
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
    """Ensure that `user` can run `postgres` and enter `data_dir`, or raise what prevents it."""
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
            log.warning(
                "other users can pass through this folder now, not read it: PostgreSQL runs as another user",
                extra={"folder": str(folder), "uid": user.uid},
            )


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
            log.info("system user created to run PostgreSQL", extra={"user": name})
            return user
    raise SetupError(
        f"PostgreSQL can't run as root, and the system user {name!r} could not be created. {_ALTERNATIVES}",
        code="no_service_user",
    )
