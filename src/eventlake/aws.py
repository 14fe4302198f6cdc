"""AWS credentials, an assumed role, clients, and their errors as EventLake errors."""

import json
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, timedelta
from functools import cache, partial
from typing import Any

import boto3
import botocore.session
from botocore import credentials, xform_name
from botocore.config import Config
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    NoCredentialsError,
    PartialCredentialsError,
    ProfileNotFound,
)

from eventlake.errors import (
    EventLakeError,
    InsufficientPermissions,
    Internal,
    InvalidSettings,
    LimitExceeded,
    Unavailable,
)

__all__ = [
    "DENIED",
    "MIN_VALIDITY",
    "NOT_ACCEPTED",
    "Access",
    "ClientError",
    "assume_role",
    "aws_errors",
    "error_code",
    "policy_statement",
    "xform_name",
]

SESSION_NAME = "eventlake"
MIN_VALIDITY = timedelta(minutes=10)
"""Credentials are refreshed when they expire within ten minutes."""
DEFAULT_ATTEMPTS = 8

_lock = threading.Lock()


@dataclass(frozen=True)
class Access:
    """Region and credentials for calls to AWS. Pickles, so that workers use the same."""

    region: str
    role_arn: str = ""
    external_id: str = ""
    profile: str = ""
    credentials_file: str = ""
    max_attempts: int = 0
    """How often a request is tried; 0 for the default."""

    def client(self, service: str) -> Any:
        """A client of a service, created once per process."""
        with _lock:
            return _client(self, service)

    def session(self) -> boto3.Session:
        """A session with the caller's credentials; raises InvalidSettings if there are none."""
        with _lock, aws_errors("find credentials"):
            if _session(self).get_credentials() is None:
                raise NoCredentialsError
            return _session(self)

    def role_credentials(self) -> Callable[[], Any]:
        """A function that returns new credentials of the role."""
        with _lock, aws_errors("find credentials"):
            return partial(_role_credential, self, _create_client(self, _session(self), "sts"))

    def check(self) -> str:
        """The ARN of the caller, after the role is assumed."""
        with aws_errors("ask who the caller is"):
            return str(self.client("sts").get_caller_identity()["Arn"])

    @property
    def role(self) -> dict[str, str]:
        """The arguments of AssumeRole."""
        arguments = {"RoleArn": self.role_arn, "RoleSessionName": SESSION_NAME}
        return {**arguments, "ExternalId": self.external_id} if self.external_id else arguments


@cache
def _session(access: Access) -> boto3.Session:
    """A session with the caller's credentials: environment, profile, file or instance role."""
    session = botocore.session.Session(profile=access.profile or None)
    if access.credentials_file:
        session.set_config_variable("credentials_file", access.credentials_file)
    return boto3.Session(botocore_session=session, region_name=access.region)


@cache
def _client(access: Access, service: str) -> Any:
    session = _session(access)
    if access.role_arn:
        session = _as_role(access, session)
    return _create_client(access, session, service)


def _create_client(access: Access, session: boto3.Session, service: str) -> Any:
    config = Config(
        retries={"mode": "standard", "max_attempts": access.max_attempts or DEFAULT_ATTEMPTS},
        connect_timeout=10,
        read_timeout=60,
        max_pool_connections=16,  # the number of tables that are registered at a time
    )
    client = session.client(service, config=config)
    client.meta.events.register("before-parse", _retry_truncated)
    return client


def _retry_truncated(response_dict: dict[str, Any], **_: Any) -> None:
    """Replace a truncated response by a retryable error; botocore would parse it as empty."""
    length, body = response_dict["headers"].get("content-length"), response_dict["body"]
    if length and body and len(body) < int(length):
        error = _TIMEOUT_XML if body.startswith(b"<") else _TIMEOUT_JSON
        response_dict |= {"status_code": 500, "body": error}


_TIMEOUT_JSON = b'{"__type": "RequestTimeout"}'
_TIMEOUT_XML = b"<ErrorResponse><Error><Code>RequestTimeout</Code></Error></ErrorResponse>"


class _RoleProvider(credentials.CredentialProvider):  # type: ignore[misc]
    """The role's credentials, which botocore refreshes before they expire."""

    METHOD = "eventlake-role"

    def __init__(self, access: Access, session: boto3.Session) -> None:
        super().__init__()
        self._access, self._sts = access, _create_client(access, session, "sts")

    def load(self) -> Any:
        return credentials.DeferredRefreshableCredentials(
            refresh_using=self._assume, method=self.METHOD
        )

    def _assume(self) -> dict[str, str]:
        role = assume_role(self._access, self._sts)
        return {
            "access_key": role["AccessKeyId"],
            "secret_key": role["SecretAccessKey"],
            "token": role["SessionToken"],
            "expiry_time": role["Expiration"].isoformat(),
        }


def _as_role(access: Access, session: boto3.Session) -> boto3.Session:
    own = botocore.session.Session()
    own.get_component("credential_provider").insert_before("env", _RoleProvider(access, session))
    return boto3.Session(botocore_session=own, region_name=access.region)


def _role_credential(access: Access, sts: Any) -> dict[str, Any]:
    role = assume_role(access, sts)
    return {
        "access_key_id": role["AccessKeyId"],
        "secret_access_key": role["SecretAccessKey"],
        "token": role["SessionToken"],
        "expires_at": role["Expiration"].astimezone(UTC),
    }


def assume_role(access: Access, sts: Any) -> Any:
    """The role's credentials; raises InvalidSettings with what to change if AWS denies it."""
    try:
        return sts.assume_role(**access.role)["Credentials"]
    except ClientError as problem:
        if error_code(problem) not in DENIED:
            raise
        raise _role_denied(access, sts) from problem


def _role_denied(access: Access, sts: Any) -> EventLakeError:
    """The error for a denied role. AWS does not give the reason, so name the likely ones."""
    try:
        caller = sts.get_caller_identity()["Arn"]
    except (ClientError, BotoCoreError):
        caller = "the caller"
    if not access.external_id:
        return InvalidSettings(
            f"the role {access.role_arn} refuses {caller}, and no external id is set: set "
            "workspace_id to the external id that the role's trust policy asks for"
        )
    return InvalidSettings(
        f"the role {access.role_arn} refuses {caller} with the external id "
        f"{access.external_id!r} (workspace_id): its trust policy must allow sts:AssumeRole to "
        f"that principal when sts:ExternalId is {access.external_id!r}, and the principal must "
        "have sts:AssumeRole on the role"
    )


DENIED = frozenset(
    (
        "AccessDenied",
        "AccessDeniedException",
        "UnauthorizedOperation",
        "AllAccessDisabled",
    )
)
NOT_ACCEPTED = frozenset(
    (
        "AuthFailure",
        "ExpiredToken",
        "ExpiredTokenException",
        "InvalidAccessKeyId",
        "InvalidClientTokenId",
        "InvalidToken",
        "RequestTimeTooSkewed",
        "SignatureDoesNotMatch",
        "UnrecognizedClientException",
    )
)
LIMIT_EXCEEDED = frozenset(("ResourceNumberLimitExceededException", "LimitExceededException"))
THROTTLED_OR_DOWN = frozenset(
    (
        "RequestLimitExceeded",
        "RequestTimeout",
        "SlowDown",
        "Throttling",
        "ThrottlingException",
        "ThrottledException",
        "TooManyRequestsException",
        "OperationTimeoutException",
        "ServiceUnavailable",
        "InternalServiceException",
        "InternalServerException",
    )
)


def error_code(problem: Exception) -> str:
    """The error code of an AWS exception, or empty."""
    response = getattr(problem, "response", {})
    return str(response.get("Error", {}).get("Code", ""))


@contextmanager
def aws_errors(what: str, needs: str = "", grant: str = "") -> Iterator[None]:
    """Raise AWS exceptions as EventLake errors.

    `needs` is the permission for `what`, and `grant` the policy statement that gives it.
    """
    try:
        yield
    except ClientError as problem:
        raise _explain(problem, what, needs, grant) from problem
    except (NoCredentialsError, PartialCredentialsError, ProfileNotFound) as problem:
        raise InvalidSettings(
            f"no AWS credentials ({problem}): set AWS_ACCESS_KEY_ID and "
            "AWS_SECRET_ACCESS_KEY, or name a profile or a credentials_file in the lake's settings"
        ) from problem
    except BotoCoreError as problem:
        raise Unavailable(f"could not {what}: {problem}") from problem


def policy_statement(actions: Sequence[str], resources: Sequence[str]) -> str:
    """The statement of an IAM policy that allows actions on resources, as JSON."""
    statement = {"Effect": "Allow", "Action": list(actions), "Resource": list(resources)}
    return json.dumps(statement, indent=2)


def _explain(problem: ClientError, what: str, needs: str, grant: str) -> EventLakeError:
    name, message = error_code(problem), str(problem.response.get("Error", {}).get("Message", ""))
    status = problem.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    if name in DENIED and "Lake Formation" in message:
        return InsufficientPermissions(
            f"no permission to {what}: Lake Formation protects this catalog; grant the "
            f"permission that it names ({message}) in Lake Formation, in addition to "
            f"{needs or 'the IAM permission'}"
        )
    if name in DENIED:
        return InsufficientPermissions(
            f"no permission to {what}: grant {needs or 'it'} ({message})", grant
        )
    if name in NOT_ACCEPTED:
        return InvalidSettings(
            f"could not {what}: the AWS credentials are not accepted ({name}): {message}"
        )
    if name in LIMIT_EXCEEDED:
        return LimitExceeded(f"could not {what}: a limit of the account was reached ({message})")
    if name in THROTTLED_OR_DOWN or status >= 500:
        return Unavailable(f"could not {what}, even after retries: {name} {message}")
    return Internal(f"could not {what}: {name} {message}")
