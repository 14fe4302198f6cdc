"""Clusters of a workspace: which can run jobs, and the description of one for a single run."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from databricks.sdk.errors.base import DatabricksError
from databricks.sdk.service.compute import (
    AutoScale,
    AwsAttributes,
    ClusterDetails,
    ClusterSpec,
    DataSecurityMode,
    LibraryInstallStatus,
    State,
    TerminationReasonType,
)

from eventlake.databricks.workspace import Workspace, is_missing
from eventlake.errors import InvalidSettings
from eventlake.model.databricks import check_runtime

SHARED = (DataSecurityMode.USER_ISOLATION, DataSecurityMode.DATA_SECURITY_MODE_STANDARD)
OFF = (State.TERMINATING, State.TERMINATED, State.ERROR, State.UNKNOWN)
_NO_CLUSTER = "set the id of another cluster, or remove the setting to run here"


@dataclass(frozen=True)
class ClusterNeeds:
    """What jobs need of an existing cluster."""

    id: str
    setting: str = "databricks_cluster_id"
    variables: Mapping[str, str] = field(default_factory=dict)
    """Environment variables with the lake's secrets, and the name of each secret."""
    wheel: str = ""
    """The name of the wheel that is going to be installed."""


def check_cluster(workspace: Workspace, needs: ClusterNeeds) -> str:
    """Describe the state of a cluster; raises InvalidSettings if it cannot run jobs."""
    subject = f"{needs.setting} is {needs.id!r}"
    cluster = _get_cluster(workspace, needs, subject)
    check_runtime(cluster.spark_version or "", f"{subject}: its runtime")
    _check_mode(cluster, subject)
    _check_variables(cluster, needs, subject)
    _check_libraries(workspace, needs, subject)
    return _check_state(cluster, subject)


def _get_cluster(workspace: Workspace, needs: ClusterNeeds, subject: str) -> ClusterDetails:
    with workspace.errors(
        f"look at the cluster {needs.id}",
        f"give {workspace.client_id or 'the principal'} the permission 'Can Restart' on it, in "
        "the cluster's Permissions",
    ):
        try:
            return workspace.client.clusters.get(needs.id)
        except DatabricksError as problem:
            if not is_missing(problem):
                raise
            raise InvalidSettings(
                f"{subject}: the workspace has no such cluster: {_NO_CLUSTER}"
            ) from problem


def _check_mode(cluster: ClusterDetails, subject: str) -> None:
    if cluster.data_security_mode in SHARED:
        raise InvalidSettings(
            f"{subject}: its access mode is standard (shared), in which tasks do not reach the "
            "lake's storage: use a cluster with the access mode Dedicated"
        )


def _check_variables(cluster: ClusterDetails, needs: ClusterNeeds, subject: str) -> None:
    there = cluster.spark_env_vars or {}
    missing = {name: secret for name, secret in needs.variables.items() if name not in there}
    if missing:
        lines = ", ".join(
            f"{name}={{{{secrets/<scope>/{secret}}}}}" for name, secret in missing.items()
        )
        raise InvalidSettings(
            f"{subject}: jobs there need the lake's secrets: add to its environment variables "
            f"(Advanced, Spark) {lines}"
        )


def _check_libraries(workspace: Workspace, needs: ClusterNeeds, subject: str) -> None:
    """Refuse a cluster that installs another EventLake: which one a job gets is not certain."""
    with workspace.errors(f"list the libraries of the cluster {needs.id}"):
        found = list(workspace.client.libraries.cluster_status(needs.id))
    gone = LibraryInstallStatus.UNINSTALL_ON_RESTART
    paths = [one.library.whl or "" for one in found if one.library and one.status is not gone]
    names = (PurePosixPath(path).name for path in paths)
    others = [name for name in names if name.startswith("eventlake-") and name != needs.wheel]
    if needs.wheel and others:
        raise InvalidSettings(
            f"{subject}: another version of EventLake is installed there ({', '.join(others)}): "
            "uninstall that library and restart the cluster, or run on a job cluster "
            "(databricks_job_cluster)"
        )


def _check_state(cluster: ClusterDetails, subject: str) -> str:
    state = cluster.state.value.lower() if cluster.state else "unknown"
    reason = cluster.termination_reason
    why = reason.code.value if reason and reason.code else cluster.state_message or ""
    failed = reason is not None and reason.type is not TerminationReasonType.SUCCESS
    if cluster.state is State.ERROR or (cluster.state in OFF and failed):
        details = ", ".join(f"{k}: {v}" for k, v in ((reason and reason.parameters) or {}).items())
        raise InvalidSettings(
            f"{subject}: that cluster is {state} ({why}{f'; {details}' if details else ''}): "
            f"start it in the workspace, or {_NO_CLUSTER}"
        )
    if cluster.state in OFF:
        return f"{cluster.cluster_id} is {state} ({why}); a run starts it"
    return f"{cluster.cluster_id} is {state}"


@dataclass(frozen=True, kw_only=True)
class JobCluster:
    """A cluster that exists for one run."""

    runtime: str
    node_type: str
    max_workers: int
    user_name: str
    """The only principal that may use it."""
    environment: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, str] = field(default_factory=dict)
    """Spark settings."""
    policy_id: str = ""
    instance_profile: str = ""
    tags: Mapping[str, str] = field(default_factory=dict)

    def spec(self) -> ClusterSpec:
        check_runtime(self.runtime, "databricks_runtime:")
        profile = self.instance_profile
        return ClusterSpec(
            spark_version=self.runtime,
            node_type_id=self.node_type,
            autoscale=AutoScale(min_workers=1, max_workers=self.max_workers),
            data_security_mode=DataSecurityMode.SINGLE_USER,
            single_user_name=self.user_name,
            spark_env_vars=dict(self.environment),
            spark_conf=dict(self.settings),
            custom_tags=dict(self.tags),
            policy_id=self.policy_id or None,
            aws_attributes=AwsAttributes(instance_profile_arn=profile) if profile else None,
        )


def secret_references(scope: str, variables: Mapping[str, str]) -> dict[str, str]:
    """Environment variables that Databricks fills from a secret scope when a cluster starts."""
    return {name: f"{{{{secrets/{scope}/{secret}}}}}" for name, secret in variables.items()}


def check_scope(workspace: Workspace, scope: str, secrets: Collection[str]) -> str:
    """Check that a secret scope has these secrets; raises InvalidSettings with those it lacks."""
    with workspace.errors(
        f"list the secrets of the scope {scope}",
        f"run `databricks secrets put-acl {scope} {workspace.user_name} READ`",
    ):
        try:
            found = {one.key for one in workspace.client.secrets.list_secrets(scope)}
        except DatabricksError as problem:
            if not is_missing(problem):
                raise
            raise InvalidSettings(
                f"databricks_secret_scope is {scope!r}: the workspace has no such scope: "
                f"`databricks secrets create-scope {scope}`"
            ) from problem
    if missing := sorted(set(secrets) - found):
        commands = "; ".join(f"`databricks secrets put-secret {scope} {one}`" for one in missing)
        raise InvalidSettings(
            f"databricks_secret_scope is {scope!r}: it lacks {', '.join(missing)}: {commands}"
        )
    return f"{scope} has {', '.join(sorted(secrets)) or 'no secret that jobs need'}"
