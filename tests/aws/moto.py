"""AWS on this machine: a process of moto, its environment, and a bucket for each test."""

import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import boto3
import httpx
import pytest

from eventlake import aws as ours
from eventlake.lakes.aws_settings import AwsSettings
from tests.processes import end_session, wait_for_line

PATIENCE = 60.0
"""Seconds that a server may take to answer."""
REGION = "us-east-1"
BUCKET = "the-lake"
ACCOUNT = "123456789012"
"""Whose everything is, for moto."""


@dataclass(frozen=True)
class Aws:
    """An AWS that answers at a URL: moto itself, or something before it."""

    url: str
    bucket: str = BUCKET
    region: str = REGION

    @property
    def env(self) -> dict[str, str]:
        """What a process has in its environment to call here and nowhere else."""
        return {
            "AWS_ACCESS_KEY_ID": "testing",
            "AWS_SECRET_ACCESS_KEY": "testing",
            "AWS_ENDPOINT_URL": self.url,
            "AWS_REGION": self.region,
            "AWS_DEFAULT_REGION": self.region,
            "AWS_EC2_METADATA_DISABLED": "true",
            "AWS_CONFIG_FILE": os.devnull,
            "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
            "NO_PROXY": "127.0.0.1",
        }

    @property
    def environ(self) -> dict[str, str]:
        """The whole environment of a process: this one's own, without its AWS."""
        kept = {name: value for name, value in os.environ.items() if not _leads_away(name)}
        return {**kept, **self.env}

    def settings(self, **changes: Any) -> AwsSettings:
        """A lake in the bucket."""
        return AwsSettings(
            **{"s3_bucket": self.bucket, "aws_region": self.region, **changes},
        )

    def access(self, **changes: Any) -> ours.Access:
        return ours.Access(**{"region": self.region, **changes})

    def client(self, service: str) -> Any:
        """A client that is not the product's own."""
        return _client(self.url, self.region, service)

    def make_bucket(self) -> None:
        self.client("s3").create_bucket(Bucket=self.bucket)

    def reset(self) -> None:
        """Forget everything that is in this AWS."""
        httpx.post(f"{self.url}/moto-api/reset", timeout=PATIENCE).raise_for_status()


@cache
def _client(url: str, region: str, service: str) -> Any:
    """Kept, since making one takes longer than most of what it is asked."""
    session = boto3.Session("another", "another", region_name=region)
    return session.client(service, endpoint_url=url)


def _leads_away(name: str) -> bool:
    return name.startswith("AWS_") or name.lower() in ("http_proxy", "all_proxy")


@contextmanager
def entered(here: Aws) -> Iterator[Aws]:
    """This process calls `here`, with no client left of before or after."""
    with pytest.MonkeyPatch.context() as patch:
        for name in filter(_leads_away, tuple(os.environ)):
            patch.delenv(name)
        for name, value in here.env.items():
            patch.setenv(name, value)
        _forget_clients()
        yield here
    _forget_clients()


def _forget_clients() -> None:
    ours._client.cache_clear()
    ours._session.cache_clear()


_KEY = pytest.StashKey[str]()


@pytest.fixture
def aws(request: pytest.FixtureRequest) -> Iterator[Aws]:
    """An AWS with nothing but an empty bucket in it, which this process calls."""
    here = Aws(server(request.config))
    here.reset()
    here.make_bucket()
    with entered(here):
        yield here


def server(config: pytest.Config) -> str:
    """Where the server is, which is started once and ends with the tests.

    A session's fixture would be another one in each module that imports it.
    """
    if _KEY not in config.stash:
        until_the_end = ExitStack()
        config.add_cleanup(until_the_end.close)
        config.stash[_KEY] = until_the_end.enter_context(started())
    return config.stash[_KEY]


@contextmanager
def started() -> Iterator[str]:
    """A server's URL while it runs, on a port that it took itself."""
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log"
        process = _start(log)
        try:
            yield wait_for_line(log, r"Running on (http://127\.0\.0\.1:\d+)", process)
        finally:
            _end(process)


def free_port() -> int:
    """A port at which nobody answers."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _start(log: Path) -> "subprocess.Popen[bytes]":
    with log.open("wb") as said:
        return subprocess.Popen(
            [sys.executable, "-m", "tests.aws.moto_server"],
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def _end(process: "subprocess.Popen[bytes]") -> None:
    process.terminate()
    try:
        process.wait(5)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    end_session(process.pid, grace=0.0)
