"""Answers as AWS words them."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from xml.sax.saxutils import escape

from tests.aws.calls import Call, Need
from tests.aws.moto import ACCOUNT, REGION

CALLER = f"arn:aws:iam::{ACCOUNT}:user/loader"


@dataclass(frozen=True)
class Answer:
    """What goes back over the wire."""

    status: int
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    cut: int | None = None
    """So many bytes of the body, then the connection ends; below 0 there is no answer at all."""


LOST = Answer(500, cut=-1)
"""The connection ends without a word."""


def refusal(call: Call, status: int, code: str, message: str) -> Answer:
    """A service's own way to say no."""
    if call.service in ("s3", "adls"):
        text = (
            '<?xml version="1.0" encoding="UTF-8"?>\n'
            f"<Error><Code>{code}</Code><Message>{_quoted(message)}</Message>"
            "<RequestId>0A49CE4060975EAC</RequestId><HostId>hostid=</HostId></Error>"
        )
        # The answer to a HEAD has no body: of why, only the status is left.
        return Answer(status, text.encode(), {"Content-Type": "application/xml"})
    if call.service == "sts":
        text = (
            '<ErrorResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><Error>'
            f"<Type>Sender</Type><Code>{code}</Code><Message>{escape(message)}</Message>"
            "</Error><RequestId>01234567-89ab-cdef</RequestId></ErrorResponse>"
        )
        return Answer(status, text.encode(), {"Content-Type": "text/xml"})
    told = json.dumps({"__type": code, "message": message})
    return Answer(status, told.encode(), {"Content-Type": "application/x-amz-json-1.1"})


def _quoted(message: str) -> str:
    return escape(message, {'"': "&quot;"})


def denied(call: Call, need: Need, why: str = "") -> Answer:
    """May not, and what was not allowed."""
    if call.service == "adls":
        return refusal(call, 403, "AuthorizationPermissionMismatch", why or "Not authorized.")
    if call.service in ("s3", "sts"):
        return refusal(call, 403, "AccessDenied", why or not_authorized(call, need))
    return refusal(call, 400, "AccessDeniedException", why or not_authorized(call, need))


def not_authorized(call: Call, need: Need) -> str:
    return (
        f"User: {CALLER} is not authorized to perform: {need.permission} on resource: "
        f"{_arn(call, need)} because no identity-based policy allows the {need.permission} action"
    )


def _arn(call: Call, need: Need) -> str:
    service = need.permission.partition(":")[0]
    if service == "sts":
        return need.resource
    if service == "s3":
        place = call.bucket if need.permission == "s3:ListBucket" else f"{call.bucket}/{need[1]}"
        return f'"arn:aws:s3:::{place}"'
    # Of a table, Glue names the catalog first that it is not allowed in.
    place = "catalog" if service == "glue" else need.resource
    return f"arn:aws:{service}:{REGION}:{ACCOUNT}:{place}"


def deletion(keys: Iterable[str]) -> bytes:
    """What a DeleteObjects asks for."""
    objects = "".join(f"<Object><Key>{escape(key)}</Key></Object>" for key in keys)
    return f"<Delete>{objects}</Delete>".encode()


def partly_deleted(call: Call, refused: Sequence[Need], kept: Iterable[str]) -> Answer:
    """A DeleteObjects is answered with 200 also when it was refused, key by key."""
    done = "".join(f"<Deleted><Key>{escape(key)}</Key></Deleted>" for key in kept)
    errors = "".join(
        f"<Error><Key>{escape(need.resource)}</Key><Code>AccessDenied</Code>"
        f"<Message>{_quoted(not_authorized(call, need))}</Message></Error>"
        for need in refused
    )
    text = f'<DeleteResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">{done}{errors}'
    return Answer(200, f"{text}</DeleteResult>".encode(), {"Content-Type": "application/xml"})
