"""Azure's blob service on this machine: an Azurite process, and a container for each test."""

import os
import secrets
import subprocess
import tempfile
from base64 import b64encode
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from pyarrow.fs import AzureFileSystem

from eventlake.lakes.azure_settings import AzureSettings
from tests.npm import packages
from tests.processes import end_session, wait_for_line

ACCOUNT = "eventsaccount"
KEY = b64encode(b"a key that nobody may see").decode()
LEADS_AWAY = ("AZURE_", "IDENTITY_", "MSI_")


@dataclass(frozen=True)
class Azure:
    """A storage account that answers at a URL, and a container in it."""

    url: str
    container: str = field(default_factory=lambda: f"lake-{secrets.token_hex(6)}")

    @property
    def root(self) -> str:
        return f"abfss://{self.container}@{ACCOUNT}.dfs.core.windows.net"

    @property
    def env(self) -> dict[str, str]:
        """What a process has in its environment to call here and nowhere else."""
        return {
            "AZURE_STORAGE_ENDPOINT": self.url,
            "AZURE_STORAGE_ACCOUNT_KEY": KEY,
            "NO_PROXY": "127.0.0.1",
        }

    @property
    def environ(self) -> dict[str, str]:
        """The whole environment of a process: this one's own, without its Azure."""
        kept = {n: value for n, value in os.environ.items() if not n.startswith(LEADS_AWAY)}
        return {**kept, **self.env}

    def settings(self, **changes: Any) -> AzureSettings:
        """A lake in the container."""
        given = {"storage_account": ACCOUNT, "storage_container": self.container}
        return AzureSettings.model_validate({**given, **changes})

    def client(self) -> AzureFileSystem:
        """A client that is not the product's own: Arrow's, which has its own way to Azure."""
        host = self.url.removeprefix("http://")
        places = dict.fromkeys(("blob_storage_authority", "dfs_storage_authority"), host)
        schemes = dict.fromkeys(("blob_storage_scheme", "dfs_storage_scheme"), "http")
        return AzureFileSystem(ACCOUNT, account_key=KEY, **places, **schemes)

    def make_container(self) -> None:
        self.client().create_dir(self.container)


@contextmanager
def entered(here: Azure) -> Iterator[Azure]:
    """This process calls `here`."""
    with pytest.MonkeyPatch.context() as patch:
        for name in (n for n in tuple(os.environ) if n.startswith(LEADS_AWAY)):
            patch.delenv(name)
        for name, value in here.env.items():
            patch.setenv(name, value)
        yield here


@dataclass
class Azurite:
    """A server with a folder of its own, which may go and come back on the same port."""

    folder: Path
    port: int = 0
    """The one that it took when it was started first."""
    _process: "subprocess.Popen[bytes] | None" = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        log = self.folder / "log"
        with log.open("wb") as said:
            self._process = subprocess.Popen(
                self._command(),
                env={**os.environ, "AZURITE_ACCOUNTS": f"{ACCOUNT}:{KEY}"},
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        listens = r"successfully listens on http://127\.0\.0\.1:(\d+)"
        self.port = int(wait_for_line(log, listens, self._process))

    def _command(self) -> list[str]:
        installed = packages("Azurite", "azurite@3.37.0")
        script = installed / "node_modules/azurite/dist/src/blob/main.js"
        place = ["--blobHost", "127.0.0.1", "--blobPort", str(self.port)]
        # Clients are ahead of what it says it knows; it answers them all the same.
        quiet = ["--silent", "--disableTelemetry", "--skipApiVersionCheck"]
        return ["node", str(script), "--location", str(self.folder), *place, *quiet]

    def stop(self) -> None:
        """Ended by its id; what it has goes to its folder first."""
        process, self._process = self._process, None
        if process is None:
            return
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        end_session(process.pid, grace=0.0)


@contextmanager
def started() -> Iterator[Azurite]:
    """A server while it runs."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        server = Azurite(Path(folder))
        try:
            server.start()
            yield server
        finally:
            server.stop()


_KEY = pytest.StashKey[str]()


@pytest.fixture
def azure(request: pytest.FixtureRequest) -> Iterator[Azure]:
    """An empty container, which this process calls; the server is one for all tests."""
    config = request.config
    if _KEY not in config.stash:
        until_the_end = ExitStack()
        config.add_cleanup(until_the_end.close)
        config.stash[_KEY] = until_the_end.enter_context(started()).url
    here = Azure(config.stash[_KEY])
    here.make_container()
    with entered(here):
        yield here
