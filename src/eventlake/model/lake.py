"""What a user may set for a lake, checked when it is entered."""

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any

from pydantic import ConfigDict, Field, ValidationError, model_validator

from eventlake.errors import InvalidSettings
from eventlake.model.settings import explain
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
RELEASE = r"^emr-spark-([89]|\d{2})\.\d+\.\d+$"
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
    """How the bucket is asked to encrypt what is written."""

    BUCKET = ""
    SSE_S3 = "SSE-S3"
    SSE_KMS = "SSE-KMS"


class AwsSettings(FrozenModel):
    """A lake in an S3 bucket, with its tables in Glue and its runs here or on EMR."""

    s3_bucket: Annotated[str, Field(pattern=BUCKET, description="The lake's bucket")]
    aws_region: Annotated[str, Field(pattern=REGION, description="The bucket's region")]
    iam_role_arn: Annotated[
        str, Field(description="A role to assume; else the caller's own credentials count")
    ] = ""
    workspace_id: Annotated[
        str, Field(description="The workspace's id, and the external id that the role asks for")
    ] = ""
    glue_catalog_id: Annotated[
        str, Field(description="The account of the Glue catalog; the caller's own when not given")
    ] = ""
    emr_cluster_id: Annotated[
        str, Field(description="The EMR cluster that runs work on; without it they run here")
    ] = ""
    emr_python: Annotated[
        str, Field(description="The cluster's Python; else by the version EventLake is packed for")
    ] = ""
    emr_serverless_application_id: Annotated[
        str, Field(description="The EMR Serverless application that runs work on instead")
    ] = ""
    emr_serverless_role_arn: Annotated[
        str, Field(description="The role of runs on EMR Serverless")
    ] = ""
    emr_service_role: Annotated[
        str, Field(description="The service role of temporary clusters")
    ] = ""
    emr_instance_profile: Annotated[
        str, Field(description="The instance profile of temporary clusters")
    ] = ""
    emr_subnet_id: Annotated[str, Field(description="The subnet of temporary clusters")] = ""
    emr_security_configuration: Annotated[
        str, Field(description="The security configuration of temporary clusters: asks for IMDSv2")
    ] = ""
    emr_release_label: Annotated[
        str,
        Field(pattern=RELEASE, description="The EMR release of temporary clusters, with Spark 4"),
    ] = "emr-spark-8.1.0"
    emr_instance_type: Annotated[
        str,
        Field(pattern=INSTANCE, description="The instance type of temporary clusters"),
    ] = "m7i.xlarge"
    emr_max_instances: Annotated[
        int, Field(ge=1, le=1000, description="How far a temporary cluster may grow")
    ] = 8
    catalog: Annotated[
        AwsCatalog,
        Field(description="Where tables are registered: Glue, or files in the bucket"),
    ] = AwsCatalog.GLUE
    partition_projection: Annotated[
        bool, Field(description="Have engines reckon the partitions instead of registering them")
    ] = False
    encryption: Annotated[
        Encryption, Field(description="SSE-S3 or SSE-KMS; else what the bucket does by itself")
    ] = Encryption.BUCKET
    kms_key_id: Annotated[str, Field(description="The key for SSE-KMS; else AWS's own")] = ""
    s3_endpoint: Annotated[
        str,
        Field(pattern=r"^$|^https?://[^/\s]+$", description="Of a store that speaks as S3 does"),
    ] = ""
    s3_path_style: Annotated[
        bool | None,
        Field(description="Whether the bucket is named in the path; yes when there is an endpoint"),
    ] = None
    profile: Annotated[str, Field(description="A profile of the AWS configuration")] = ""
    credentials_file: Annotated[
        str, Field(description="A file of AWS credentials, relative to the settings")
    ] = ""

    @model_validator(mode="after")
    def _optional(self) -> "AwsSettings":
        _check_given(self, _OPTIONAL)
        if self.kms_key_id and self.encryption is not Encryption.SSE_KMS:
            raise ValueError(
                f"kms_key_id is {self.kms_key_id!r}: it takes encryption = 'SSE-KMS' beside it"
            )
        self._one_place()
        return self

    def _one_place(self) -> None:
        """Runs are here, on a cluster, or on an application."""
        application = self.emr_serverless_application_id
        if application and self.emr_cluster_id:
            raise ValueError(
                f"emr_serverless_application_id is {application!r} and emr_cluster_id is "
                f"{self.emr_cluster_id!r}: runs are on one of the two"
            )
        if bool(application) != bool(self.emr_serverless_role_arn):
            raise ValueError(
                "emr_serverless_application_id and emr_serverless_role_arn take each other"
            )


_OPTIONAL = {
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


def _check_given(settings: FrozenModel, patterns: Mapping[str, str]) -> None:
    """What may be left out, and is right when it is not."""
    for name, pattern in patterns.items():
        value = getattr(settings, name)
        if value and not re.fullmatch(pattern, value):
            raise ValueError(f"{name} is {value!r}: it should match {pattern}")


class AzureLogin(StrEnum):
    """Who EventLake is for Azure."""

    FOUND = ""
    PRINCIPAL = "principal"
    KEY = "key"
    IDENTITY = "identity"
    CLI = "cli"


class AzureSettings(FrozenModel):
    """A container in ADLS that the collector archives into; tables are not landed there yet."""

    # The cause of a complaint is kept, and a secret in it would be too.
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
        str, Field(description="The service principal's tenant; else `AZURE_TENANT_ID`")
    ] = ""
    client_id: Annotated[
        str,
        Field(
            description="The service principal's id, or that of a managed identity where the "
            "machine has several; else `AZURE_CLIENT_ID`"
        ),
    ] = ""
    login: Annotated[
        AzureLogin,
        Field(
            description="A service principal, an account key, the machine's or the pod's own "
            "identity, the Azure CLI; else the first of these that has what it takes, but the CLI"
        ),
    ] = AzureLogin.FOUND
    credentials_file: Annotated[
        str,
        Field(
            description="A TOML file with `client_secret` or `account_key`, relative to the "
            "settings; else `AZURE_CLIENT_SECRET` and `AZURE_STORAGE_ACCOUNT_KEY`"
        ),
    ] = ""
    endpoint: Annotated[
        str,
        Field(
            pattern=r"^$|^https?://[^/\s]+(/[a-z0-9]+)?$",
            description="Of an emulator of the blob service, without the account or with it",
        ),
    ] = ""

    @model_validator(mode="before")
    @classmethod
    def _without_secrets(cls, given: Any) -> Any:
        told = [name for name in AZURE_SECRETS if name in given]
        if told:
            raise ValueError(
                f"{told[0]} is no setting: put it into {AZURE_SECRETS[told[0]]}, or into the file "
                "that credentials_file names"
            )
        return given

    @model_validator(mode="after")
    def _ids(self) -> "AzureSettings":
        _check_given(self, {"tenant_id": GUID, "client_id": GUID})
        return self


AZURE_SECRETS: Mapping[str, str] = {
    "client_secret": "AZURE_CLIENT_SECRET",
    "account_key": "AZURE_STORAGE_ACCOUNT_KEY",
}
"""What no settings hold, and the variable of the environment that does."""

LakeSettings = LocalSettings | AwsSettings | AzureSettings

KINDS: Mapping[str, tuple[type[LakeSettings], str]] = {
    "local": (LocalSettings, "path"),
    "aws": (AwsSettings, "s3_bucket"),
    "azure": (AzureSettings, "storage_account"),
}
"""Each kind of lake by its name: its settings, and the one that tells it from the others."""


def lake_settings(given: Mapping[str, Any]) -> LakeSettings:
    """Settings of a lake from what a user gave; a wrong one is named, with what is allowed.

    Segment's own names, such as `s3Bucket`, count too.
    """
    named = {_snake(name): value for name, value in given.items()}
    kind = named.pop("lake", None) or next(
        (name for name, (_, tells) in KINDS.items() if tells in named), ""
    )
    if kind not in KINDS:
        tells = ", ".join(f"{setting} ({name})" for name, (_, setting) in KINDS.items())
        raise InvalidSettings(
            f"lake is {kind!r}: choose one of {', '.join(KINDS)}"
            if kind
            else f"the lake's settings do not tell its kind: one of {tells} must be there"
        )
    try:
        return KINDS[kind][0].model_validate(named)
    except ValidationError as problem:
        raise InvalidSettings("; ".join(map(explain, problem.errors()))) from problem


def _snake(name: str) -> str:
    """`glueCatalogId` → `glue_catalog_id`; `region` and `bucket` are what Segment's pages say."""
    return re.sub(r"(?<=[a-z0-9])([A-Z])", r"_\1", name).lower()
