"""Webhooks by the rules of Standard Webhooks, and Slack's incoming webhooks."""

import hmac
import json
from base64 import b64encode
from collections.abc import Sequence
from datetime import datetime, timedelta
from hashlib import sha256

from eventlake.control.notify.channels import decode_secret
from eventlake.control.notify.deliveries import Delivery
from eventlake.control.notify.messages import Message

AGENT = "EventLake"


def make_webhook(
    delivery: Delivery, message: Message, secrets: Sequence[str], now: datetime
) -> tuple[bytes, dict[str, str]]:
    """The body and the headers of a webhook; it is signed with each secret.

    The id is the delivery's key, which repeats share; the time is that of the try.
    """
    notice = delivery.notice
    body = {
        "type": notice.event,
        "timestamp": notice.created_at.isoformat(),
        "data": {
            "source": notice.source,
            "severity": notice.severity,
            "subject": message.subject,
            "text": message.text,
            "facts": message.facts,
            "details": notice.data,
        },
    }
    content = json.dumps(body, ensure_ascii=False).encode()
    identity, stamp = message_id(delivery.key), str(int(now.timestamp()))
    signatures = [_sign(secret, identity, stamp, content) for secret in secrets]
    headers = {
        "content-type": "application/json",
        "user-agent": AGENT,
        "webhook-id": identity,
        "webhook-timestamp": stamp,
        "webhook-signature": " ".join(signatures),
    }
    return content, headers


def message_id(key: str) -> str:
    """The `webhook-id` of a delivery: the same for every try."""
    return f"msg_{sha256(key.encode()).hexdigest()[:32]}"


def make_slack(message: Message) -> tuple[bytes, dict[str, str]]:
    """The body and the headers of a message to Slack."""
    facts = [f"*{_escape(name)}:* {_escape(value)}" for name, value in message.facts.items()]
    text = "\n".join([f"*{_escape(message.subject)}*", _escape(message.text), *facts])
    headers = {"content-type": "application/json", "user-agent": AGENT}
    return json.dumps({"text": text}, ensure_ascii=False).encode(), headers


def read_retry_after(text: str) -> timedelta | None:
    """The time of a Retry-After header in seconds, at most an hour; None without one."""
    if not (text.isascii() and text.isdigit() and len(text) < 6):
        return None
    return min(timedelta(seconds=max(1, int(text))), timedelta(hours=1))


def _sign(secret: str, identity: str, stamp: str, content: bytes) -> str:
    signed = f"{identity}.{stamp}.".encode() + content
    return "v1," + b64encode(hmac.digest(decode_secret(secret), signed, sha256)).decode()


def _escape(text: str) -> str:
    """Slack reads &, < and > as markup."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
