"""A lake with objects in S3, tables in Glue, and runs in this process or on EMR."""

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

from eventlake.aws import Access
from eventlake.catalogs.files import FilesCatalog
from eventlake.catalogs.glue import GlueCatalog
from eventlake.formats.parquet import ParquetFormat
from eventlake.lake import Lake
from eventlake.model.lake import AwsCatalog, AwsSettings
from eventlake.ports import Catalog, JobRunner
from eventlake.runners.emr import (
    EmrRunner,
    check_cluster,
    check_temporary,
    temporary_cluster,
    try_cluster,
)
from eventlake.runners.package import upload
from eventlake.runners.serverless import EmrServerlessRunner
from eventlake.stores import Store
from eventlake.stores.s3 import S3


def make_lake(settings: AwsSettings, store: Store) -> Lake:
    return Lake(
        store=store,
        catalog=catalog(settings, store),
        format=ParquetFormat(store),
        workspace=settings.workspace_id,
        facts={
            "s3_bucket": settings.s3_bucket,
            **({"emr_cluster_id": settings.emr_cluster_id} if settings.emr_cluster_id else {}),
        },
    )


def catalog(settings: AwsSettings, store: Store) -> Catalog:
    if settings.catalog is AwsCatalog.FILES:
        return FilesCatalog(store)
    return GlueCatalog(
        access=access(settings),
        root=store.root,
        catalog_id=settings.glue_catalog_id,
        projection=settings.partition_projection,
    )


def job_runner(
    settings: AwsSettings, store: Store, *, temporary: bool
) -> AbstractContextManager[JobRunner] | None:
    """A context with the runner of jobs, or None; raises InvalidSettings if it cannot work."""
    if temporary:
        check_temporary(settings)
        return _on_temporary_cluster(settings, store)
    if settings.emr_serverless_application_id:
        return _on_serverless(settings, store)
    if settings.emr_cluster_id:
        check_cluster(access(settings), settings)
        return _on_cluster(settings, store)
    return None


def cluster_checks(settings: AwsSettings) -> Iterator[tuple[str, Callable[[], str]]]:
    if settings.emr_cluster_id:
        yield from try_cluster(access(settings), settings)


@contextmanager
def _on_cluster(settings: AwsSettings, store: Store) -> Iterator[JobRunner]:
    yield EmrRunner(settings, access(settings), store, upload(store))


@contextmanager
def _on_serverless(settings: AwsSettings, store: Store) -> Iterator[JobRunner]:
    yield EmrServerlessRunner(settings, access(settings), store, upload(store))


@contextmanager
def _on_temporary_cluster(settings: AwsSettings, store: Store) -> Iterator[JobRunner]:
    code = upload(store)
    with temporary_cluster(settings, access(settings)) as cluster_id:
        changes = {"emr_cluster_id": cluster_id, "emr_serverless_application_id": ""}
        one_run = settings.model_copy(update=changes | {"emr_serverless_role_arn": ""})
        yield EmrRunner(one_run, access(settings), store, code)


def make_store(settings: AwsSettings, *, make: bool) -> Store:  # noqa: ARG001 - buckets are not created
    """The bucket; raises InvalidSettings now if the role cannot be assumed."""
    if settings.iam_role_arn:
        access(settings).check()
    endpoint = (
        settings.s3_endpoint
        or _endpoint_variable("AWS_ENDPOINT_URL_S3")
        or _endpoint_variable("AWS_ENDPOINT_URL")
    )
    style = settings.s3_path_style
    return S3(
        bucket=settings.s3_bucket,
        access=access(settings),
        endpoint=endpoint,
        # TLS certificates cover one label before the endpoint, so names with dots go in the path.
        path_style=bool(endpoint) or "." in settings.s3_bucket if style is None else style,
        encryption=settings.encryption,
        kms_key_id=settings.kms_key_id,
    )


def _endpoint_variable(name: str) -> str:
    return os.environ.get(name, "").rstrip("/")


def access(settings: AwsSettings) -> Access:
    return Access(
        region=settings.aws_region,
        role_arn=settings.iam_role_arn,
        external_id=settings.workspace_id,
        profile=settings.profile,
        credentials_file=settings.credentials_file,
    )
