"""The settings of lakes on AWS."""

import os
from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import Field, model_validator

from eventlake.errors import InvalidSettings
from eventlake.model.lake import LakeSettings, Place

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


class AwsCatalog(StrEnum):
    """Where tables are registered."""

    GLUE = "glue"
    FILES = "files"


class Encryption(StrEnum):
    """Server-side encryption of objects that are written."""

    BUCKET = ""
    SSE_S3 = "SSE-S3"
    SSE_KMS = "SSE-KMS"


class AwsSettings(LakeSettings):
    """A lake in an S3 bucket, with tables in Glue and runs in this process or on EMR."""

    kind = "aws"
    chosen_by = "s3_bucket"
    address = "s3://bucket"
    makes_clusters = True

    s3_bucket: Annotated[str, Field(pattern=BUCKET, description="The lake's bucket")]
    aws_region: Annotated[str, Field(pattern=REGION, description="The bucket's region")]
    iam_role_arn: Annotated[
        str,
        Field(
            pattern=f"^$|{ROLE}",
            description="The role to assume; without it, the caller's credentials are used",
        ),
    ] = ""
    workspace_id: Annotated[
        str,
        Field(
            pattern=f"^$|{WORKSPACE}",
            description="The workspace's id, and the external id for assuming the role",
        ),
    ] = ""
    glue_catalog_id: Annotated[
        str,
        Field(
            pattern=f"^$|{ACCOUNT}",
            description="The account of the Glue catalog; by default the caller's",
        ),
    ] = ""
    emr_cluster_id: Annotated[
        str,
        Field(
            pattern=f"^$|{CLUSTER}",
            description="The EMR cluster for runs; without it they are on this machine",
        ),
    ] = ""
    emr_python: Annotated[
        str,
        Field(
            pattern=f"^$|{PYTHON}",
            description="The cluster's Python; by default `python3.x` of the version that submits",
        ),
    ] = ""
    emr_serverless_application_id: Annotated[
        str,
        Field(
            pattern=f"^$|{APPLICATION}",
            description="The EMR Serverless application for runs, instead of a cluster",
        ),
    ] = ""
    emr_serverless_role_arn: Annotated[
        str, Field(pattern=f"^$|{ROLE}", description="The execution role of runs on EMR Serverless")
    ] = ""
    emr_service_role: Annotated[
        str, Field(pattern=f"^$|{ROLE_NAME}", description="The service role of temporary clusters")
    ] = ""
    emr_instance_profile: Annotated[
        str,
        Field(
            pattern=f"^$|{PROFILE_NAME}", description="The instance profile of temporary clusters"
        ),
    ] = ""
    emr_subnet_id: Annotated[
        str, Field(pattern=f"^$|{SUBNET}", description="The subnet of temporary clusters")
    ] = ""
    emr_security_configuration: Annotated[
        str,
        Field(
            pattern=f"^$|{CONFIGURATION}",
            description="The security configuration of temporary clusters, for example to require "
            "IMDSv2",
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

    @property
    def has_cluster(self) -> bool:
        return bool(self.emr_cluster_id or self.emr_serverless_application_id)

    @property
    def place(self) -> Place:
        return Place(f"s3://{self.s3_bucket}", self.s3_endpoint)

    @classmethod
    def parse_address(cls, address: str) -> Mapping[str, str]:
        region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
        if not region:
            raise InvalidSettings(f"lake is {address!r}: set AWS_REGION to the bucket's region")
        return {"s3_bucket": urlsplit(address).netloc, "aws_region": region}
