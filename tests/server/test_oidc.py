"""Log in with an OpenID provider that the test runs: code, PKCE, nonce, roles by claim."""

import json
import secrets
import threading
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import httpx
import pytest
from joserfc import jwt
from joserfc.jwk import OctKey, RSAKey

from eventlake.clock import SYSTEM_CLOCK
from eventlake.control.roles import Role
from eventlake.control.users import list_users
from eventlake.errors import InvalidSettings
from eventlake.server.oidc import OidcProvider, OidcSettings
from tests.clocks import SimulatedClock
from tests.server.servers import PASSWORD, Api, serving

SECRET = "planted-client-secret"
KEY, OTHER_KEY = (RSAKey.generate_key(2048, {"kid": "k1", "use": "sig"}) for _ in range(2))
CLAIMS = {"sub": "ada-1", "email": "Ada@example.com", "email_verified": True, "groups": ["data"]}


@dataclass
class Provider:
    """A small OpenID provider; tests change what it answers."""

    url: str = ""
    claims: dict[str, Any] = field(default_factory=lambda: dict(CLAIMS))
    changes: dict[str, Any] = field(default_factory=dict)
    """Claims of the id token that are wrong."""
    key: Any = field(default_factory=lambda: KEY)
    header: dict[str, Any] = field(default_factory=lambda: {"alg": "RS256", "kid": "k1"})
    is_away: bool = False
    codes: dict[str, dict[str, str]] = field(default_factory=dict)
    asked: list[dict[str, str]] = field(default_factory=list)

    def describe(self) -> dict[str, Any]:
        names = {"authorization": "authorize", "token": "token"}
        ends = {f"{name}_endpoint": f"{self.url}/{path}" for name, path in names.items()}
        return {"issuer": self.url, "jwks_uri": f"{self.url}/jwks", **ends}

    def authorize(self, query: dict[str, str]) -> str:
        """Log the user in at once; return where the browser goes then."""
        self.asked.append(query)
        assert (query["response_type"], query["code_challenge_method"]) == ("code", "S256")
        assert query["scope"] == "openid email profile"
        code = secrets.token_urlsafe(8)
        self.codes[code] = query
        answer = {"code": code, "state": query["state"], "iss": self.url}
        return f"{query['redirect_uri']}?{urlencode(answer)}"

    def exchange(self, form: dict[str, str], headers: Any) -> tuple[int, dict[str, Any]]:
        """The id token for a code, once, for the client with the secret and the verifier."""
        query = self.codes.pop(form.get("code", ""), None)
        digest = sha256(form.get("code_verifier", "").encode()).digest()
        challenge = urlsafe_b64encode(digest).decode().rstrip("=")
        basic = httpx.BasicAuth("lake", SECRET)._auth_header
        if (
            query is None
            or challenge != query["code_challenge"]
            or form["redirect_uri"] != query["redirect_uri"]
            or headers.get("authorization") != basic
        ):
            return 400, {"error": "invalid_grant"}
        now = int(SYSTEM_CLOCK.now().timestamp())
        body = {"iss": self.url, "aud": "lake", "iat": now, "exp": now + 60, **self.claims}
        body |= {"nonce": query["nonce"]} | self.changes
        if self.header["alg"] == "none":
            token = ".".join((encode(self.header), encode(body), ""))
        else:
            token = jwt.encode(self.header, body, self.key, algorithms=["RS256", "HS256"])
        return 200, {"access_token": "a", "token_type": "Bearer", "id_token": token}


def encode(value: Any) -> str:
    return urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


class Handler(BaseHTTPRequestHandler):
    provider: Provider

    def do_GET(self) -> None:
        parsed = urlsplit(self.path)
        provider = self.provider
        if provider.is_away:
            self._send(503, {})
        elif parsed.path.endswith("openid-configuration"):
            self._send(200, provider.describe())
        elif parsed.path == "/jwks":
            self._send(200, {"keys": [KEY.as_dict(private=False)]})
        else:
            query = {name: values[0] for name, values in parse_qs(parsed.query).items()}
            self._send(303, {}, location=provider.authorize(query))

    def do_POST(self) -> None:
        text = self.rfile.read(int(self.headers["content-length"])).decode()
        form = {name: values[0] for name, values in parse_qs(text).items()}
        self._send(*self.provider.exchange(form, self.headers))

    def _send(self, status: int, body: Any, **headers: str) -> None:
        self.send_response(status)
        for name, value in {"content-type": "application/json", **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(json.dumps(body).encode())

    def log_message(self, *_: object) -> None:
        """Print nothing."""


@pytest.fixture
def provider() -> Iterator[Provider]:
    handler = type("OneHandler", (Handler,), {"provider": Provider()})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        handler.provider.url = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield handler.provider
        server.shutdown()
        thread.join()


@pytest.fixture
def api(tmp_path: Path, migrated_sqlite: bytes, provider: Provider) -> Iterator[Api]:
    path = tmp_path / "eventlake.db"
    path.write_bytes(migrated_sqlite)
    with serving_with(str(path), provider) as api:
        yield api


@contextmanager
def serving_with(url: str, provider: Provider) -> Iterator[Api]:
    with serving(url) as api:
        api.add_user("root@example.com", Role.ADMIN)
        roles = {"lake-admins": Role.ADMIN, "data": Role.OPERATOR}
        settings = OidcSettings(provider.url, "lake", SECRET, "groups", roles)
        api.context.oidc = OidcProvider(settings, api.context.clock)
        api.context.logins.admit = lambda _: None  # type: ignore[method-assign]
        yield api


def log_in(api: Api, change_url: Any = str, **cookies: str) -> httpx.Response:
    """As a browser: to the provider and back; return the last reply of the server."""
    with httpx.Client(timeout=30) as browser:
        start = browser.get(f"{api.url}/login/oidc")
        if start.status_code != 303:
            return start
        back = httpx.get(start.headers["location"]).headers["location"]
        browser.cookies.update(cookies)
        cross = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}
        return browser.get(change_url(back), headers={**cross, "sec-fetch-dest": "document"})


def who(api: Api, reply: httpx.Response) -> Any:
    assert reply.status_code == 303, reply.text
    assert reply.headers["location"] == "/"
    return api.get("/me", cookie=f"eventlake={reply.cookies['eventlake']}")


def test_a_user_of_the_provider_logs_in(url: str, provider: Provider) -> None:
    with serving_with(url, provider) as api:
        check_login(api, provider)


def check_login(api: Api, provider: Provider) -> None:
    reply = log_in(api)
    assert who(api, reply) == {"name": "user:ada@example.com", "role": "operator"}
    assert "HttpOnly" in reply.headers["set-cookie"]
    asked = provider.asked[0]
    assert len(asked["nonce"]) > 30
    assert len(asked["code_challenge"]) == 43
    assert SECRET not in str(asked)
    users = [user.email for user in read_users(api)]
    assert who(api, log_in(api))["role"] == "operator"
    assert (
        [user.email for user in read_users(api)] == users == ["ada@example.com", "root@example.com"]
    )
    nothing = {"email": "ada@example.com", "password": ""}
    assert api.ask("POST", "/session", nothing).status_code == 401


def test_the_role_follows_the_claim(api: Api, provider: Provider) -> None:
    cookie = log_in(api).cookies["eventlake"]
    provider.claims["groups"] = ["data", "lake-admins"]
    assert who(api, log_in(api))["role"] == "admin"
    assert api.ask("GET", "/me", cookie=f"eventlake={cookie}").status_code == 401
    cookie = log_in(api).cookies["eventlake"]
    provider.claims["groups"] = ["sales"]
    refused = log_in(api)
    assert (refused.status_code, "one of lake-admins, data" in refused.text) == (403, True)
    assert api.ask("GET", "/me", cookie=f"eventlake={cookie}").status_code == 401
    del provider.claims["groups"]
    assert log_in(api).status_code == 403


def test_users_are_matched_by_the_providers_id(api: Api, provider: Provider) -> None:
    who(api, log_in(api))
    provider.claims["email"] = "ada.lovelace@example.com"
    assert who(api, log_in(api))["name"] == "user:ada@example.com"
    provider.claims |= {"sub": "eve-2", "email": "ada@example.com"}
    refused = log_in(api)
    assert (refused.status_code, "is another user" in refused.text) == (422, True)


def test_a_user_who_was_there_is_joined_only_by_a_verified_address(
    api: Api, provider: Provider
) -> None:
    api.add_user("ada@example.com", Role.VIEWER)
    provider.claims["email_verified"] = False
    refused = log_in(api)
    assert (refused.status_code, "has not verified" in refused.text) == (422, True)
    provider.claims["email_verified"] = True
    assert who(api, log_in(api)) == {"name": "user:ada@example.com", "role": "operator"}
    credentials = {"email": "ada@example.com", "password": PASSWORD}
    assert api.ask("POST", "/session", credentials).status_code == 200


@pytest.mark.parametrize(
    "changes",
    [
        {"nonce": "another"},
        {"nonce": None},
        {"aud": "another-client"},
        {"iss": "https://evil.example"},
        {"exp": 1},
        {"sub": None},
    ],
)
def test_a_wrong_id_token_is_refused(api: Api, provider: Provider, changes: Any) -> None:
    provider.changes = changes
    if None in changes.values():
        (name,) = changes
        provider.claims.pop(name, None)
    assert log_in(api).status_code == 403
    assert len(read_users(api)) == 1


@pytest.mark.parametrize(
    ("header", "key"),
    [
        ({"alg": "RS256", "kid": "k1"}, OTHER_KEY),
        ({"alg": "HS256"}, OctKey.import_key(SECRET)),
        ({"alg": "none"}, OctKey.import_key("x" * 32)),
    ],
)
def test_a_token_that_others_signed_is_refused(
    api: Api, provider: Provider, header: Any, key: Any
) -> None:
    provider.header, provider.key = header, key
    assert log_in(api).status_code == 403
    assert len(read_users(api)) == 1


def test_answers_to_other_logins_are_refused(api: Api, provider: Provider) -> None:
    assert log_in(api, lambda url: url.replace("state=", "state=x")).status_code == 403
    assert log_in(api, lambda url: url.replace("iss=http", "iss=ftp")).status_code == 403
    assert log_in(api, lambda url: url.replace("code=", "error=denied&x=")).status_code == 403
    assert log_in(api, lambda url: url.replace("code=", "code=x")).status_code == 403
    url = f"{api.url}/login/oidc/callback?code=x&state=y"
    for cookie in ("", "file:/etc/passwd", "env:HOME", "sealed:x", "sealed:"):
        reply = httpx.get(url, headers={"cookie": f"eventlake-oidc={cookie}"})
        assert (reply.status_code, "no login has begun" in reply.text) == (403, True)
    assert len(read_users(api)) == 1


def test_a_login_has_ten_minutes(provider: Provider) -> None:
    clock = SimulatedClock(SYSTEM_CLOCK.now())
    settings = OidcSettings(provider.url, "lake", SECRET, "groups", {"*": Role.VIEWER})
    flow = OidcProvider(settings, clock)
    callback = "http://127.0.0.1/login/oidc/callback"
    url, attempt = flow.begin(callback)
    query = {name: values[0] for name, values in parse_qs(urlsplit(url).query).items()}
    back = dict(part.split("=") for part in urlsplit(provider.authorize(query)).query.split("&"))
    back.pop("iss")
    clock.advance(timedelta(minutes=11))
    with pytest.raises(Exception, match="longer than 10 minutes"):
        flow.finish(callback, attempt, back)
    clock.advance(timedelta(minutes=-11))
    identity, role = flow.finish(callback, attempt, back)
    assert (identity.subject, role) == ("ada-1", Role.VIEWER)


def test_a_provider_that_is_away_is_said(api: Api, provider: Provider) -> None:
    provider.is_away = True
    reply = log_in(api)
    assert (reply.status_code, "does not answer" in reply.text) == (503, True)
    api.context.oidc = None
    assert log_in(api).status_code == 404


@pytest.mark.parametrize(
    ("changes", "part"),
    [
        ({"CLIENT_ID": ""}, "set EVENTLAKE_OIDC_CLIENT_ID too"),
        ({"ROLES": ""}, "set EVENTLAKE_OIDC_ROLES too"),
        ({"ROLES": "data=king"}, "with the roles viewer, operator, admin"),
        ({"ROLES": "admin"}, "give pairs"),
    ],
)
def test_wrong_settings_are_refused(changes: dict[str, str], part: str) -> None:
    values = {"ISSUER": "https://id.example.com", "CLIENT_ID": "lake", "CLIENT_SECRET": SECRET}
    values |= {"ROLES": "*=viewer, cn=lake,ou=x=admin"} | changes
    with pytest.raises(InvalidSettings, match=part):
        OidcSettings.from_environment({f"EVENTLAKE_OIDC_{k}": v for k, v in values.items()})


def test_settings_do_not_show_the_secret() -> None:
    values = {"ISSUER": "https://id.example.com", "CLIENT_ID": "lake", "CLIENT_SECRET": SECRET}
    names = {f"EVENTLAKE_OIDC_{name}": value for name, value in values.items()}
    found = OidcSettings.from_environment({**names, "EVENTLAKE_OIDC_ROLES": "*=viewer"})
    assert found
    assert SECRET not in repr(found)
    assert found.role_claim == "groups"
    assert OidcSettings.from_environment({}) is None


def read_users(api: Api) -> Any:
    with api.context.database.read() as session:
        return list_users(session)
