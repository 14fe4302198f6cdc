"""A PostgreSQL server of Debian's packages for tests, on a socket of its own."""

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from tests.users import NOBODY, open_folder

PATIENCE = 60.0
OPTIONS = ("fsync=off", "synchronous_commit=off", "full_page_writes=off", "listen_addresses=")


@contextmanager
def postgres_server() -> Iterator[str]:
    """Start a server; give the URL of its databases, `{name}` being the name.

    Without PostgreSQL, skip the test, or fail it if the environment has `CI=true`.
    """
    programs = _find_programs()
    with open_folder() as folder:
        data, options = folder / "data", _as_other_user()
        initdb = [programs / "initdb", "-D", data, "-U", "tests", "-A", "trust", "-E", "UTF8"]
        subprocess.run([*initdb, "--no-sync"], check=True, capture_output=True, **options)
        settings = [word for option in OPTIONS for word in ("-c", option)]
        command = [programs / "postgres", "-D", data, "-k", folder, *settings]
        with (folder / "log").open("wb") as log:
            server = subprocess.Popen(command, stdout=log, stderr=log, **options)
        try:
            url = f"postgresql://tests@/{{name}}?host={folder}"
            _wait_until_ready(url, server, folder / "log")
            yield url
        finally:
            server.send_signal(signal.SIGQUIT)  # at once: its data is thrown away
            server.wait(PATIENCE)


def create_database(url: str, name: str, template: str = "template0") -> str:
    """Create a database on the server; return its URL."""
    with psycopg.connect(url.format(name="postgres"), autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name} TEMPLATE {template}".encode())
    return url.format(name=name)


def _find_programs() -> Path:
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda one: one.parent.name)
    if path := shutil.which("initdb"):
        folders.append(Path(path).parent)
    if not folders:
        problem = "PostgreSQL is not installed: apt-get install postgresql"
        pytest.fail(problem) if os.environ.get("CI") == "true" else pytest.skip(problem)
    return folders[-1]


def _as_other_user() -> dict[str, int]:
    """PostgreSQL does not run as root."""
    return {"user": NOBODY, "group": NOBODY} if os.geteuid() == 0 else {}


def _wait_until_ready(url: str, server: "subprocess.Popen[bytes]", log: Path) -> None:
    until = time.monotonic() + PATIENCE
    while server.poll() is None and time.monotonic() < until:
        try:
            psycopg.connect(url.format(name="postgres")).close()
        except psycopg.OperationalError:
            time.sleep(0.05)
        else:
            return
    pytest.fail(f"PostgreSQL does not start: {log.read_text()}")
