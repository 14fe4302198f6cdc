"""Where notices may not go, and what receivers cannot do to the server."""

import datetime as dt
import socket
import ssl
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from ipaddress import ip_address
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from eventlake.control.notify.channels import EmailSettings
from eventlake.control.notify.email import make_mail, sending_mail
from eventlake.control.notify.events import Severity
from eventlake.control.notify.http import MAX_ANSWER_BYTES, Reply, requesting
from eventlake.control.notify.messages import Message
from eventlake.control.notify.targets import Target, is_refused, parse_target, resolve
from eventlake.errors import InvalidSettings, Unavailable
from tests.control.receivers import HOST, HookServer, hook_server, mail_server

MESSAGE = Message(subject="test", text="hello", facts={}, severity=Severity.INFO)
AT = dt.datetime(2026, 3, 2, tzinfo=dt.UTC)


@pytest.mark.parametrize(
    "address",
    [
        "169.254.169.254",
        "169.254.0.1",
        "100.100.100.200",
        "168.63.129.16",
        "192.0.0.192",
        "0.0.0.0",
        "224.0.0.1",
        "255.255.255.255",
        "fe80::1",
        "fd00:ec2::254",
        "::",
        "ff02::1",
        "::ffff:169.254.169.254",
        "64:ff9b::a9fe:a9fe",
        "2002:a9fe:a9fe::1",
    ],
)
def test_link_local_and_metadata_addresses_are_refused(address: str) -> None:
    assert is_refused(ip_address(address))
    host = f"[{address}]" if ":" in address else address
    with pytest.raises(InvalidSettings, match="link-local and metadata"):
        parse_target("url", f"http://{host}/latest/meta-data")


@pytest.mark.parametrize("address", ["127.0.0.1", "10.0.0.5", "192.168.1.1", "8.8.8.8", "fd12::1"])
def test_others_are_allowed(address: str) -> None:
    assert not is_refused(ip_address(address))


def test_a_name_is_refused_by_what_it_resolves_to(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = [
        (socket.AF_INET, socket.SOCK_STREAM, 6, "", (one, 80))
        for one in ("93.184.215.14", "169.254.169.254")
    ]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: answers)
    with pytest.raises(Unavailable, match="has the address 169"):
        resolve("metadata.example", 80)


@pytest.mark.parametrize(
    "url", ["http://2852039166/", "http://0xa9fea9fe/", "http://169.254.43518/"]
)
def test_other_ways_to_write_an_address_are_refused_when_it_is_used(url: str) -> None:
    target = parse_target("url", url)
    with pytest.raises(Unavailable, match=r"refused|cannot resolve"):
        resolve(target.host, target.port)


@pytest.fixture(scope="module")
def hooks() -> Iterator[HookServer]:
    with hook_server() as server:
        yield server


def ask(hooks: HookServer, seconds: float = 60) -> Reply:
    target = Target(False, HOST, hooks.port, "/hook")
    with requesting(target, "POST", b"{}", {}, seconds) as reply:
        return reply


def test_redirects_are_not_followed(hooks: HookServer) -> None:
    hooks.status, hooks.headers = 302, {"location": f"{hooks.url}/elsewhere"}
    reply = ask(hooks)
    assert reply.status == 302
    assert [one.path for one in hooks.requests] == ["/hook"]


def test_a_long_answer_is_cut(hooks: HookServer) -> None:
    hooks.status, hooks.reply = 500, b"x" * 5_000_000
    assert len(ask(hooks).body) == MAX_ANSWER_BYTES


def test_an_answer_that_trickles_is_given_up(hooks: HookServer) -> None:
    gone = threading.Event()

    def trickle(handler: BaseHTTPRequestHandler) -> None:
        try:
            while not gone.wait(0.05):
                handler.wfile.write(b"HTTP/1.1 200 OK\r\n"[:1])
                handler.wfile.flush()
        except OSError:
            return

    hooks.respond = trickle
    with pytest.raises(Unavailable, match="does not answer"):
        ask(hooks, 0.5)
    gone.set()
    hooks.respond = None


# Mail over TLS


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate of localhost with its key, in one file."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = dt.datetime.now(dt.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - dt.timedelta(hours=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), False)
        .sign(key, hashes.SHA256())
    )
    path = tmp_path_factory.mktemp("tls") / "localhost.pem"
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    path.write_bytes(made.public_bytes(serialization.Encoding.PEM) + private)
    return path


def server_context(certificate: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    return context


def send(settings: EmailSettings, password: str = "", seconds: float = 60) -> str:
    mail = make_mail(MESSAGE, settings, "k", AT)
    with sending_mail(mail, settings, password, seconds) as answer:
        return answer


def test_mail_goes_over_starttls_with_a_login(
    certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    with mail_server(server_context(certificate), with_login=True) as server:
        settings = EmailSettings(
            to=("ops@example.com",),
            host="localhost",
            port=server.port,
            security="starttls",
            user="me",
        )
        assert send(settings, "planted-smtp-password") == "250 OK, kept"
        assert (server.was_secure, server.logins) == ([True], [("me", "planted-smtp-password")])
        with pytest.raises(Unavailable, match="localhost answered 535") as refused:
            send(settings, "planted-wrong")
        assert "planted" not in str(refused.value)


def test_mail_goes_over_tls(certificate: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    with mail_server(server_context(certificate), implicit=True) as server:
        settings = EmailSettings(
            to=("ops@example.com",), host="localhost", port=server.port, security="tls"
        )
        assert send(settings) == "250 OK, kept"


def test_a_certificate_that_nobody_trusts_is_refused(certificate: Path) -> None:
    with mail_server(server_context(certificate)) as server:
        settings = EmailSettings(
            to=("ops@example.com",), host="localhost", port=server.port, security="starttls"
        )
        with pytest.raises(Unavailable, match="self-signed certificate"):
            send(settings)
        assert server.mails == []


def test_a_server_without_tls_gets_no_mail_that_wants_it() -> None:
    with mail_server() as server:
        settings = EmailSettings(to=("a@b.c",), host=HOST, port=server.port, security="starttls")
        with pytest.raises(Unavailable, match="STARTTLS"):
            send(settings)


def test_a_mail_server_that_does_not_answer_is_given_up() -> None:
    with socket.create_server((HOST, 0)) as silent:
        port = silent.getsockname()[1]
        settings = EmailSettings(to=("a@b.c",), host=HOST, port=port)
        with pytest.raises(Unavailable, match=f"{HOST} port {port}"):
            send(settings, seconds=0.3)


def test_what_is_sent_by_default() -> None:
    local = EmailSettings(to=("a@b.c",))
    assert (local.used_security, local.used_port, local.used_sender) == ("none", 25, "a@b.c")
    far = EmailSettings(to=("a@b.c",), host="smtp.b.c", user="me@b.c")
    assert (far.used_security, far.used_port, far.used_sender) == ("starttls", 587, "me@b.c")
    assert EmailSettings(to=("a@b.c",), host="smtp.b.c", security="tls").used_port == 465
