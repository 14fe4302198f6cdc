"""A proxy before Azurite, which also gives and accepts tokens: Azurite has none without TLS."""

import json
import re
import ssl
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Address
from pathlib import Path

import pytest
from azure.storage.blob import AccountSasPermissions, ResourceTypes, generate_account_sas
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.aws import proxy as common
from tests.aws.answers import Answer
from tests.aws.calls import Call
from tests.azure.azurite import ACCOUNT, KEY, Azure, entered
from tests.azure.calls import understood

PREFIXES = ("segment-logs/", "segment-stage/", "segment-data/", "staging/")
"""All that a lake may touch of its container."""
TOKEN = "a-token-that-nobody-may-see"


def make_sas(permission: str = "racwdl") -> str:
    """A shared access signature for everything in the account."""
    return generate_account_sas(
        ACCOUNT,
        account_key=KEY,
        resource_types=ResourceTypes(service=True, container=True, object=True),
        permission=AccountSasPermissions.from_string(permission),
        expiry=datetime.now(UTC) + timedelta(hours=1),
    )


def _json(value: object) -> Answer:
    return Answer(200, json.dumps(value).encode(), {"Content-Type": "application/json"})


def single_deletes(batch: Call) -> Iterator[Call]:
    """The requests of a batch, which deletes objects."""
    kept = ("authorization", "x-ms-version", "x-ms-date", "date")
    headers = {name: value for name, value in batch.headers.items() if name in kept}
    for path in re.findall(rb"^DELETE (\S+) HTTP/1.1", batch.body, re.MULTILINE):
        yield understood("DELETE", path.decode(), headers, b"")


def batch_answer(batch: Call, answers: list[Answer]) -> Answer:
    """The answers to the requests of a batch as one."""
    parts = (
        f"--all\r\nContent-Type: application/http\r\nContent-ID: {number}\r\n\r\n"
        f"HTTP/1.1 {one.status} Answer\r\nContent-Length: {len(one.body)}\r\n\r\n"
        f"{one.body.decode()}\r\n"
        for number, one in enumerate(answers)
    )
    whole = f"{''.join(parts)}--all--\r\n".encode()
    return Answer(202, whole, {"Content-Type": "multipart/mixed; boundary=all"})


@dataclass
class Proxy(common.Proxy):
    """What the product asked for, and what is in its way."""

    sas: str = field(default_factory=make_sas)
    tokens: list[Call] = field(default_factory=list)
    """The requests for tokens."""

    def answer(self, call: Call) -> Answer:
        path = call.target.partition("?")[0]
        if path.endswith("/token"):
            self.tokens.append(call)
            ends = {"expires_in": 3600, "expires_on": "4102444800"}
            return _json({"access_token": TOKEN, "token_type": "Bearer", **ends})
        if path.endswith("/openid-configuration"):
            own = f"{self.here.url}{path.partition('/v2.0')[0]}"
            pages = {
                f"{one}_endpoint": f"{own}/oauth2/v2.0/{one}" for one in ("token", "authorize")
            }
            return _json({**pages, "authorization_endpoint": f"{own}/authorize", "issuer": own})
        return super().answer(call)

    def forward(self, call: Call) -> Answer:
        if call.caller != "Bearer":
            return super().forward(call)
        if call.action == "DeleteObjects":  # Azurite refuses signatures for batches
            return batch_answer(call, [self.forward(one) for one in single_deletes(call)])
        return super().forward(self._sign(call))

    def _sign(self, call: Call) -> Call:
        """Put a signature in the place of a token."""
        assert call.headers["authorization"] == f"Bearer {TOKEN}"
        kept = {k: v for k, v in call.headers.items() if k not in ("authorization", "host")}
        if source := kept.get("x-ms-copy-source"):
            netloc = self.upstream.url
            kept["x-ms-copy-source"] = re.sub(r"^https?://[^/]+", netloc, f"{source}?{self.sas}")
        return replace(call, target=self._with_sas(call.target), headers=kept)

    def _with_sas(self, target: str) -> str:
        return f"{target}{'&' if '?' in target else '?'}{self.sas}"

    def astray(self) -> list[str]:
        """What was read, listed, written or deleted beside the lake's four prefixes."""
        return [
            f"{call}: {need}"
            for call in self.calls
            for need in call.needs
            if not f"{need.resource}/".startswith(PREFIXES)
        ]


@pytest.fixture
def proxy(azure: Azure) -> Iterator[Proxy]:
    """What stands between the product and this test's container."""
    with common.started(azure, Proxy, understood) as here, entered(here.here):
        yield here


@pytest.fixture
def tls_proxy(azure: Azure, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Proxy]:
    """The same over TLS, which Azure's client wants for tokens; it gives tokens of its own."""
    certificate = make_certificate(tmp_path)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate)
    with common.started(azure, Proxy, understood, context) as here, entered(here.here):
        monkeypatch.delenv("AZURE_STORAGE_ACCOUNT_KEY")
        monkeypatch.setenv("AZURE_AUTHORITY_HOST", here.here.url)
        for name in ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE"):
            monkeypatch.setenv(name, str(certificate))
        yield here


def make_certificate(folder: Path) -> Path:
    """A file with a key and a certificate of its own for 127.0.0.1."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.now(UTC)
    host = x509.SubjectAlternativeName([x509.IPAddress(IPv4Address("127.0.0.1"))])
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(host, critical=False)
        .sign(key, hashes.SHA256())
    )
    file = folder / "certificate.pem"
    file.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        + made.public_bytes(serialization.Encoding.PEM)
    )
    return file
