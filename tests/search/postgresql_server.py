"""A PostgreSQL server for tests, from the programs of the system."""

from __future__ import annotations

import glob
import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from typing import List, Optional

import pytest

PROGRAMS = "/usr/lib/postgresql/*/bin"
PASSWORD = "hu@sh/1"


def find_programs() -> str:
    """The folder with initdb and pg_ctl; "" if they are not installed."""
    folders = [f for f in sorted(glob.glob(PROGRAMS)) if os.path.exists(f"{f}/initdb")]
    program = shutil.which("initdb")
    return folders[-1] if folders else os.path.dirname(program) if program else ""


def require_server() -> None:
    """Skip the test without PostgreSQL, unless TOOLKIT_TEST_POSTGRESQL=1 requires it."""
    is_required = os.environ.get("TOOLKIT_TEST_POSTGRESQL") == "1"
    try:
        import psycopg2  # noqa: F401
    except ImportError:
        assert not is_required, "psycopg2 is not installed"
        pytest.skip("psycopg2 is not installed")
    if not find_programs():
        assert not is_required, "PostgreSQL is not installed"
        pytest.skip("PostgreSQL is not installed")


class Server:
    """A server that runs as an unprivileged user: PostgreSQL does not run as root."""

    def __init__(self) -> None:
        self._folder = tempfile.mkdtemp(prefix="toolkit-postgresql-")
        self._programs = find_programs()
        self._user: Optional[pwd.struct_passwd] = None
        if os.getuid() == 0:
            self._user = pwd.getpwnam("postgres" if _has_user("postgres") else "nobody")
            os.chown(self._folder, self._user.pw_uid, self._user.pw_gid)
        self.port = 0
        self._initialize()
        self._start_on_free_port()

    def _initialize(self) -> None:
        password_file = os.path.join(self._folder, "password")
        with open(password_file, "w") as file:
            file.write(PASSWORD)
        os.chmod(password_file, 0o644)
        words = ["--username", "me", "--pwfile", password_file, "--auth", "scram-sha-256"]
        self._run("initdb", *words, "--no-sync", "--encoding", "UTF8", "--locale", "C")

    def _start_on_free_port(self) -> None:
        """Start; with another port, if another process takes the first one meanwhile."""
        for is_last in (False, False, True):
            self.port = _find_free_port()
            try:
                self.start()
                return
            except subprocess.CalledProcessError:
                if is_last:
                    raise

    def start(self) -> None:
        settings = f"-p {self.port} -h 127.0.0.1 -k {self._folder} -c fsync=off"
        self._control("start", "-o", settings, "-l", os.path.join(self._folder, "log"))

    def stop(self) -> None:
        """Stop as a crash does: the connections break."""
        self._control("stop", "-m", "immediate")

    def remove(self) -> None:
        self.stop()
        shutil.rmtree(self._folder)

    def url(self, database: str, user: str = "me", password: str = PASSWORD) -> str:
        password = password.replace("@", "%40").replace("/", "%2F")
        return f"postgresql://{user}:{password}@127.0.0.1:{self.port}/{database}"

    def execute(self, *statements: str) -> None:
        """Run statements as the administrator."""
        import psycopg2

        connection = psycopg2.connect(self.url("postgres"))
        connection.autocommit = True
        for statement in statements:
            connection.cursor().execute(statement)
        connection.close()

    def _control(self, *words: str) -> None:
        self._run("pg_ctl", "-w", *words)

    def _run(self, program: str, *words: str) -> None:
        arguments: List[str] = [os.path.join(self._programs, program)]
        arguments += ["-D", os.path.join(self._folder, "data"), *words]
        subprocess.run(
            arguments,
            check=True,
            cwd=self._folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            preexec_fn=self._become_user,
            timeout=120,
        )

    def _become_user(self) -> None:
        if self._user is not None:
            os.setgroups([])
            os.setgid(self._user.pw_gid)
            os.setuid(self._user.pw_uid)


def _find_free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def _has_user(name: str) -> bool:
    try:
        return bool(pwd.getpwnam(name))
    except KeyError:
        return False
