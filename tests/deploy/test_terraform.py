"""What the Terraform module declares: EventLake's settings, and no permission beyond its needs."""

import json
import re
from collections import defaultdict
from typing import Any

import boto3
import pytest
from botocore import xform_name

from eventlake.lakes import aws_settings as lake
from eventlake.model.layout import DEFAULT_LAYOUT, LOGS
from tests.deploy.module import MODULE, ROOT, Statement, declared, resources, statements

RULES = {
    "aws_region": lake.REGION,
    "s3_bucket": lake.BUCKET,
    "glue_catalog_id": lake.ACCOUNT,
    "iam_role_arn": lake.ROLE,
    "emr_cluster_id": lake.CLUSTER,
    "workspace_id": lake.WORKSPACE,
    "emr_subnet_id": lake.SUBNET,
    "emr_release_label": lake.RELEASE,
    "emr_instance_type": lake.INSTANCE,
}
ALWAYS = {
    *("aws_region", "s3_bucket", "glue_catalog_id"),
    *("iam_role_arn", "workspace_id", "emr_cluster_id"),
}
"""The settings that are outputs, too; the others are there when a way to run is switched on."""

STEPS = {
    "elasticmapreduce:AddJobFlowSteps",
    "elasticmapreduce:CancelSteps",
    "elasticmapreduce:DescribeCluster",
    "elasticmapreduce:DescribeStep",
    "elasticmapreduce:ListSteps",
}
GRANTED = {
    "objects": {
        "s3:AbortMultipartUpload",
        "s3:DeleteObject",
        "s3:GetBucketLocation",
        "s3:GetObject",
        "s3:ListBucket",
        "s3:ListMultipartUploadParts",
        "s3:PutObject",
    },
    "key": {"kms:Decrypt", "kms:GenerateDataKey"},
    "glue": {
        "glue:BatchCreatePartition",
        "glue:BatchDeletePartition",
        "glue:BatchGetPartition",
        "glue:BatchUpdatePartition",
        "glue:CreateDatabase",
        "glue:CreateTable",
        "glue:DeleteTable",
        "glue:GetDatabase",
        "glue:GetDatabases",
        "glue:GetPartition",
        "glue:GetPartitions",
        "glue:GetTable",
        "glue:GetTables",
        "glue:UpdateDatabase",
        "glue:UpdatePartition",
        "glue:UpdateTable",
    },
    "steps": STEPS,
    "temporary_clusters": {
        *STEPS,
        "elasticmapreduce:AddTags",
        "elasticmapreduce:PutAutoTerminationPolicy",
        "elasticmapreduce:RunJobFlow",
        "elasticmapreduce:TerminateJobFlows",
        "iam:CreateServiceLinkedRole",
        "iam:PassRole",
    },
    "serverless": {
        "emr-serverless:CancelJobRun",
        "emr-serverless:GetJobRun",
        "emr-serverless:StartJobRun",
        "iam:PassRole",
    },
    "assume": {"sts:AssumeRole"},
    "emr_service": {"iam:PassRole"},
    "volumes": {"kms:CreateGrant"},
    "disks": {
        "kms:Decrypt",
        "kms:DescribeKey",
        "kms:Encrypt",
        "kms:GenerateDataKey",
        "kms:GenerateDataKeyWithoutPlaintext",
        "kms:ReEncryptFrom",
        "kms:ReEncryptTo",
    },
}
"""What each policy allows, and not a thing more."""

# Which policies a role has, beside AWS's own for EMR.
HELD = {
    "eventlake": {"lake", "steps", "temporary_clusters", "serverless"},
    "emr_service": {"emr_service"},
    "emr_instance": {"lake", "emr_instance"},
    "emr_serverless": {"lake", "assume"},
}
MADE_OF = {
    "lake": {"objects", "glue", "key"},
    "emr_service": {"disks", "volumes"},
    "emr_instance": {"assume", "disks"},
}

OWNERS = {"local.role_name": "eventlake"}
"""A role may be named by a local, since EventLake's own may be the user's."""


@pytest.fixture(scope="module")
def allowed() -> list[Statement]:
    return [one for one in statements() if one.effect == "Allow"]


def patterns(variable: dict[str, Any]) -> list[str]:
    """The regular expressions of a variable's validations, as they are meant."""
    said = " ".join(rule["condition"] for rule in variable["validation"])
    quoted = re.findall(r'regex\("((?:[^"\\]|\\.)*)"', said)
    return [one.replace(r"\\", "\\") for one in quoted]


@pytest.mark.parametrize(("setting", "pattern"), RULES.items())
def test_a_setting_has_the_rule_of_the_product(setting: str, pattern: str) -> None:
    assert patterns(declared("variable")[setting]) == [pattern]


def test_the_settings_are_those_of_a_lake_on_aws() -> None:
    outputs, settings = declared("output"), declared("locals")["settings"].keys()
    assert "in local.settings :" in outputs["settings"]["value"]
    assert ALWAYS <= settings <= lake.AwsSettings.model_fields.keys()
    for name in ALWAYS:
        assert outputs[name]["value"] == f"${{local.settings.{name}}}"


def test_every_variable_and_output_is_described_and_in_the_readme() -> None:
    page = (MODULE / "README.md").read_text()
    for kind in ("variable", "output"):
        for name, body in declared(kind).items():
            assert body["description"].endswith("."), name
            assert f"`{name}`" in page, name
    assert all("type" in body for body in declared("variable").values())


def test_what_the_readme_says_of_defaults_is_true() -> None:
    page = (MODULE / "README.md").read_text()
    told = dict(re.findall(r"^\| `(\w+)` \| ([^|]+) \|", page, re.MULTILINE))
    assert told.keys() == declared("variable").keys()
    for name, body in declared("variable").items():
        if isinstance(default := body.get("default"), str | int):
            assert told[name] == f"`{json.dumps(default)}`".replace('"', ""), name


def test_each_policy_allows_what_is_needed_and_no_more(allowed: list[Statement]) -> None:
    found: dict[str, set[str]] = defaultdict(set)
    for one in allowed:
        if not one.principals:
            found[one.policy] |= set(one.actions)
    assert found == GRANTED


def test_no_statement_is_hidden_from_these_tests() -> None:
    """Policies are documents, their statements are written out, and none is said as JSON."""
    for body in resources("aws_iam_policy_document", family="data").values():
        assert body.keys() <= {"count", "source_policy_documents", "statement"}
    written = [
        *resources("aws_iam_policy").values(),
        *resources("aws_iam_role_policy").values(),
        *resources("aws_s3_bucket_policy").values(),
    ]
    document = r"\$\{data\.aws_iam_policy_document\.\w+(\[0\])?\.json\}"
    assert all(re.fullmatch(document, body["policy"]) for body in written)
    for body in resources("aws_iam_role").values():
        assert not body.keys() & {"inline_policy", "managed_policy_arns"}


def test_each_role_holds_its_policies_and_no_others() -> None:
    held: dict[str, set[str]] = defaultdict(set)
    for body in resources("aws_iam_role_policy").values():
        held[owner(body["role"])].add(body["policy"].split(".")[2].removesuffix("[0]"))
    for body in resources("aws_iam_role_policy_attachment").values():
        held[owner(body["role"])].add(body["policy_arn"])
    held["emr_service"].remove(
        "arn:${local.partition}:iam::aws:policy/service-role/AmazonEMRServicePolicy_v2"
    )
    for role, policies in HELD.items():
        given = {name.replace("${aws_iam_policy.lake.arn}", "lake") for name in held.pop(role)}
        assert given == policies, role
    assert not held
    documents = resources("aws_iam_policy_document", family="data")
    for name, body in documents.items():
        parts = re.findall(r"document\.(\w+)", str(body.get("source_policy_documents")))
        assert set(parts) == MADE_OF.get(name, set()), name


def owner(role: str) -> str:
    """Whose policy it is: `aws_iam_role.emr_service[0].id` is the service's."""
    said = role.removeprefix("${").removesuffix("}")
    return OWNERS.get(said) or said.split(".")[1].removesuffix("[0]")


def test_no_action_and_no_resource_is_left_open(allowed: list[Statement]) -> None:
    for one in allowed:
        assert not [action for action in one.actions if "*" in action], one
        assert not [who for who in one.principals.values() if "*" in who], one
        if any(set(resource) <= set("*:") for resource in one.resources):
            assert one.conditions, one


def test_s3_is_open_below_the_four_prefixes_only(allowed: list[Statement]) -> None:
    names = declared("locals")
    prefixes = (LOGS, DEFAULT_LAYOUT.stage, *DEFAULT_LAYOUT.roots, "logs")
    assert names["own"] == [f"{one}/" for one in prefixes]
    adopted = '[for folder in var.data_folders : "${folder}/"]'
    assert names["prefixes"] == f"${{concat(local.own, {adopted})}}"
    assert names["objects"] == (
        '${[for prefix in local.prefixes : "${local.bucket_arn}/${prefix}*"]}'
    )
    listing = ("StringLike", ('${[for prefix in local.prefixes : "${prefix}*"]}',))
    for one in allowed:
        if "s3" not in one.services:
            continue
        if one.resources == ("${local.bucket_arn}",):
            assert one.actions == ("s3:GetBucketLocation",) or (
                one.actions == ("s3:ListBucket",) and one.conditions == {"s3:prefix": listing}
            )
        else:
            assert one.resources == ("${local.objects}",)


def test_glue_is_open_for_the_databases_that_were_named(allowed: list[Statement]) -> None:
    _, tables = [one for one in allowed if one.policy == "glue"]
    assert declared("locals")["databases"] == (
        '${concat(var.glue_databases, ["__segment_datalake"])}'
    )
    assert set(re.findall(r':([a-z]+)(?:/\$\{name\})?(?:/\*)?"', tables.resources[0])) == {
        "catalog",
        "database",
        "table",
    }


def test_the_role_is_assumed_with_the_external_id_only(allowed: list[Statement]) -> None:
    trusts = [one for one in allowed if "AWS" in one.principals]
    assert [one.policy for one in trusts] == ["eventlake_trust"]
    assert trusts[0].conditions == {"sts:ExternalId": ("StringEquals", ("${var.workspace_id}",))}
    instances, runs = "aws_iam_role.emr_instance[*].arn", "aws_iam_role.emr_serverless[*].arn"
    assert trusts[0].principals == {"AWS": (f"${{concat(var.trusted_arns, {instances}, {runs})}}",)}
    trusted = resources("aws_iam_role")["eventlake"]["assume_role_policy"]
    assert trusted == "${data.aws_iam_policy_document.eventlake_trust[0].json}"


def test_a_service_assumes_its_role_for_this_account_only(allowed: list[Statement]) -> None:
    for one in allowed:
        # An instance gets its role through its profile, about which no condition can be made.
        if "Service" in one.principals and one.policy != "emr_instance_trust":
            assert one.conditions["aws:SourceAccount"] == ("StringEquals", ("${local.account}",))
            assert "${local.account}" in one.conditions["aws:SourceArn"][1][0] or (
                one.conditions["aws:SourceArn"][1] == ("${local.emr_arn}:*",)
            )


def test_a_role_is_passed_by_name_to_its_service(allowed: list[Statement]) -> None:
    receivers = {
        "${aws_iam_role.emr_service[0].arn}": "${local.emr_service}",
        "${aws_iam_role.emr_instance[0].arn}": "ec2.${local.domain}",
        "${aws_iam_role.emr_serverless[0].arn}": "emr-serverless.amazonaws.com",
    }
    passing = [one for one in allowed if "iam:PassRole" in one.actions]
    assert passing
    for one in passing:
        assert one.actions == ("iam:PassRole",)
        (role,) = one.resources
        assert one.conditions == {"iam:PassedToService": ("StringEquals", (receivers[role],))}


def test_clusters_are_made_and_ended_by_their_tag(allowed: list[Statement]) -> None:
    tagged = ("StringEquals", ("${var.workspace_id}",))
    keys = {
        "AddTags": "RequestTag",
        "PutAutoTerminationPolicy": "RequestTag",
        "RunJobFlow": "RequestTag",
        "TerminateJobFlows": "ResourceTag",
    }
    for action, key in keys.items():
        (one,) = [one for one in allowed if f"elasticmapreduce:{action}" in one.actions]
        assert one.conditions[f"elasticmapreduce:{key}/${{local.emr_tag}}"] == tagged
    assert "(local.emr_tag) = var.workspace_id" in declared("locals")["cluster_tags"]


def test_only_the_stage_expires_after_14_days() -> None:
    rules = resources("aws_s3_bucket_lifecycle_configuration")["lake"]["rule"]
    assert all(rule["status"] == "Enabled" for rule in rules)
    expiring = [
        (rule["filter"], limit["days"])
        for rule in rules
        for limit in rule.get("expiration", [])
        if limit.keys() != {"expired_object_delete_marker"}
    ]
    assert expiring == [([{"prefix": f"{DEFAULT_LAYOUT.stage}/"}], 14)]
    assert not any("transition" in rule for rule in rules)
    (aborted,) = [rule for rule in rules if "abort_incomplete_multipart_upload" in rule]
    assert aborted["filter"] == [{}]
    assert 1 <= aborted["abort_incomplete_multipart_upload"][0]["days_after_initiation"] <= 7


def test_the_bucket_is_private_encrypted_and_spoken_to_over_tls() -> None:
    block = resources("aws_s3_bucket_public_access_block")["lake"]
    assert [value for name, value in block.items() if "public" in name] == [True] * 4
    (owned,) = resources("aws_s3_bucket_ownership_controls")["lake"]["rule"]
    assert owned == {"object_ownership": "BucketOwnerEnforced"}
    (rule,) = resources("aws_s3_bucket_server_side_encryption_configuration")["lake"]["rule"]
    (default,) = rule["apply_server_side_encryption_by_default"]
    assert default["sse_algorithm"] == '${var.kms_key_arn == null ? "AES256" : "aws:kms"}'
    (denied,) = [one for one in statements() if one.effect == "Deny"]
    assert denied.conditions == {"aws:SecureTransport": ("Bool", ("false",))}
    assert denied.resources == ("${local.bucket_arn}", "${local.bucket_arn}/*")


def test_the_cluster_scales_logs_and_asks_for_imdsv2() -> None:
    cluster = resources("aws_emr_cluster")["lake"]
    assert cluster["log_uri"] == "s3://${var.s3_bucket}/logs/"
    assert cluster["security_configuration"] == "${aws_emr_security_configuration.lake[0].name}"
    (limits,) = resources("aws_emr_managed_scaling_policy")["lake"]["compute_limits"]
    assert limits["maximum_capacity_units"] == "${var.emr_instances.maximum}"
    secured = resources("aws_emr_security_configuration")["lake"]["configuration"]
    assert "MinimumInstanceMetadataServiceVersion = 2," in secured
    assert "EnableAtRestEncryption = true" in secured


SERVICES = {"glue": "glue", "emr": "elasticmapreduce", "emr-serverless": "emr-serverless"}


@pytest.mark.parametrize(("service", "prefix"), SERVICES.items())
def test_the_role_may_do_what_the_code_asks_for(
    service: str, prefix: str, allowed: list[Statement]
) -> None:
    client = boto3.client(service, region_name="eu-west-1")
    names = client.meta.service_model.operation_names
    operations = {form: name for name in names for form in (name, xform_name(name))}
    granted = {action for one in allowed for action in one.actions}
    for file in (ROOT / "src/eventlake").rglob("*.py"):
        code = file.read_text()
        if f'client("{service}")' in code:
            asked = {operations[word] for word in re.findall(r"\w+", code) if word in operations}
            assert {f"{prefix}:{name}" for name in asked} <= granted, file
