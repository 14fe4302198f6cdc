"""A lake with objects in S3, tables in Glue, and runs in this process or on EMR."""

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass

from eventlake.aws import Access
from eventlake.catalogs.files import FilesCatalog
from eventlake.catalogs.glue import GlueCatalog
from eventlake.errors import InvalidSettings
from eventlake.lake import Lake
from eventlake.lakes.aws_releases import check_release
from eventlake.lakes.aws_settings import AwsCatalog, AwsSettings
from eventlake.lakes.formats import FORMATS, make_format
from eventlake.lakes.kinds import KINDS, LakeKind
from eventlake.ports import Catalog, JobRunner
from eventlake.runners.emr import (
    ClusterSpec,
    EmrRunner,
    check_cluster,
    temporary_cluster,
    try_cluster,
)
from eventlake.runners.emr_serverless import EmrServerlessRunner
from eventlake.runners.package import Code, upload
from eventlake.runners.spark_submit import JobProgram
from eventlake.secrets import Secrets
from eventlake.stores import Store
from eventlake.stores.s3 import S3

TEMPORARY_SETTINGS = ("emr_service_role", "emr_instance_profile", "emr_subnet_id")


@dataclass(frozen=True)
class AwsKind(LakeKind):
    """A lake on AWS. Its credentials are found by botocore, so there are no secrets to read."""

    settings: AwsSettings
    secrets: Secrets

    @property
    def access(self) -> Access:
        return Access(
            region=self.settings.aws_region,
            role_arn=self.settings.iam_role_arn,
            external_id=self.settings.workspace_id,
            profile=self.settings.profile,
            credentials_file=self.settings.credentials_file,
            max_attempts=_max_attempts(),
        )

    def open_store(self, *, make: bool) -> Store:  # noqa: ARG002 - buckets are not created
        """The bucket; raises InvalidSettings now if the role cannot be assumed."""
        settings = self.settings
        if settings.iam_role_arn:
            self.access.check()
        endpoint = (
            settings.s3_endpoint
            or _endpoint_variable("AWS_ENDPOINT_URL_S3")
            or _endpoint_variable("AWS_ENDPOINT_URL")
        )
        style = settings.s3_path_style
        return S3(
            bucket=settings.s3_bucket,
            access=self.access,
            endpoint=endpoint,
            # TLS certificates cover one label before the endpoint, so names with dots go in the
            # path.
            path_style=bool(endpoint) or "." in settings.s3_bucket if style is None else style,
            encryption=settings.encryption,
            kms_key_id=settings.kms_key_id,
        )

    def make_lake(self, store: Store) -> Lake:
        settings = self.settings
        cluster = {"emr_cluster_id": settings.emr_cluster_id} if settings.emr_cluster_id else {}
        return Lake(
            store=store,
            catalog=self._catalog(store),
            format=make_format(settings, store),
            workspace=settings.workspace_id,
            facts={"s3_bucket": settings.s3_bucket, **cluster},
        )

    def _catalog(self, store: Store) -> Catalog:
        if self.settings.catalog is AwsCatalog.FILES:
            return FilesCatalog(store)
        return GlueCatalog(
            access=self.access,
            root=store.root,
            catalog_id=self.settings.glue_catalog_id,
            projection=self.settings.partition_projection,
        )

    def job_runner(
        self, store: Store, *, temporary: bool
    ) -> AbstractContextManager[JobRunner] | None:
        if temporary:
            missing = [name for name in TEMPORARY_SETTINGS if not getattr(self.settings, name)]
            if missing:
                raise InvalidSettings(
                    f"a temporary cluster needs the settings {', '.join(missing)}"
                )
            check_release(
                self.settings.emr_release_label, self.settings.emr_python, "emr_release_label"
            )
            return self._on_temporary_cluster(store)
        if self.settings.emr_serverless_application_id:
            return self._on_serverless(store)
        if self.settings.emr_cluster_id:
            check_cluster(self.access, self.settings.emr_cluster_id, self._check_label)
            return self._on_cluster(store)
        return None

    def _upload(self, store: Store) -> Code:
        extras = KINDS[AwsSettings.kind].extra, FORMATS[self.settings.format].extra
        return upload(store, extras)

    def cluster_checks(self) -> Iterator[tuple[str, Callable[[], str]]]:
        if self.settings.emr_cluster_id:
            yield from try_cluster(self.access, self.settings.emr_cluster_id, self._check_label)

    def _check_label(self, label: str) -> None:
        subject = f"emr_cluster_id is {self.settings.emr_cluster_id!r}: its release"
        check_release(label, self.settings.emr_python, subject)

    @contextmanager
    def _on_cluster(self, store: Store) -> Iterator[JobRunner]:
        program = _make_program(self.settings, self._upload(store))
        yield EmrRunner(self.settings.emr_cluster_id, self.access, store, program)

    @contextmanager
    def _on_serverless(self, store: Store) -> Iterator[JobRunner]:
        yield EmrServerlessRunner(
            id=self.settings.emr_serverless_application_id,
            role_arn=self.settings.emr_serverless_role_arn,
            access=self.access,
            store=store,
            program=_make_program(self.settings, self._upload(store)),
        )

    @contextmanager
    def _on_temporary_cluster(self, store: Store) -> Iterator[JobRunner]:
        code = self._upload(store)
        with temporary_cluster(_cluster_spec(self.settings), self.access) as cluster_id:
            changes = {"emr_cluster_id": cluster_id, "emr_serverless_application_id": ""}
            one_run = self.settings.model_copy(update=changes | {"emr_serverless_role_arn": ""})
            yield EmrRunner(cluster_id, self.access, store, _make_program(one_run, code))


def _endpoint_variable(name: str) -> str:
    return os.environ.get(name, "").rstrip("/")


def _make_program(settings: AwsSettings, code: Code) -> JobProgram:
    """The program of jobs, without credentials of this machine: jobs use the cluster's role."""
    shared = settings.model_copy(update={"profile": "", "credentials_file": ""})
    words = tuple(shared.to_words())
    return JobProgram(code, settings.emr_python, python_setting="emr_python", settings=words)


def _cluster_spec(settings: AwsSettings) -> ClusterSpec:
    return ClusterSpec(
        release_label=settings.emr_release_label,
        instance_type=settings.emr_instance_type,
        max_instances=settings.emr_max_instances,
        service_role=settings.emr_service_role,
        instance_profile=settings.emr_instance_profile,
        subnet_id=settings.emr_subnet_id,
        security_configuration=settings.emr_security_configuration,
        log_uri=f"s3://{settings.s3_bucket}/logs/",
        workspace=settings.workspace_id,
    )


def _max_attempts() -> int:
    """The AWS SDKs' variable for how often a request is tried; 0 if it is not set."""
    value = os.environ.get("AWS_MAX_ATTEMPTS", "")
    if value and not (value.isdecimal() and int(value)):
        raise InvalidSettings(f"AWS_MAX_ATTEMPTS is {value!r}: it should be a number from 1 on")
    return int(value or 0)
