"""E-mail by SMTP."""

import smtplib
import ssl
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from email.message import EmailMessage
from email.utils import format_datetime
from hashlib import sha256
from typing import Any

from eventlake.control.notify.channels import EmailSettings
from eventlake.control.notify.http import closing_after, connect
from eventlake.control.notify.messages import Message
from eventlake.errors import Unavailable

SECONDS = 20.0
"""The time-out of each command."""
TOTAL_SECONDS = 45.0


def make_mail(
    message: Message, settings: EmailSettings, key: str, created_at: datetime
) -> EmailMessage:
    """The mail of a message; a delivery that is repeated has the same Message-ID."""
    mail = EmailMessage()
    mail["From"] = settings.used_sender
    mail["To"] = ", ".join(settings.to)
    mail["Subject"] = message.subject
    mail["Date"] = format_datetime(created_at)
    mail["Message-ID"] = make_message_id(settings, key)
    mail["Auto-Submitted"] = "auto-generated"  # or out-of-office replies come back
    mail.set_content(message.body)
    return mail


def make_message_id(settings: EmailSettings, key: str) -> str:
    """The id of the mail of a delivery, at the domain of its sender."""
    domain = settings.used_sender.rpartition("@")[2]
    return f"<{sha256(key.encode()).hexdigest()[:40]}@{domain}>"


@contextmanager
def sending_mail(
    mail: EmailMessage, settings: EmailSettings, password: str, seconds: float = TOTAL_SECONDS
) -> Iterator[str]:
    """Hand a mail to the server; give its answer as soon as it has accepted the mail.

    The connection ends after the block, so that the answer can be stored without delay. Raises
    Unavailable with the server's answer if it accepts no mail for any of the recipients.
    """
    client = _Client(timeout=SECONDS)
    try:
        with closing_after(lambda: client.sock, seconds):
            answer = _send(client, mail, settings, password)
        yield answer
        with suppress(smtplib.SMTPException, OSError):
            client.quit()
    finally:
        client.close()


class _Client(smtplib.SMTP):
    """Connects only to addresses that are allowed; keeps the answer to the mail's data."""

    is_tls = False
    accepted = ""

    def _get_socket(self, host: str, port: int, timeout: float) -> Any:
        sock = connect(host, port, timeout)
        if not self.is_tls:
            return sock
        return ssl.create_default_context().wrap_socket(sock, server_hostname=host)

    def data(self, msg: Any) -> tuple[int, bytes]:
        code, answer = super().data(msg)
        self.accepted = f"{code} {answer.decode('utf-8', 'replace')}"
        return code, answer


def _send(client: _Client, mail: EmailMessage, settings: EmailSettings, password: str) -> str:
    client.is_tls = settings.used_security == "tls"
    try:
        client._host = settings.host  # type: ignore[attr-defined] # the name in its certificate
        code, answer = client.connect(settings.host, settings.used_port)
        if code != 220:
            raise smtplib.SMTPResponseException(code, answer)
        if settings.used_security == "starttls":
            client.starttls(context=ssl.create_default_context())
        if settings.user:
            client.login(settings.user, password)
        refused = client.send_message(mail)
    except smtplib.SMTPRecipientsRefused as problem:
        raise Unavailable(
            f"all recipients were refused: {_list_refused(problem.recipients)}"
        ) from None
    except smtplib.SMTPResponseException as problem:
        raise Unavailable(_describe(settings, problem)) from None
    except (smtplib.SMTPException, OSError) as problem:
        reason = getattr(problem, "verify_message", "") or str(problem) or "no answer in time"
        raise Unavailable(f"{settings.host} port {settings.used_port}: {reason}") from None
    return client.accepted + (f"; refused: {_list_refused(refused)}" if refused else "")


def _describe(settings: EmailSettings, problem: smtplib.SMTPResponseException) -> str:
    text = problem.smtp_error
    said = text.decode("utf-8", "replace") if isinstance(text, bytes) else str(text)
    return f"{settings.host} answered {problem.smtp_code} {said}"


def _list_refused(recipients: Any) -> str:
    return "; ".join(
        f"{address} ({code} {answer.decode('utf-8', 'replace')})"
        for address, (code, answer) in recipients.items()
    )
