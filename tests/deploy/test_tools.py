"""The Terraform module under the tools of its users: Terraform itself, and Checkov."""

import json
import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from eventlake.lakes import lake_settings
from tests.deploy.module import MODULE
from tests.downloads import cached, pip_install

CHECKOV = "3.3.30"
TERRAFORM = shutil.which("terraform") or ""

needs_terraform = pytest.mark.skipif(
    not TERRAFORM, reason="there is no terraform here, and pip cannot bring it"
)

GIVEN = {
    "aws_region": "eu-west-1",
    "s3_bucket": "example-eventlake",
    "workspace_id": "example-workspace",
    "trusted_arns": ["arn:aws:iam::123456789012:role/eventlake-host"],
}
MADE = {
    "aws_region": "eu-west-1",
    "s3_bucket": "example-eventlake",
    "workspace_id": "example-workspace",
    "glue_catalog_id": "123456789012",
    "iam_role_arn": "arn:aws:iam::123456789012:role/eventlake",
}
PLACES: dict[str, dict[str, Any]] = {
    "here": {"emr_cluster_id": None},
    "cluster": {"emr_cluster_id": "j-2AXXXXXXGAPLF"},
    "serverless": {
        "emr_serverless_application_id": "00f1abcdexample",
        "emr_serverless_role_arn": "arn:aws:iam::123456789012:role/eventlake-emr-serverless",
    },
    "temporary": {
        "emr_service_role": "eventlake-emr-service",
        "emr_instance_profile": "eventlake-emr-instance",
        "emr_security_configuration": "eventlake-20261115144415000000000001",
        "emr_subnet_id": "subnet-0123456789abcdef0",
        "emr_release_label": "emr-spark-8.1.0",
        "emr_instance_type": "m7i.xlarge",
        "emr_max_instances": 8,
    },
}
REFUSED: list[dict[str, Any]] = [
    {"aws_region": "eu-west-1a"},
    {"s3_bucket": "Example"},
    {"s3_bucket": "ab"},
    {"workspace_id": "two words"},
    {"workspace_id": "w"},
    {"glue_catalog_id": "12345"},
    {"iam_role_arn": "arn:aws:iam::123456789012:user/somebody"},
    {"emr_cluster_id": "2AXXXXXXGAPLF"},
    {"emr_cluster_id": "j-2AXXXXXXGAPLF", "create_emr_cluster": True},
    {"trusted_arns": ["*"]},
    {"trusted_arns": ["arn:aws:iam::123456789012:role/*"]},
    {"trusted_arns": []},
    {"kms_key_arn": "arn:aws:kms:eu-west-1:123456789012:alias/lake"},
    {"create_emr_cluster": True},
    {"temporary_clusters": True},
    {"emr_release_label": "emr-7.0.0"},
    {"emr_instance_type": "large"},
    {"emr_instances": {"minimum": 4, "maximum": 2}},
    {"emr_idle_timeout": 5},
    {"glue_databases": []},
]
ACCEPTED: list[dict[str, Any]] = [
    {},
    {"aws_region": "us-gov-east-1"},
    {"glue_catalog_id": "210987654321"},
    {"emr_cluster_id": "j-2AXXXXXXGAPLF"},
    {"trusted_arns": [], "iam_role_arn": "arn:aws-cn:iam::123456789012:role/path/lake"},
    {"create_emr_cluster": True, "emr_subnet_id": "subnet-0123456789abcdef0"},
    {"emr_idle_timeout": 3600},
    {"emr_release_label": "emr-7.13.0"},
    {"emr_release_label": "emr-spark-10.0.0"},
]

Terraform = Callable[..., subprocess.CompletedProcess[str]]


def evaluator(
    module: Path, folder: Path, required: dict[str, Any], made: dict[str, Any]
) -> Terraform:
    """Runs Terraform on what of a module needs no provider, which cannot be had everywhere."""
    for name in ("variables.tf", "settings.tf"):
        shutil.copy(module / name, folder)
    (folder / "made.tf.json").write_text(json.dumps({"locals": {"settings": made}}))

    def run(*arguments: str, **given: Any) -> subprocess.CompletedProcess[str]:
        (folder / "given.auto.tfvars.json").write_text(json.dumps({**required, **given}))
        return started([TERRAFORM, *arguments], folder)

    assert run("init", "-input=false").returncode == 0
    return run


@pytest.fixture
def terraform(tmp_path: Path) -> Terraform:
    return evaluator(MODULE, tmp_path, GIVEN, MADE)


def started(command: list[str], folder: Path, **more: str) -> subprocess.CompletedProcess[str]:
    # Neither a user's configuration nor a call to anybody outside is part of a test.
    alone = {"TF_CLI_CONFIG_FILE": os.devnull, "CHECKPOINT_DISABLE": "1", "NO_COLOR": "1"}
    return subprocess.run(
        command,
        check=False,
        capture_output=True,
        text=True,
        cwd=folder,
        timeout=180,
        env={**os.environ, **alone, **more},
    )


@needs_terraform
def test_the_modules_are_formatted() -> None:
    done = started([TERRAFORM, "fmt", "-check", "-diff", "-recursive"], MODULE.parent)
    assert done.returncode == 0, done.stdout


@needs_terraform
def test_terraform_refuses_what_eventlake_would(terraform: Terraform) -> None:
    check_refused(terraform, REFUSED)


def check_refused(terraform: Terraform, cases: list[dict[str, Any]]) -> None:
    for given in cases:
        done = terraform("plan", "-input=false", "-no-color", **given)
        assert done.returncode == 1, given
        # The setting that is named is one that was given.
        assert any(f"var.{name}" in done.stderr for name in given), done.stderr
        assert "Invalid value for variable" in done.stderr, done.stderr


@needs_terraform
def test_terraform_accepts_what_eventlake_would(terraform: Terraform) -> None:
    for given in ACCEPTED:
        done = terraform("plan", "-input=false", "-no-color", **given)
        assert done.returncode == 0, done.stderr


@needs_terraform
@pytest.mark.parametrize("place", PLACES.values(), ids=PLACES)
def test_the_settings_are_a_file_that_eventlake_reads(
    place: dict[str, Any], terraform: Terraform, tmp_path: Path
) -> None:
    made = {**MADE, **place}
    (tmp_path / "made.tf.json").write_text(json.dumps({"locals": {"settings": made}}))
    assert terraform("apply", "-auto-approve", "-input=false").returncode == 0
    written = tomllib.loads(terraform("output", "-raw", "settings").stdout)
    assert written == {name: value for name, value in made.items() if value is not None}
    assert lake_settings(written).model_dump(include=set(written)) == written


# Azure

AZURE = {"storage_account": "examplelake", "resource_group": "lake", "location": "westeurope"}
AZURE_MADE = {
    "storage_account": "examplelake",
    "storage_container": "lake",
    "tenant_id": "10000000-1111-2222-3333-444444444444",
    "client_id": "20000000-1111-2222-3333-444444444444",
    "metastore_url": "jdbc:mysql://lake.mysql.database.azure.com:3306/hive",
    "metastore_user": "eventlake",
}
AZURE_REFUSED: list[dict[str, Any]] = [
    {"storage_account": "Example"},
    {"storage_container": "a--b"},
    {"location": "West Europe"},
    {"name": "2"},
    {"replication": "none"},
    {"deleted_days": 0},
    {"allowed_ips": ["0.0.0.0/0"]},
    {"allowed_subnets": ["default"]},
    {"create_service_principal": False},
    {"principal_id": "me", "create_service_principal": False},
    {"secret_days": 1},
]


@needs_terraform
def test_the_azure_module_refuses_and_accepts_what_eventlake_does(tmp_path: Path) -> None:
    terraform = evaluator(MODULE.parent / "azure", tmp_path, AZURE, AZURE_MADE)
    check_refused(terraform, AZURE_REFUSED)
    given = {"principal_id": AZURE_MADE["client_id"], "create_service_principal": False}
    done = terraform("plan", "-input=false", "-no-color", **given, allowed_ips=["203.0.113.1"])
    assert done.returncode == 0, done.stderr


@needs_terraform
@pytest.mark.parametrize("without", [(), ("client_id",), ("metastore_url", "metastore_user")])
def test_the_azure_settings_are_a_file_that_eventlake_reads(
    without: tuple[str, ...], tmp_path: Path
) -> None:
    made = {name: None if name in without else value for name, value in AZURE_MADE.items()}
    terraform = evaluator(MODULE.parent / "azure", tmp_path, AZURE, made)
    done = terraform("apply", "-auto-approve", "-input=false")
    assert done.returncode == 0, done.stderr
    written = tomllib.loads(terraform("output", "-raw", "settings").stdout)
    assert written == {name: value for name, value in made.items() if value is not None}
    assert lake_settings(written).model_dump(include=set(written)) == written
    conf = terraform("output", "-raw", "databricks_spark_conf").stdout.splitlines()
    assert any("javax.jdo.option.ConnectionURL jdbc:mysql://" in line for line in conf) == (
        "metastore_url" not in without
    )
    assert any(".dfs.core.windows.net 20000000-" in line for line in conf) == (
        "client_id" not in without
    )
    secrets = [line for line in conf if "assword" in line or "secret" in line]
    assert all("{{secrets/eventlake/eventlake-" in line for line in secrets)


@pytest.fixture(scope="module")
def checkov() -> Path:
    return download_checkov()


def download_checkov() -> Path:
    """Checkov in a folder of its own, since it pins a hundred packages."""
    name = f"checkov-{CHECKOV}-python{sys.version_info.major}.{sys.version_info.minor}"
    wanted = f"checkov=={CHECKOV}"
    return cached("Checkov", name, lambda new: pip_install(new, wanted))


def scan(checkov: Path, folder: Path) -> dict[str, Any]:
    """What Checkov finds; the proxy that is not there keeps it from asking anybody."""
    command = [sys.executable, "-m", "checkov.main", "--directory", str(folder)]
    quiet = ["--framework", "terraform", "--skip-download", "--output", "json", "--soft-fail"]
    nowhere = dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY"), "http://127.0.0.1:9")
    done = started([*command, *quiet], folder, PYTHONPATH=str(checkov), **nowhere)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)["results"]
    return found


@pytest.mark.parametrize(
    ("module", "resource"), [("aws", "aws_emr_cluster"), ("azure", "azurerm_key_vault")]
)
def test_checkov_finds_nothing(checkov: Path, module: str, resource: str) -> None:
    found = scan(checkov, MODULE.parent / module)
    assert not found["parsing_errors"]
    assert [(one["check_id"], one["resource"]) for one in found["failed_checks"]] == []
    # With the example all is switched on, so that clusters are looked at as well.
    seen = {one["resource"] for one in found["passed_checks"]}
    assert any(resource in one for one in seen)
    assert all(one["check_result"]["suppress_comment"] for one in found["skipped_checks"])


def test_checkov_would_find_an_open_policy(checkov: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(MODULE, tmp_path / "aws")
    text = (folder / "glue.tf").read_text()
    (folder / "glue.tf").write_text(text.replace('"glue:GetDatabases"', '"*"'))
    assert scan(checkov, folder)["failed_checks"]
