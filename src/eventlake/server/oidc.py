"""Log in with an OpenID provider: authorization code, PKCE, nonce."""

import secrets
from collections.abc import Mapping, Set
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from hmac import compare_digest
from typing import Any, Self

import requests
from authlib.common.errors import AuthlibBaseError
from authlib.integrations.requests_client import OAuth2Session
from authlib.oidc.core import CodeIDToken
from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import KeySet

from eventlake.clock import Clock
from eventlake.control.oidc_users import Identity
from eventlake.control.roles import Role
from eventlake.errors import InvalidSettings, Unavailable
from eventlake.model.values import FrozenModel
from eventlake.server.problems import RequestProblem

PREFIX = "EVENTLAKE_OIDC_"
CALLBACK = "/login/oidc/callback"
TIME_TO_LOG_IN = timedelta(minutes=10)
CLOCK_SECONDS = 60
"""How much the provider's clock may differ from ours."""
TIMEOUT_SECONDS = 10
ALGORITHMS = ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "EdDSA"]
"""Signatures by a key that only the provider has; never `none`, nor those by a shared secret."""


@dataclass(frozen=True)
class OidcSettings:
    """The provider, how it knows this server, and which of its users have which role."""

    issuer: str
    client_id: str
    client_secret: str = field(repr=False)
    role_claim: str
    roles: Mapping[str, Role]
    """The role for a value of the claim; `*` is for everybody."""

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> Self | None:
        """The settings of variables such as EVENTLAKE_OIDC_ISSUER; None without that one."""
        values = {name: environment.get(PREFIX + name, "").strip() for name in _VARIABLES}
        if not values["ISSUER"]:
            return None
        for name in ("CLIENT_ID", "CLIENT_SECRET", "ROLES"):
            if not values[name]:
                raise InvalidSettings(f"{PREFIX}ISSUER is set: set {PREFIX}{name} too")
        claim = values["ROLE_CLAIM"] or "groups"
        roles = _parse_roles(values["ROLES"])
        return cls(values["ISSUER"], values["CLIENT_ID"], values["CLIENT_SECRET"], claim, roles)

    def find_role(self, claims: Mapping[str, Any]) -> Role | None:
        """The highest role of somebody's values of the claim; None without any."""
        found = claims.get(self.role_claim)
        values: Set[str] = {found} if isinstance(found, str) else set(found or ())
        held = {role for value, role in self.roles.items() if value in values or value == "*"}
        return max(held, key=list(Role).index, default=None)


_VARIABLES = ("ISSUER", "CLIENT_ID", "CLIENT_SECRET", "ROLE_CLAIM", "ROLES")


def _parse_roles(text: str) -> dict[str, Role]:
    """Such as `lake-admins=admin,data=operator,*=viewer`."""
    found: dict[str, Role] = {}
    for pair in text.split(","):
        value, _, role = pair.strip().rpartition("=")
        if not value or role not in list(Role):
            raise InvalidSettings(
                f"{PREFIX}ROLES has {pair.strip()!r}: give pairs such as data-team=operator, with "
                f"the roles {', '.join(Role)}"
            )
        found[value] = Role(role)
    return found


class Attempt(FrozenModel):
    """A login that has begun: it is in a sealed cookie of the browser."""

    state: str
    nonce: str
    verifier: str
    begun_at: datetime


@dataclass
class OidcProvider:
    """Asks the provider; each method raises Unavailable if it does not answer."""

    settings: OidcSettings
    clock: Clock
    _metadata: dict[str, Any] = field(default_factory=dict, init=False)

    def begin(self, callback: str) -> tuple[str, Attempt]:
        """The URL at which the browser logs in, and what to remember of it."""
        attempt = Attempt(
            state=secrets.token_urlsafe(32),
            nonce=secrets.token_urlsafe(32),
            verifier=secrets.token_urlsafe(64),
            begun_at=self.clock.now(),
        )
        with self._open(callback) as session:
            url, _ = session.create_authorization_url(
                self._discover(session)["authorization_endpoint"],
                state=attempt.state,
                nonce=attempt.nonce,
                code_verifier=attempt.verifier,
            )
        return url, attempt

    def finish(
        self, callback: str, attempt: Attempt, query: Mapping[str, str]
    ) -> tuple[Identity, Role | None]:
        """Who has logged in, by the parameters with which the browser came back.

        Raises a 403 problem for anything that is not the answer to this attempt.
        """
        if self.clock.now() - attempt.begun_at > TIME_TO_LOG_IN:
            raise _refuse("the login took longer than 10 minutes: try again")
        if not compare_digest(query.get("state", "").encode(), attempt.state.encode()):
            raise _refuse("this is the answer to another login: try again")
        if query.get("iss", self.settings.issuer) != self.settings.issuer:
            raise _refuse("this is the answer of another OpenID provider")
        if "code" not in query:
            raise _refuse(f"the OpenID provider refused it: {query.get('error', 'no code')[:100]}")
        claims = self._exchange(callback, attempt, query["code"])
        identity = Identity(
            self.settings.issuer,
            str(claims["sub"]),
            str(claims.get("email") or ""),
            claims.get("email_verified") is True,
        )
        return identity, self.settings.find_role(claims)

    def _exchange(self, callback: str, attempt: Attempt, code: str) -> Mapping[str, Any]:
        """The claims of the id token for a code."""
        try:
            with self._open(callback) as session:
                metadata = self._discover(session)
                token = session.fetch_token(
                    metadata["token_endpoint"],
                    code=code,
                    code_verifier=attempt.verifier,
                    timeout=TIMEOUT_SECONDS,
                )
                keys = session.request(
                    "GET", metadata["jwks_uri"], withhold_token=True, timeout=TIMEOUT_SECONDS
                )
            return self._validate(str(token["id_token"]), keys.json(), attempt.nonce)
        except requests.RequestException as problem:
            raise _away(self.settings.issuer) from problem
        except (AuthlibBaseError, JoseError, KeyError, ValueError) as problem:
            raise _refuse(f"the OpenID provider's answer is not valid: {problem}") from problem

    def _validate(self, token: str, keys: Any, nonce: str) -> Mapping[str, Any]:
        settings = self.settings
        decoded = jwt.decode(token, KeySet.import_key_set(keys), algorithms=ALGORITHMS)
        claims = CodeIDToken(
            decoded.claims,
            decoded.header,
            {"iss": {"value": settings.issuer}, "aud": {"value": settings.client_id}},
            {"nonce": nonce, "client_id": settings.client_id},
        )
        claims.validate(now=int(self.clock.now().timestamp()), leeway=CLOCK_SECONDS)
        if claims.get("nonce") != nonce:
            raise ValueError("it has another nonce")
        found: Mapping[str, Any] = decoded.claims
        return found

    def _open(self, callback: str) -> OAuth2Session:
        return OAuth2Session(
            self.settings.client_id,
            self.settings.client_secret,
            scope="openid email profile",
            redirect_uri=callback,
            code_challenge_method="S256",
        )

    def _discover(self, session: OAuth2Session) -> dict[str, Any]:
        """The provider's own description of itself, which is read once."""
        if not self._metadata:
            url = f"{self.settings.issuer.rstrip('/')}/.well-known/openid-configuration"
            try:
                reply = session.request("GET", url, withhold_token=True, timeout=TIMEOUT_SECONDS)
                reply.raise_for_status()
                found = reply.json()
            except requests.RequestException as problem:
                raise _away(self.settings.issuer) from problem
            if found.get("issuer") != self.settings.issuer:
                raise InvalidSettings(
                    f"{PREFIX}ISSUER is {self.settings.issuer!r}, and the provider calls itself "
                    f"{found.get('issuer')!r}: set it to that"
                )
            self._metadata = found
        return self._metadata


def _refuse(reason: str) -> RequestProblem:
    return RequestProblem(403, "Forbidden", reason)


def _away(issuer: str) -> Unavailable:
    return Unavailable(f"the OpenID provider {issuer} does not answer: try again")
