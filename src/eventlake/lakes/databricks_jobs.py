"""Runs of a lake as jobs of a Databricks workspace."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

from eventlake.databricks.clusters import (
    ClusterNeeds,
    JobCluster,
    check_cluster,
    check_scope,
    secret_references,
)
from eventlake.databricks.workspace import Workspace
from eventlake.errors import InvalidSettings
from eventlake.lakes.databricks_clusters import DatabricksClusters
from eventlake.model.databricks import check_runtime
from eventlake.ports import JobRunner
from eventlake.runners.databricks import DatabricksRunner
from eventlake.runners.spark_submit import CONF
from eventlake.runners.wheel import JobFiles


@dataclass(frozen=True)
class DatabricksJobs:
    """Where the runs of a lake are, and what they need there."""

    workspace: Workspace
    settings: DatabricksClusters
    """The lake's settings as jobs get them: without files of this machine."""
    variables: Mapping[str, str]
    """The lake's secrets that are set here, so that jobs need them: variables and names."""
    files: JobFiles

    def runner(self, *, temporary: bool) -> AbstractContextManager[JobRunner] | None:
        """The runner of jobs, or None for runs on this machine; checks the cluster first."""
        settings = self.settings
        if not (temporary or settings.has_cluster):
            return None
        cluster: str | JobCluster = settings.databricks_cluster_id
        if temporary or settings.databricks_job_cluster:
            cluster = self._job_cluster()
        else:
            check_cluster(self.workspace, self._needs)
        words = tuple(settings.to_words())
        return nullcontext(DatabricksRunner(self.workspace, cluster, self.files, words))

    @property
    def _needs(self) -> ClusterNeeds:
        cluster = self.settings.databricks_cluster_id
        return ClusterNeeds(cluster, variables=self.variables, wheel=self.files.wheel)

    def _job_cluster(self) -> JobCluster:
        settings = self.settings
        if not settings.databricks_node_type:
            raise InvalidSettings("a temporary cluster needs the setting databricks_node_type")
        if self.variables and not settings.databricks_secret_scope:
            raise InvalidSettings(
                f"a temporary cluster needs the lake's secrets ({', '.join(self.variables)}): put "
                f"{', '.join(self.variables.values())} into a secret scope of the workspace, and "
                "set databricks_secret_scope to it"
            )
        return JobCluster(
            runtime=settings.databricks_runtime,
            node_type=settings.databricks_node_type,
            max_workers=settings.databricks_max_workers,
            user_name=self.workspace.user_name,
            environment=secret_references(settings.databricks_secret_scope, self.variables),
            settings={name: CONF[name] for name in ("spark.driver.maxResultSize",)},
            policy_id=settings.databricks_policy_id,
            instance_profile=settings.databricks_instance_profile,
            tags={"eventlake": "run"},
        )

    def checks(self) -> Iterator[tuple[str, Callable[[], str]]]:
        """Names and functions of the checks of what runs need."""
        settings = self.settings
        if settings.databricks_cluster_id:
            yield "cluster", lambda: check_cluster(self.workspace, self._needs)
        elif settings.databricks_job_cluster:
            yield "runtime", self._check_runtime
            scope = settings.databricks_secret_scope
            if self.variables:
                names = tuple(self.variables.values())
                yield "secret scope", lambda: check_scope(self.workspace, scope, names)

    def _check_runtime(self) -> str:
        check_runtime(self.settings.databricks_runtime, "databricks_runtime:")
        return self._job_cluster().runtime
