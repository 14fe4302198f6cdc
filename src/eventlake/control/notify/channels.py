"""Channels: where notices are sent, and their secrets that nobody can read back."""

import re
import secrets as random
from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from collections.abc import Mapping
from datetime import datetime
from email.headerregistry import Address
from typing import Annotated, Any, Literal

import sqlalchemy as sa
from pydantic import AfterValidator, Field

from eventlake.control.database import Session, insert_if_absent, update_version
from eventlake.control.notify.tables import OPEN_STATES, channels, deliveries, rules
from eventlake.control.notify.targets import check_host, parse_target
from eventlake.control.vault import Vault, is_reference
from eventlake.control.workspace import new_id
from eventlake.errors import InvalidSettings, NotFound
from eventlake.model.settings import validate_settings
from eventlake.model.values import FrozenModel

Kind = Literal["email", "slack", "webhook"]
SECRETS: Mapping[str, tuple[str, ...]] = {
    "email": ("password",),
    "slack": ("url",),
    "webhook": ("url", "secret", "old_secret"),
}
"""The secrets of each kind: sealed in the database, or references."""
SECRET_PREFIX = "whsec_"  # noqa: S105 - the prefix of Standard Webhooks
SECRET_BYTES = 32
SET = "set"
MAX_RECIPIENTS = 20
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}")


def _check_address(value: str) -> str:
    try:
        if Address(addr_spec=value).domain and value.isascii() and value.isprintable():
            return value
    except (ValueError, IndexError):
        pass
    raise ValueError("an e-mail address such as ops@example.com")


EmailAddress = Annotated[str, AfterValidator(_check_address)]


class EmailSettings(FrozenModel):
    """Recipients, and the server that mail is handed to."""

    to: tuple[EmailAddress, ...] = Field(min_length=1, max_length=MAX_RECIPIENTS)
    host: Annotated[str, Field(pattern=r"^[!-~]{1,253}$")] = "localhost"
    port: Annotated[int, Field(ge=1, le=65535)] | None = None
    security: Literal["tls", "starttls", "none"] | None = None
    """By default STARTTLS, and none for a server on this machine."""
    user: Annotated[str, Field(pattern=r"^[^\x00-\x1f]{0,254}$")] = ""
    sender: EmailAddress | None = None
    """By default the user if that is an address, else the first recipient."""

    @property
    def is_local(self) -> bool:
        return self.host in ("localhost", "127.0.0.1", "::1")

    @property
    def used_security(self) -> str:
        return self.security or ("none" if self.is_local else "starttls")

    @property
    def used_port(self) -> int:
        return self.port or {"tls": 465, "starttls": 587, "none": 25}[self.used_security]

    @property
    def used_sender(self) -> str:
        return self.sender or (self.user if "@" in self.user else self.to[0])


class TargetSettings(FrozenModel):
    """The host that a channel's secret URL leads to."""

    target: str = ""
    """Set from the URL; `reference` if the URL is one."""


class Channel(FrozenModel):
    """A place that notices are sent to, without its secrets."""

    id: str
    name: str
    kind: Kind
    settings: dict[str, Any]
    secrets: dict[str, str]
    """For each secret, its reference, or `set`."""
    version: int
    created_at: datetime


class NewChannel(FrozenModel):
    """A channel, and the secret that was made for it, which nobody can read again."""

    channel: Channel
    secret: str | None = None


def add_channel(
    session: Session,
    name: str,
    kind: Kind,
    values: Mapping[str, Any],
    vault: Vault,
    now: datetime,
) -> NewChannel:
    """Add a channel; secrets are among the values. A webhook without a secret gets a random one.

    Raises InvalidSettings with each wrong setting, and for a name that another channel has.
    """
    if not _NAME.fullmatch(name):
        raise InvalidSettings(
            "name must have 1 to 63 lower-case letters, digits, - and _, and begin with a letter "
            "or digit"
        )
    made = make_secret() if kind == "webhook" and not values.get("secret") else None
    settings, secrets = _validate(kind, {**values, **({"secret": made} if made else {})})
    identity = new_id()
    row = {
        "id": identity,
        "name": name,
        "kind": kind,
        "settings": settings,
        "secrets": {key: vault.store(secret) for key, secret in secrets.items()},
        "version": 1,
        "created_at": now,
    }
    if not insert_if_absent(session, channels, [row]):
        raise InvalidSettings(f"channel is {name!r}: there is one already; choose another name")
    return NewChannel(channel=get_channel(session, identity), secret=made)


def change_channel(
    session: Session, channel: str, changes: Mapping[str, Any], version: int, vault: Vault
) -> Channel:
    """Change settings and secrets; None sets a default again, or removes a secret.

    Raises Changed if `version` is no longer the channel's, and InvalidSettings as `add_channel`.
    """
    row = read_channel_row(session, channel)
    opened = {
        name: vault.resolve(name, one) if not is_reference(one) else one
        for name, one in row.secrets.items()
    }
    shown = {name: one for name, one in row.settings.items() if name != "target"}
    merged = {**shown, **opened, **changes}
    settings, secrets = _validate(row.kind, {k: v for k, v in merged.items() if v is not None})
    sealed = {
        name: row.secrets[name] if opened.get(name) == secret else vault.store(secret)
        for name, secret in secrets.items()
    }
    is_it = channels.c.id == row.id
    update_version(session, channels, is_it, version, settings=settings, secrets=sealed)
    return get_channel(session, row.id)


def rotate_secret(session: Session, channel: str, vault: Vault) -> NewChannel:
    """Give a webhook a new secret; it signs with the old one too until that is removed."""
    row = read_channel_row(session, channel)
    if row.kind != "webhook":
        raise InvalidSettings(f"channel {row.name} is of the kind {row.kind}: only webhooks sign")
    made = make_secret()
    changes = {"secret": vault.store(made), "old_secret": row.secrets["secret"]}
    is_it = channels.c.id == row.id
    secrets = {**row.secrets, **changes}
    update_version(session, channels, is_it, row.version, secrets=secrets)
    return NewChannel(channel=get_channel(session, row.id), secret=made)


def remove_channel(session: Session, channel: str, now: datetime) -> None:
    """Remove a channel with its secrets and rules; what was not delivered yet never is."""
    row = read_channel_row(session, channel)
    session.execute(rules.delete().where(rules.c.channel_id == row.id))
    session.execute(
        deliveries.update()
        .where(deliveries.c.channel_id == row.id, deliveries.c.state.in_(OPEN_STATES))
        .values(state="cancelled", answer="the channel was removed", lease_until=None)
    )
    session.execute(
        channels.update().where(channels.c.id == row.id).values(removed_at=now, secrets={})
    )


def get_channel(session: Session, channel: str) -> Channel:
    """The channel with a name or id; raises NotFound."""
    return to_channel(read_channel_row(session, channel))


def list_channels(session: Session) -> list[Channel]:
    """All channels, by name."""
    query = sa.select(channels).where(channels.c.removed_at.is_(None)).order_by(channels.c.name)
    return [to_channel(row) for row in session.execute(query)]


def make_secret() -> str:
    """A random secret in the form of Standard Webhooks."""
    return SECRET_PREFIX + b64encode(random.token_bytes(SECRET_BYTES)).decode()


def decode_secret(secret: str) -> bytes:
    """The key of a webhook's secret; raises InvalidSettings, without the secret."""
    try:
        key = b64decode(secret.removeprefix(SECRET_PREFIX), validate=True)
    except (Base64Error, ValueError):
        key = b""
    if not secret.startswith(SECRET_PREFIX) or not 24 <= len(key) <= 64:
        raise InvalidSettings(f"secret must be {SECRET_PREFIX} and 24 to 64 bytes as Base64")
    return key


def read_channel_row(session: Session, channel: str) -> sa.Row[Any]:
    """The row of a channel with its stored secrets; raises NotFound."""
    is_it = sa.or_(channels.c.name == channel, channels.c.id == channel)
    query = sa.select(channels).where(is_it, channels.c.removed_at.is_(None))
    for row in sorted(session.execute(query), key=lambda row: row.name != channel):
        return row
    raise NotFound(f"channel is {channel!r}: the workspace has no such channel")


def to_channel(row: sa.Row[Any]) -> Channel:
    """A row as a value without secrets."""
    shown = {name: one if is_reference(one) else SET for name, one in row.secrets.items()}
    return Channel(
        id=row.id,
        name=row.name,
        kind=row.kind,
        settings=row.settings,
        secrets=shown,
        version=row.version,
        created_at=row.created_at,
    )


def _validate(kind: Kind, values: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    """The settings as JSON without the defaults, and the secrets."""
    names = SECRETS[kind]
    secrets = {name: values[name] for name in names if values.get(name) not in (None, "")}
    rest = {name: value for name, value in values.items() if name not in names}
    for name, secret in secrets.items():
        if not isinstance(secret, str) or "\0" in secret or len(secret) > 4096:
            raise InvalidSettings(f"{name} must be a text of at most 4096 characters")
    if kind == "email":
        return _validate_email(rest, secrets), secrets
    if rest:
        raise InvalidSettings(f"{sorted(rest)[0]} is not a setting of the kind {kind}")
    if "url" not in secrets:
        raise InvalidSettings("url is missing: the URL that notices are posted to")
    for name in ("secret", "old_secret"):
        if name in secrets and not is_reference(secrets[name]):
            decode_secret(secrets[name])
    if kind == "webhook" and "secret" not in secrets:
        raise InvalidSettings("secret is missing: a webhook signs with it")
    url = secrets["url"]
    target = "reference" if is_reference(url) else parse_target("url", url).shown
    return TargetSettings(target=target).model_dump(mode="json"), secrets


def _validate_email(values: Mapping[str, Any], secrets: Mapping[str, str]) -> dict[str, Any]:
    settings = validate_settings(EmailSettings, values)
    check_host("host", settings.host)
    if bool(settings.user) != ("password" in secrets):
        raise InvalidSettings("user and password: set both or neither")
    if settings.user and settings.used_security == "none" and not settings.is_local:
        raise InvalidSettings("security is 'none': a password is only sent with tls or starttls")
    return settings.model_dump(mode="json", exclude_defaults=True)
