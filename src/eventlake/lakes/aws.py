"""S3 for the objects, Glue for the tables, this machine or EMR for the runs."""

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


def lake(settings: AwsSettings, store: Store) -> Lake:
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


def cluster(
    settings: AwsSettings, store: Store, *, temporary: bool
) -> AbstractContextManager[JobRunner] | None:
    """Where runs are when not here; what could not work is refused before a run is planned."""
    if temporary:
        check_temporary(settings)
        return _temporary(settings, store)
    if settings.emr_serverless_application_id:
        return _serverless(settings, store)
    if settings.emr_cluster_id:
        check_cluster(access(settings), settings.emr_cluster_id)
        return _standing(settings, store)
    return None


def cluster_checks(settings: AwsSettings) -> Iterator[tuple[str, Callable[[], str]]]:
    if settings.emr_cluster_id:
        yield from try_cluster(access(settings), settings.emr_cluster_id)


@contextmanager
def _standing(settings: AwsSettings, store: Store) -> Iterator[JobRunner]:
    yield EmrRunner(settings, access(settings), store, upload(store))


@contextmanager
def _serverless(settings: AwsSettings, store: Store) -> Iterator[JobRunner]:
    yield EmrServerlessRunner(settings, access(settings), store, upload(store))


@contextmanager
def _temporary(settings: AwsSettings, store: Store) -> Iterator[JobRunner]:
    code = upload(store)
    with temporary_cluster(settings, access(settings)) as made:
        own = {"emr_cluster_id": made, "emr_serverless_application_id": ""}
        one_run = settings.model_copy(update=own | {"emr_serverless_role_arn": ""})
        yield EmrRunner(one_run, access(settings), store, code)


def store(settings: AwsSettings, *, make: bool) -> Store:  # noqa: ARG001 - a bucket is never made
    """The bucket; a role that refuses says so here, before anything is read or written."""
    if settings.iam_role_arn:
        access(settings).check()
    endpoint = settings.s3_endpoint or _given("AWS_ENDPOINT_URL_S3") or _given("AWS_ENDPOINT_URL")
    style = settings.s3_path_style
    return S3(
        bucket=settings.s3_bucket,
        access=access(settings),
        endpoint=endpoint,
        # A certificate covers one name before the endpoint's own: a dotted bucket goes in the path.
        path_style=bool(endpoint) or "." in settings.s3_bucket if style is None else style,
        encryption=settings.encryption,
        kms_key_id=settings.kms_key_id,
    )


def _given(name: str) -> str:
    return os.environ.get(name, "").rstrip("/")


def access(settings: AwsSettings) -> Access:
    return Access(
        region=settings.aws_region,
        role_arn=settings.iam_role_arn,
        external_id=settings.workspace_id,
        profile=settings.profile,
        credentials_file=settings.credentials_file,
    )
