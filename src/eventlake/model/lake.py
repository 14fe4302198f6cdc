"""The settings of lakes, validated when they are created."""

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any

from pydantic import ConfigDict, Field, ValidationError, model_validator

from eventlake.errors import InvalidSettings
from eventlake.model.settings import explain_error
from eventlake.model.values import FrozenModel

REGION = r"^(us(-gov)?|af|ap|ca|cn|il|me|mx|eu|sa)-(central|(north|south)?(east|west)?)-\d$"
BUCKET = r"^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$"
ACCOUNT = r"^\d{12}$"
ROLE = r"^arn:aws[a-z-]*:iam::\d{12}:role/[\w+=,.@/-]+$"
CLUSTER = r"^j-[A-Za-z0-9]+$"
APPLICATION = r"^[0-9a-z]+$"
PYTHON = r"^[\w./+-]+$"
ROLE_NAME = r"^(arn:aws[a-z-]*:iam::\d{12}:role/)?[\w+=,.@/-]+$"
PROFILE_NAME = r"^(arn:aws[a-z-]*:iam::\d{12}:instance-profile/)?[\w+=,.@/-]+$"
SUBNET = r"^subnet-[0-9a-f]+$"
CONFIGURATION = r"^[\w .+-]+$"
RELEASE = r"^emr-(7\.[1-9]\d*|spark-([89]|\d{2})\.\d+)\.\d+$"
"""EMR 7.1 and later: 7.0 has no Python that EventLake runs on."""
INSTANCE = r"^[a-z0-9-]+\.[a-z0-9-]+$"
WORKSPACE = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,126}$"
STORAGE_ACCOUNT = r"^[a-z0-9]{3,24}$"
CONTAINER = r"^[a-z0-9]+(-[a-z0-9]+)*$"
GUID = r"^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$"


class LocalSettings(FrozenModel):
    """A lake on disk."""

    path: Annotated[str, Field(min_length=1, description="The lake's root folder")]


class AwsCatalog(StrEnum):
    """Where tables are registered."""

    GLUE = "glue"
    FILES = "files"


class Encryption(StrEnum):
    """Server-side encryption of objects that are written."""

    BUCKET = ""
    SSE_S3 = "SSE-S3"
    SSE_KMS = "SSE-KMS"


class AwsSettings(FrozenModel):
    """A lake in an S3 bucket, with tables in Glue and runs in this process or on EMR."""

    s3_bucket: Annotated[str, Field(pattern=BUCKET, description="The lake's bucket")]
    aws_region: Annotated[str, Field(pattern=REGION, description="The bucket's region")]
    iam_role_arn: Annotated[
        str, Field(description="The role to assume; without it, the caller's credentials are used")
    ] = ""
    workspace_id: Annotated[
        str, Field(description="The workspace's id, and the external id for assuming the role")
    ] = ""
    glue_catalog_id: Annotated[
        str, Field(description="The account of the Glue catalog; by default the caller's")
    ] = ""
    emr_cluster_id: Annotated[
        str, Field(description="The EMR cluster for runs; without it they are on this machine")
    ] = ""
    emr_python: Annotated[
        str,
        Field(
            description="The cluster's Python; by default `python3.x` of the version that submits"
        ),
    ] = ""
    emr_serverless_application_id: Annotated[
        str, Field(description="The EMR Serverless application for runs, instead of a cluster")
    ] = ""
    emr_serverless_role_arn: Annotated[
        str, Field(description="The execution role of runs on EMR Serverless")
    ] = ""
    emr_service_role: Annotated[
        str, Field(description="The service role of temporary clusters")
    ] = ""
    emr_instance_profile: Annotated[
        str, Field(description="The instance profile of temporary clusters")
    ] = ""
    emr_subnet_id: Annotated[str, Field(description="The subnet of temporary clusters")] = ""
    emr_security_configuration: Annotated[
        str,
        Field(
            description="The security configuration of temporary clusters, for example to require "
            "IMDSv2"
        ),
    ] = ""
    emr_release_label: Annotated[
        str,
        Field(
            pattern=RELEASE,
            description="The EMR release of temporary clusters: emr-7.1.0 or later",
        ),
    ] = "emr-spark-8.1.0"
    emr_instance_type: Annotated[
        str,
        Field(pattern=INSTANCE, description="The instance type of temporary clusters"),
    ] = "m7i.xlarge"
    emr_max_instances: Annotated[
        int,
        Field(ge=1, le=1000, description="The maximum number of instances of a temporary cluster"),
    ] = 8
    catalog: Annotated[
        AwsCatalog,
        Field(description="Where tables are registered: Glue, or files in the bucket"),
    ] = AwsCatalog.GLUE
    partition_projection: Annotated[
        bool, Field(description="Use Athena partition projection instead of registering partitions")
    ] = False
    encryption: Annotated[
        Encryption, Field(description="SSE-S3 or SSE-KMS; by default the bucket's setting")
    ] = Encryption.BUCKET
    kms_key_id: Annotated[
        str, Field(description="The key for SSE-KMS; by default the AWS managed key")
    ] = ""
    s3_endpoint: Annotated[
        str,
        Field(pattern=r"^$|^https?://[^/\s]+$", description="The URL of an S3-compatible store"),
    ] = ""
    s3_path_style: Annotated[
        bool | None,
        Field(
            description="Whether URLs have the bucket in the path; by default only with an endpoint"
        ),
    ] = None
    profile: Annotated[str, Field(description="A profile of the AWS configuration files")] = ""
    credentials_file: Annotated[
        str, Field(description="A file of AWS credentials, relative to the settings")
    ] = ""

    @model_validator(mode="after")
    def _check_rules(self) -> "AwsSettings":
        _check_patterns(self, _OPTIONAL_PATTERNS)
        if self.kms_key_id and self.encryption is not Encryption.SSE_KMS:
            raise ValueError(f"kms_key_id is {self.kms_key_id!r}: set encryption = 'SSE-KMS' too")
        self._check_where_runs_are()
        return self

    def _check_where_runs_are(self) -> None:
        application = self.emr_serverless_application_id
        if application and self.emr_cluster_id:
            raise ValueError(
                f"emr_serverless_application_id is {application!r} and emr_cluster_id is "
                f"{self.emr_cluster_id!r}: set one of the two"
            )
        if bool(application) != bool(self.emr_serverless_role_arn):
            raise ValueError(
                "emr_serverless_application_id and emr_serverless_role_arn: set both or neither"
            )


_OPTIONAL_PATTERNS = {
    "iam_role_arn": ROLE,
    "workspace_id": WORKSPACE,
    "glue_catalog_id": ACCOUNT,
    "emr_cluster_id": CLUSTER,
    "emr_python": PYTHON,
    "emr_serverless_application_id": APPLICATION,
    "emr_serverless_role_arn": ROLE,
    "emr_service_role": ROLE_NAME,
    "emr_instance_profile": PROFILE_NAME,
    "emr_subnet_id": SUBNET,
    "emr_security_configuration": CONFIGURATION,
}


def _check_patterns(settings: FrozenModel, patterns: Mapping[str, str]) -> None:
    """Raise ValueError if a setting is not empty and does not match its pattern."""
    for name, pattern in patterns.items():
        value = getattr(settings, name)
        if value and not re.fullmatch(pattern, value):
            raise ValueError(f"{name} is {value!r}: it should match {pattern}")


class AzureLogin(StrEnum):
    """How to sign in to Azure."""

    AUTO = ""
    PRINCIPAL = "principal"
    KEY = "key"
    IDENTITY = "identity"
    CLI = "cli"


class AzureSettings(FrozenModel):
    """A container in ADLS for the collector's archive; tables are not supported there yet."""

    # Validation errors are chained to ours and must not show secrets.
    model_config = ConfigDict(hide_input_in_errors=True)

    storage_account: Annotated[
        str, Field(pattern=STORAGE_ACCOUNT, description="The storage account")
    ]
    storage_container: Annotated[
        str,
        Field(
            pattern=CONTAINER, min_length=3, max_length=63, description="The lake's own container"
        ),
    ]
    tenant_id: Annotated[
        str, Field(description="The service principal's tenant; by default `AZURE_TENANT_ID`")
    ] = ""
    client_id: Annotated[
        str,
        Field(
            description="The id of the service principal, or of the managed identity if the "
            "machine has several; by default `AZURE_CLIENT_ID`"
        ),
    ] = ""
    login: Annotated[
        AzureLogin,
        Field(
            description="Sign in with a service principal, an account key, the identity of the "
            "machine or pod, or the Azure CLI; by default the first of these, without the CLI, "
            "whose credentials are set"
        ),
    ] = AzureLogin.AUTO
    credentials_file: Annotated[
        str,
        Field(
            description="A TOML file with `client_secret` or `account_key`, relative to the "
            "settings; by default `AZURE_CLIENT_SECRET` and `AZURE_STORAGE_ACCOUNT_KEY`"
        ),
    ] = ""
    endpoint: Annotated[
        str,
        Field(
            pattern=r"^$|^https?://[^/\s]+(/[a-z0-9]+)?$",
            description="The URL of an emulator of the blob service, with or without the account",
        ),
    ] = ""

    @model_validator(mode="before")
    @classmethod
    def _refuse_secrets(cls, values: Any) -> Any:
        secrets = [name for name in AZURE_SECRETS if name in values]
        if secrets:
            raise ValueError(
                f"{secrets[0]} is not a setting: put it into {AZURE_SECRETS[secrets[0]]}, or into "
                "the file that credentials_file names"
            )
        return values

    @model_validator(mode="after")
    def _check_ids(self) -> "AzureSettings":
        _check_patterns(self, {"tenant_id": GUID, "client_id": GUID})
        return self


AZURE_SECRETS: Mapping[str, str] = {
    "client_secret": "AZURE_CLIENT_SECRET",
    "account_key": "AZURE_STORAGE_ACCOUNT_KEY",
}
"""Secrets, and the environment variable each is read from."""

LakeSettings = LocalSettings | AwsSettings | AzureSettings

KINDS: Mapping[str, tuple[type[LakeSettings], str]] = {
    "local": (LocalSettings, "path"),
    "aws": (AwsSettings, "s3_bucket"),
    "azure": (AzureSettings, "storage_account"),
}
"""The kinds of lake by name: settings class, and the setting that only this kind has."""


def lake_settings(values: Mapping[str, Any]) -> LakeSettings:
    """Validate a lake's settings; raises InvalidSettings with each wrong one and what is allowed.

    Segment's names, such as `s3Bucket`, are accepted too.
    """
    named = {_snake_case(name): value for name, value in values.items()}
    kind = named.pop("lake", None) or next(
        (name for name, (_, setting) in KINDS.items() if setting in named), ""
    )
    if kind not in KINDS:
        choices = ", ".join(f"{setting} ({name})" for name, (_, setting) in KINDS.items())
        raise InvalidSettings(
            f"lake is {kind!r}: choose one of {', '.join(KINDS)}"
            if kind
            else f"the kind of lake is not clear: set one of {choices}"
        )
    try:
        return KINDS[kind][0].model_validate(named)
    except ValidationError as problem:
        raise InvalidSettings("; ".join(map(explain_error, problem.errors()))) from problem


def _snake_case(name: str) -> str:
    """`glueCatalogId` → `glue_catalog_id`"""
    return re.sub(r"(?<=[a-z0-9])([A-Z])", r"_\1", name).lower()
