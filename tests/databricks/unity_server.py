"""An independent, unofficial server of Unity Catalog's API, built by `make test-unity`."""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from databricks.sdk import WorkspaceClient
from databricks.sdk.service.catalog import AwsIamRole, CredentialPurpose

from eventlake.catalogs.unity import ApiRegistrar, UnityCatalog
from eventlake.databricks.unity import UnityApi
from eventlake.databricks.workspace import Workspace
from eventlake.model.databricks import DatabricksAuth
from tests.aws.moto import free_port
from tests.azure.metastores import running, wait_until_answers
from tests.databricks.catalogs import GivenSecrets
from tests.downloads import cached, run

IS_WANTED = bool(os.environ.get("EVENTLAKE_UNITY"))
CRATE = "olai-uc-server@0.0.11"
CATALOG = "events"
ROLE = AwsIamRole(role_arn="arn:aws:iam::123456789012:role/lake")


def server_binary() -> Path:
    """The server, built with Rust the first time; five minutes on two cores."""
    build = ("cargo", "install", "--debug", "--locked", "--features", "bin")
    folder = cached(
        "A server of Unity Catalog",
        CRATE.replace("@", "-"),
        lambda new: run(*build, "--root", str(new), CRATE),
    )
    return folder / "bin/uc-server"


@pytest.fixture
def unity_server(tmp_path: Path) -> Iterator[str]:
    """The address of a server with an empty catalog for tables below `tmp_path`."""
    settings = tmp_path / "uc.yaml"
    settings.write_text(f"local_storage:\n  allowed-roots: {json.dumps([str(tmp_path)])}\n")
    port = free_port()
    where = ["--host", "127.0.0.1", "--port", str(port), "--no-ui"]
    command = [str(server_binary()), "serve", "-c", str(settings), *where]
    log, url = tmp_path / "uc.log", f"http://127.0.0.1:{port}"
    with running(command, log):
        client = WorkspaceClient(host=url, token="any", auth_type="pat")
        wait_until_answers(lambda: list(client.catalogs.list()), log)
        purpose = CredentialPurpose.STORAGE
        client.credentials.create_credential("lake", aws_iam_role=ROLE, purpose=purpose)
        client.external_locations.create("lake", f"file://{tmp_path}", "lake")
        client.catalogs.create(CATALOG, storage_root=f"file://{tmp_path}/managed")
        yield url


def server_catalog(url: str, root: str) -> UnityCatalog:
    """A client of the server, which takes any token."""
    secrets = GivenSecrets({"databricks_token": "any"})
    calls = Workspace(host=url, auth=DatabricksAuth.PAT, secrets=secrets)
    api = UnityApi(calls, CATALOG)
    return UnityCatalog(api, ApiRegistrar(api, root), root)
