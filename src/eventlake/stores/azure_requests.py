"""Requests that obstore cannot make, through Azure's own client.

It does not return the status of a copy, which Azure may finish after it has answered, and it
deletes only in batches, for which emulators do not accept shared access signatures.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import tenacity
from azure.core.exceptions import (
    AzureError,
    ClientAuthenticationError,
    HttpResponseError,
    ResourceNotFoundError,
)
from azure.storage.blob import BlobClient, ContainerClient

from eventlake.errors import Unavailable
from eventlake.stores.azure_login import Login

# It logs every failed token request, which our errors have too.
logging.getLogger("azure").addHandler(logging.NullHandler())

MAX_ATTEMPTS = 13
RETRY_SECONDS = 240
COPY_SECONDS = 3600
"""Time after which a pending copy is given up; Azure itself does so after two weeks."""
MAX_POLL_SECONDS = 5.0

_RETRIED = frozenset((408, 429, 500, 502, 503, 504))
_PENDING = "PendingCopyOperation"
"""The error of a copy to an object to which another copy is pending."""


def _is_temporary(problem: BaseException) -> bool:
    if isinstance(problem, HttpResponseError) and problem.status_code is not None:
        return problem.status_code in _RETRIED or _error_code(problem) == _PENDING
    return isinstance(problem, AzureError)


def _error_code(problem: Exception) -> str:
    return str(getattr(problem, "error_code", "") or "").rpartition(".")[2]


def _wait(state: tenacity.RetryCallState) -> float:
    """What the server asks for, or a random time that grows."""
    problem = state.outcome and state.outcome.exception()
    headers = getattr(getattr(problem, "response", None), "headers", {})
    asked = str(headers.get("Retry-After", ""))
    return float(asked) if asked.isdecimal() else _backoff(state)


_backoff = tenacity.wait_random_exponential(0.1, max=15)
_retry_temporary = tenacity.retry(
    retry=tenacity.retry_if_exception(_is_temporary),
    wait=_wait,
    stop=tenacity.stop_after_attempt(MAX_ATTEMPTS) | tenacity.stop_after_delay(RETRY_SECONDS),
    reraise=True,
)


@dataclass(frozen=True)
class AzureRequests:
    """Makes requests to one container. They raise FileNotFoundError, or OSError if they fail."""

    url: str
    """The URL of the storage account."""
    account: str
    container: str
    login: Login

    @cached_property
    def _client(self) -> ContainerClient:
        return ContainerClient(
            self.url,
            self.container,
            credential=self.login.for_azure_client(self.account),
            retry_total=0,  # its own would wait for 15 seconds and more
        )

    def copy(self, source: str, target: str) -> None:
        """Copy an object, and return when the copy is complete.

        Raises Unavailable if Azure gives it up.
        """
        client = self._client.get_blob_client(target)
        with _as_os_errors():
            status = _start_copy(client, self._client.get_blob_client(source).url)
            if status == "pending":
                status = _wait_for_copy(client)
        if status != "success":
            raise Unavailable(f"Azure did not finish the copy to {target} ({status}): run again")

    def delete(self, path: str) -> None:
        with _as_os_errors():
            _delete(self._client.get_blob_client(path))


@_retry_temporary
def _delete(client: BlobClient) -> None:
    client.delete_blob()


@_retry_temporary
def _start_copy(client: BlobClient, source_url: str) -> str:
    """Start a copy; return its status."""
    answer: Any = client.start_copy_from_url(source_url)
    return str(answer["copy_status"])


@tenacity.retry(
    retry=tenacity.retry_if_result(lambda status: status == "pending"),
    wait=tenacity.wait_exponential(0.1, max=MAX_POLL_SECONDS),
    stop=tenacity.stop_after_delay(COPY_SECONDS),
    retry_error_callback=lambda _: "pending",
)
def _wait_for_copy(client: BlobClient) -> str:
    return _read_status(client)


@_retry_temporary
def _read_status(client: BlobClient) -> str:
    """The status of the last copy to an object, which is none if it was written otherwise."""
    return str(client.get_blob_properties().copy.status or "success")


@contextmanager
def _as_os_errors() -> Iterator[None]:
    """Raise errors of Azure's client as those that a store explains."""
    try:
        yield
    except AzureError as problem:
        is_missing = isinstance(problem, ResourceNotFoundError)
        has_container = _error_code(problem) != "ContainerNotFound"
        kind = FileNotFoundError if is_missing and has_container else OSError
        raise kind(_describe(problem)) from problem


def _describe(problem: AzureError) -> str:
    """An error of Azure's client in the form of obstore's, which `Adls.explain` reads."""
    text, status = str(problem).partition("\n")[0], getattr(problem, "status_code", None)
    if isinstance(problem, ClientAuthenticationError) and "AADSTS" in text:
        return f"token request: status code: {status or 401} {text}"
    return f"status code: {status} <Code>{_error_code(problem)}</Code> {text}" if status else text
