"""What Arrow's errors of S3 mean."""

import re

from eventlake.errors import EventLakeError, InsufficientPermissions, InvalidSettings

_NOT_ACCEPTED = InvalidSettings, "the AWS credentials are not accepted"
_WRONG_REGION = InvalidSettings, "the bucket is in another region"
_ERRORS: dict[str, tuple[type[EventLakeError], str]] = {
    "NO_SUCH_BUCKET": (InvalidSettings, "the bucket does not exist"),
    "ACCESS_DENIED": (
        InsufficientPermissions,
        "grant s3:ListBucket on the bucket and s3:GetObject on its objects",
    ),
    "INVALID_ACCESS_KEY_ID": _NOT_ACCEPTED,
    "SIGNATURE_DOES_NOT_MATCH": _NOT_ACCEPTED,
    "ExpiredToken": _NOT_ACCEPTED,
    "InvalidToken": _NOT_ACCEPTED,
    "301": _WRONG_REGION,
    "AuthorizationHeaderMalformed": _WRONG_REGION,
}
"""Arrow's name for an error of S3, our error class and its message."""
_ERROR_NAME = re.compile(r"(?:AWS Error|HTTP status|ExceptionName:) (\w+)")


def is_refused(problem: Exception) -> bool:
    """Whether an exception of Arrow is an error of S3, not of a file."""
    return "AWS Error " in str(problem)


def explain_refusal(problem: Exception) -> tuple[type[EventLakeError], str] | None:
    """Our error class and message for an exception of Arrow; None if it has no special meaning."""
    names = _ERROR_NAME.findall(str(problem))
    return next((_ERRORS[name] for name in names if name in _ERRORS), None)
