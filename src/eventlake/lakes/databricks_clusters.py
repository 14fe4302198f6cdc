"""Settings of the Databricks clusters on which runs of a lake are."""

from typing import Annotated

from pydantic import Field, model_validator

from eventlake.model.lake import LakeSettings

CLUSTER = r"^\d{4}-\d{6}-[a-z0-9]+$"
RUNTIME = r"^(\d+\.\d+\.(x|\d+)-[\w.-]+|custom:.+)$"
NODE_TYPE = r"^[\w.-]+$"
SCOPE = r"^[\w.@-]{1,128}$"
PROFILE = r"^arn:aws[a-z-]*:iam::\d{12}:instance-profile/[\w+=,.@/-]+$"


class DatabricksClusters(LakeSettings):
    """Runs on a cluster of a Databricks workspace, or each on a cluster of its own."""

    makes_clusters = True

    databricks_cluster_id: Annotated[
        str,
        Field(
            pattern=f"^$|{CLUSTER}",
            description="The Databricks cluster for runs; without it they are on this machine",
        ),
    ] = ""
    databricks_job_cluster: Annotated[
        bool,
        Field(description="Create a cluster for each run, instead of `databricks_cluster_id`"),
    ] = False
    databricks_runtime: Annotated[
        str,
        Field(
            pattern=RUNTIME,
            description="The Databricks Runtime of clusters for one run: 15.4 LTS or newer",
        ),
    ] = "17.3.x-scala2.13"
    databricks_node_type: Annotated[
        str,
        Field(
            pattern=f"^$|{NODE_TYPE}",
            description="The node type of clusters for one run, such as `m7i.xlarge` or "
            "`Standard_D4ds_v5`",
        ),
    ] = ""
    databricks_max_workers: Annotated[
        int, Field(ge=1, le=1000, description="The maximum number of workers of such a cluster")
    ] = 8
    databricks_policy_id: Annotated[
        str, Field(description="The compute policy of clusters for one run")
    ] = ""
    databricks_secret_scope: Annotated[
        str,
        Field(
            pattern=f"^$|{SCOPE}",
            description="The secret scope from which clusters for one run get the lake's secrets",
        ),
    ] = ""
    databricks_instance_profile: Annotated[
        str,
        Field(
            pattern=f"^$|{PROFILE}",
            description="The instance profile of clusters for one run, with which they reach S3",
        ),
    ] = ""

    @model_validator(mode="after")
    def _check_clusters(self) -> "DatabricksClusters":
        if self.databricks_job_cluster and self.databricks_cluster_id:
            raise ValueError(
                f"databricks_job_cluster is set and databricks_cluster_id is "
                f"{self.databricks_cluster_id!r}: set one of the two"
            )
        if self.databricks_job_cluster and not self.databricks_node_type:
            raise ValueError("databricks_job_cluster needs databricks_node_type")
        return self

    @property
    def has_cluster(self) -> bool:
        return bool(self.databricks_cluster_id or self.databricks_job_cluster)
