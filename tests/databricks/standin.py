"""A Databricks workspace on this machine: the documented calls that EventLake makes, and no more.

Statements are executed by Spark with Delta, jobs are processes. Every other path is a 404.
"""

import itertools
import secrets
import tempfile
from base64 import b64decode
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.databricks.engine import Engine, made_engine
from tests.databricks.http_server import Answer, Fault, Refused, Request, Server
from tests.databricks.runs import NUMBERS, JobRun
from tests.databricks.unity import Unity, unity_routes
from tests.databricks.warehouses import Warehouses, warehouse_routes

PRINCIPAL, SECRET = "0b5e1a6c-4d1b-4c1f-9e36-52d1ba3a7c10", "dose-secret"
TENANT = "f1d2a9c4-0c1f-4f0e-9d0a-6c1b7a2e5d38"
ENTRA_RESOURCES = ("2ff814a6-3304-4ab8-85cb-cd0e6f879c1d", "https://management.core.windows.net/")
"""What Entra makes tokens for: calls of workspaces, and Azure's own management."""
CLUSTER = "1117-020000-abcdefgh"
RUNTIME = "17.3.x-scala2.13"
DAY_MS = 86_400_000
NOW_MS = 1_794_880_000_000
"""The stand-in's time: 2026-11-17."""


@dataclass
class StandIn:
    """The state of a workspace; a test changes it as an administrator would."""

    folder: Path
    engine: Engine
    url: str = ""
    secrets: dict[str, str] = field(default_factory=lambda: {PRINCIPAL: SECRET})
    tokens: dict[str, dict[str, Any]] = field(default_factory=dict)
    admins: set[str] = field(default_factory=set)
    files: dict[str, bytes] = field(default_factory=dict)
    folders: set[str] = field(default_factory=set)
    scopes: dict[str, dict[str, str]] = field(default_factory=dict)
    clusters: dict[str, dict[str, Any]] = field(default_factory=dict)
    libraries: list[dict[str, Any]] = field(default_factory=list)
    runs: dict[int, JobRun] = field(default_factory=dict)
    submissions: dict[str, int] = field(default_factory=dict)
    """Runs by their idempotency token."""
    hold_runs: bool = False
    """Whether submitted runs wait for their cluster until a test starts them."""
    lifetime: int = 3600
    """Seconds that OAuth tokens live."""
    numbers: Iterator[int] = field(default_factory=itertools.count)

    def __post_init__(self) -> None:
        self.unity = Unity(self.engine)
        self.warehouses = Warehouses(self.engine, self.unity)
        self.server = Server(self._routes(), self._sign_in, self._open_paths())
        self.add_cluster(CLUSTER)

    # Sign-in

    def _open_paths(self) -> dict[str, Any]:
        return {
            "/oidc/.well-known/oauth-authorization-server": lambda _: {
                "authorization_endpoint": f"{self.url}/oidc/v1/authorize",
                "token_endpoint": f"{self.url}/oidc/v1/token",
            },
            "/.well-known/databricks-config": lambda _: {
                "oidc_endpoint": f"{self.url}/oidc",
                "workspace_id": "1",
            },
            "/oidc/v1/token": self._make_token,
            f"/entra/{TENANT}/oauth2/token": self._make_entra_token,
        }

    def _make_token(self, request: Request) -> Answer:
        basic = request.headers.get("Authorization", "").removeprefix("Basic ")
        client, _, secret = b64decode(basic).decode().partition(":")
        if request.values.get("grant_type") != "client_credentials":
            raise _oauth_error("unsupported_grant_type", "only client_credentials")
        if self.secrets.get(client) != secret:
            raise _oauth_error("invalid_client", "Client authentication failed")
        return self._new_access(client)

    def _new_access(self, client: str, **details: str) -> Answer:
        made = f"eyJ-{secrets.token_hex(8)}"
        self.tokens[made] = {"principal": client, **details}
        kind = {"token_type": "Bearer", "expires_in": self.lifetime, "scope": "all-apis"}
        return {"access_token": made, **kind}

    def _make_entra_token(self, request: Request) -> Answer:
        """Entra's token endpoint, version 1: the answers of its documentation."""
        given = request.values
        if self.secrets.get(given["client_id"]) != given["client_secret"]:
            raise _oauth_error(
                "invalid_client", "AADSTS7000215: Invalid client secret provided. Ensure …"
            )
        if given["resource"] not in ENTRA_RESOURCES:
            raise _oauth_error("invalid_resource", "AADSTS500011: The resource was not found")
        return self._new_access(given["client_id"], resource=given["resource"])

    def _sign_in(self, headers: Mapping[str, str]) -> str:
        token = headers.get("Authorization", "").removeprefix("Bearer ")
        found = self.tokens.get(token)
        if found and found.get("resource") == ENTRA_RESOURCES[1]:
            found = None  # a token of Azure's management is none of a workspace
        if found is None:
            code = 401 if token.startswith("eyJ") else 403
            name = "UNAUTHENTICATED" if code == 401 else "PERMISSION_DENIED"
            raise Refused(code, name, "Invalid access token.")
        if found.get("expiry_time", NOW_MS) < NOW_MS:
            raise Refused(401, "UNAUTHENTICATED", "Token is expired.")
        return str(found["principal"])

    def add_token(self, principal: str = PRINCIPAL, days: float = 90, comment: str = "x") -> str:
        """A personal access token that expires after a number of days."""
        token = f"dapi{secrets.token_hex(8)}"
        self.tokens[token] = {
            "principal": principal,
            "token_id": secrets.token_hex(8),
            "comment": comment,
            "creation_time": NOW_MS,
            "expiry_time": int(NOW_MS + days * DAY_MS),
        }
        return token

    # Compute

    def add_cluster(self, number: str, **changes: Any) -> None:
        self.clusters[number] = {
            "cluster_id": number,
            "cluster_name": "shared",
            "spark_version": RUNTIME,
            "state": "RUNNING",
            "data_security_mode": "SINGLE_USER",
            "single_user_name": PRINCIPAL,
            "spark_env_vars": {},
            **changes,
        }

    def _cluster(self, number: str) -> dict[str, Any]:
        if number not in self.clusters:
            raise Refused(400, "INVALID_PARAMETER_VALUE", f"Cluster {number} does not exist")
        return self.clusters[number]

    def _submit(self, request: Request) -> Answer:
        token = request.values.get("idempotency_token", "")
        if token in self.submissions:
            return {"run_id": self.submissions[token]}
        (task,) = request.values["tasks"]
        if "existing_cluster_id" in task:
            cluster = self._cluster(task["existing_cluster_id"])
        else:
            cluster = task["new_cluster"]
        run = JobRun(
            number=next(NUMBERS),
            task=task,
            name=request.values["run_name"],
            folder=self.folder / f"run-{secrets.token_hex(4)}",
            runtime=cluster["spark_version"],
            environment=self._resolve(cluster.get("spark_env_vars", {})),
            files=dict(self.files),
        )
        self.runs[run.number] = run
        if token:
            self.submissions[token] = run.number
        if not self.hold_runs:
            run.start_later()
        return {"run_id": run.number}

    def _resolve(self, variables: Mapping[str, str]) -> dict[str, str]:
        """Environment variables with the secrets that they refer to."""
        found = {}
        for name, value in variables.items():
            if value.startswith("{{secrets/"):
                scope, key = value.removeprefix("{{secrets/").removesuffix("}}").split("/")
                value = self.scopes[scope][key]  # noqa: PLW2901
            found[name] = value
        return found

    def _run(self, request: Request) -> JobRun:
        number = int(request.values["run_id"])
        number = number if number in self.runs else number - 1000
        if number not in self.runs:
            raise Refused(400, "INVALID_PARAMETER_VALUE", f"Run {number} does not exist.")
        return self.runs[number]

    def _cancel(self, request: Request) -> Answer:
        run = self._run(request)
        if "result_state" not in run.state:
            run.cancelled = True
            run.stop()
        return {}

    # Files and secrets

    def _import(self, request: Request) -> Answer:
        path = _plain(request.values["path"])
        if path.rpartition("/")[0] not in self.folders:
            raise Refused(404, "RESOURCE_DOES_NOT_EXIST", f"The parent folder of {path} is missing")
        self.files[f"/Workspace{path}"] = b64decode(request.values["content"])
        return {}

    def _mkdirs(self, request: Request) -> Answer:
        self.folders.add(_plain(request.values["path"]))
        return {}

    def _list_files(self, request: Request) -> Answer:
        folder = _plain(request.values["path"])
        if folder not in self.folders:
            raise Refused(404, "RESOURCE_DOES_NOT_EXIST", f"Path ({folder}) doesn't exist.")
        inside = [path for path in self.files if path.startswith(f"/Workspace{folder}/")]
        return {"objects": [{"path": path, "object_type": "FILE"} for path in inside]}

    def _list_secrets(self, request: Request) -> Answer:
        scope = request.values["scope"]
        if scope not in self.scopes:
            raise Refused(404, "RESOURCE_DOES_NOT_EXIST", f"Scope {scope} does not exist!")
        return {"secrets": [{"key": key} for key in self.scopes[scope]]}

    # Tokens

    def _create_token(self, request: Request) -> Answer:
        return self._new_token(request.principal, request.values)

    def _create_obo(self, request: Request) -> Answer:
        if request.principal not in self.admins:
            raise Refused(403, "PERMISSION_DENIED", "Only workspace admins can do that")
        return self._new_token(request.values["application_id"], request.values)

    def _new_token(self, principal: str, values: Mapping[str, Any]) -> Answer:
        days = int(values["lifetime_seconds"]) / 86_400
        token = self.add_token(principal, days, values.get("comment", ""))
        return {"token_value": token, "token_info": _public(self.tokens[token])}

    def _list_tokens(self, request: Request) -> Answer:
        mine = [one for one in self.tokens.values() if one["principal"] == request.principal]
        return {"token_infos": [_public(one) for one in mine if "token_id" in one]}

    def _routes(self) -> dict[str, Any]:
        return {
            "GET /api/2.0/preview/scim/v2/Me": lambda r: {"userName": r.principal, "active": True},
            "GET /api/2.1/clusters/get": lambda r: self._cluster(r.values["cluster_id"]),
            "GET /api/2.0/libraries/cluster-status": lambda r: {
                "cluster_id": r.values["cluster_id"],
                "library_statuses": self.libraries,
            },
            "POST /api/2.2/jobs/runs/submit": self._submit,
            "GET /api/2.2/jobs/runs/get": lambda r: self._run(r).shown(self.url),
            "GET /api/2.2/jobs/runs/get-output": lambda r: self._run(r).output(),
            "POST /api/2.2/jobs/runs/cancel": self._cancel,
            "POST /api/2.0/workspace/import": self._import,
            "POST /api/2.0/workspace/mkdirs": self._mkdirs,
            "GET /api/2.0/workspace/list": self._list_files,
            "GET /api/2.0/secrets/list": self._list_secrets,
            "POST /api/2.0/token/create": self._create_token,
            "GET /api/2.0/token/list": self._list_tokens,
            "POST /api/2.0/token-management/on-behalf-of/tokens": self._create_obo,
            **warehouse_routes(self.warehouses),
            **unity_routes(self.unity),
        }

    # For tests

    def fault(self, pattern: str, **how: Any) -> Fault:
        made = Fault(pattern, **how)
        self.server.faults.append(made)
        return made

    def stop(self) -> None:
        for run in self.runs.values():
            run.stop()


def _plain(path: str) -> str:
    """A path of the workspace's files; /Workspace at its begin is optional."""
    return path.removeprefix("/Workspace")


def _public(token: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in token.items() if name != "principal"}


def _oauth_error(code: str, text: str) -> Refused:
    problem = Refused(401, code, text)
    problem.body = {"error": code, "error_description": text}  # the form of OAuth
    return problem


_ENGINE = pytest.StashKey[Engine]()


def shared_engine(config: pytest.Config) -> Engine:
    """One engine for all tests of a process: it takes seconds to start."""
    if _ENGINE not in config.stash:
        until_the_end = ExitStack()
        config.add_cleanup(until_the_end.close)
        config.stash[_ENGINE] = until_the_end.enter_context(made_engine())
    return config.stash[_ENGINE]


@contextmanager
def running(engine: Engine) -> Iterator[StandIn]:
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        here = StandIn(Path(folder), engine)
        with here.server.listening() as url:
            here.url = url
            try:
                yield here
            finally:
                here.stop()


@pytest.fixture
def databricks(request: pytest.FixtureRequest) -> Iterator[StandIn]:
    """A workspace without tables."""
    engine = shared_engine(request.config)
    with running(engine) as here:
        yield here
        here.unity.empty()
