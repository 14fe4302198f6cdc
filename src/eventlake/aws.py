"""The way to AWS: credentials, an assumed role, clients, and what their refusals mean."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, timedelta
from functools import cache, partial
from typing import Any

import boto3
import botocore.session
from botocore import credentials
from botocore.config import Config
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    NoCredentialsError,
    PartialCredentialsError,
    ProfileNotFound,
)
from obstore.auth.boto3 import Boto3CredentialProvider

from eventlake.errors import (
    EventLakeError,
    InsufficientPermissions,
    Internal,
    InvalidSettings,
    LimitExceeded,
    Unavailable,
)

SESSION_NAME = "eventlake"
FRESH = timedelta(minutes=10)
"""botocore renews what has less than this left; so much at least is left of what it gives."""
RETRIES = Config(
    retries={"mode": "standard", "max_attempts": 8},
    connect_timeout=10,
    read_timeout=60,
    max_pool_connections=16,  # as many as tables are registered at a time
)

_lock = threading.Lock()


@dataclass(frozen=True)
class Access:
    """Who calls AWS, and where. It pickles, so that workers call as the same."""

    region: str
    role_arn: str = ""
    external_id: str = ""
    profile: str = ""
    credentials_file: str = ""

    def client(self, service: str) -> Any:
        """A client of a service, made once in a process."""
        with _lock:
            return _client(self, service)

    def credentials(self) -> Callable[[], Any]:
        """What gives a store its credentials, again and again before they expire."""
        with _lock, aws_errors("find credentials"):
            if self.role_arn:
                return partial(_role_credential, self, _connected(_session(self), "sts"))
            if _session(self).get_credentials() is None:
                raise NoCredentialsError
            return Boto3CredentialProvider(_session(self), ttl=FRESH)

    def check(self) -> str:
        """Who we are for AWS, once the role is assumed."""
        with aws_errors("ask who the caller is"):
            return str(self.client("sts").get_caller_identity()["Arn"])

    @property
    def role(self) -> dict[str, str]:
        """How the role is asked for."""
        asked = {"RoleArn": self.role_arn, "RoleSessionName": SESSION_NAME}
        return {**asked, "ExternalId": self.external_id} if self.external_id else asked


@cache
def _session(access: Access) -> boto3.Session:
    """The caller's own credentials: of the environment, a profile, a file, the machine."""
    own = botocore.session.Session(profile=access.profile or None)
    if access.credentials_file:
        own.set_config_variable("credentials_file", access.credentials_file)
    return boto3.Session(botocore_session=own, region_name=access.region)


@cache
def _client(access: Access, service: str) -> Any:
    session = _session(access)
    if access.role_arn:
        session = _as_role(access, session)
    return _connected(session, service)


def _connected(session: boto3.Session, service: str) -> Any:
    client = session.client(service, config=RETRIES)
    client.meta.events.register("before-parse", _whole)
    return client


def _whole(response_dict: dict[str, Any], **_: Any) -> None:
    """Have an answer that broke off tried again: botocore reads it as one with nothing in it."""
    said, body = response_dict["headers"].get("content-length"), response_dict["body"]
    if said and body and len(body) < int(said):
        text = _AGAIN_XML if body.startswith(b"<") else _AGAIN_JSON
        response_dict |= {"status_code": 500, "body": text}


_AGAIN_JSON = b'{"__type": "RequestTimeout"}'
_AGAIN_XML = b"<ErrorResponse><Error><Code>RequestTimeout</Code></Error></ErrorResponse>"


class _Role(credentials.CredentialProvider):  # type: ignore[misc]
    """The role's credentials, renewed by botocore before they expire."""

    METHOD = "eventlake-role"

    def __init__(self, access: Access, session: boto3.Session) -> None:
        super().__init__()
        self._access, self._sts = access, _connected(session, "sts")

    def load(self) -> Any:
        return credentials.DeferredRefreshableCredentials(
            refresh_using=self._assume, method=self.METHOD
        )

    def _assume(self) -> dict[str, str]:
        given = assume(self._access, self._sts)
        return {
            "access_key": given["AccessKeyId"],
            "secret_key": given["SecretAccessKey"],
            "token": given["SessionToken"],
            "expiry_time": given["Expiration"].isoformat(),
        }


def _as_role(access: Access, session: boto3.Session) -> boto3.Session:
    own = botocore.session.Session()
    own.get_component("credential_provider").insert_before("env", _Role(access, session))
    return boto3.Session(botocore_session=own, region_name=access.region)


def _role_credential(access: Access, sts: Any) -> dict[str, Any]:
    given = assume(access, sts)
    return {
        "access_key_id": given["AccessKeyId"],
        "secret_access_key": given["SecretAccessKey"],
        "token": given["SessionToken"],
        "expires_at": given["Expiration"].astimezone(UTC),
    }


def assume(access: Access, sts: Any) -> Any:
    """The role's credentials; a refusal says which side is to be mended."""
    try:
        return sts.assume_role(**access.role)["Credentials"]
    except ClientError as problem:
        if code(problem) not in DENIED:
            raise
        raise _refused(access, sts) from problem


def _refused(access: Access, sts: Any) -> EventLakeError:
    """AWS does not say why it refuses a role: tell what can be told apart from here."""
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
FULL = frozenset(("ResourceNumberLimitExceededException", "LimitExceededException"))
SLOW = frozenset(
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


def code(problem: Exception) -> str:
    """AWS's own name of a refusal."""
    response = getattr(problem, "response", {})
    return str(response.get("Error", {}).get("Code", ""))


@contextmanager
def aws_errors(what: str, needs: str = "") -> Iterator[None]:
    """A service's refusals in our words; `needs` is the permission that `what` takes."""
    try:
        yield
    except ClientError as problem:
        raise _explain(problem, what, needs) from problem
    except (NoCredentialsError, PartialCredentialsError, ProfileNotFound) as problem:
        raise InvalidSettings(
            f"there are no AWS credentials ({problem}): set AWS_ACCESS_KEY_ID and "
            "AWS_SECRET_ACCESS_KEY, or name a profile or a credentials_file in the lake's settings"
        ) from problem
    except BotoCoreError as problem:
        raise Unavailable(f"could not {what}: {problem}") from problem


def _explain(problem: ClientError, what: str, needs: str) -> EventLakeError:
    name, message = code(problem), str(problem.response.get("Error", {}).get("Message", ""))
    status = problem.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    if name in DENIED and "Lake Formation" in message:
        return InsufficientPermissions(
            f"may not {what}: Lake Formation guards this catalog; grant the permission that it "
            f"names ({message}) in Lake Formation, beside {needs or 'the IAM permission'}"
        )
    if name in DENIED:
        return InsufficientPermissions(f"may not {what}: grant {needs or 'that'} ({message})")
    if name in NOT_ACCEPTED:
        return InvalidSettings(
            f"could not {what}: the AWS credentials are not accepted ({name}): {message}"
        )
    if name in FULL:
        return LimitExceeded(f"could not {what}: a limit of the account is reached ({message})")
    if name in SLOW or status >= 500:
        return Unavailable(f"could not {what}, also after retries: {name} {message}")
    return Internal(f"could not {what}: {name} {message}")
