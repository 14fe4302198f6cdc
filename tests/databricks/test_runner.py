"""Runs on Databricks: what is submitted runs by itself, and every way in which a run ends."""

import os
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import eventlake.job
import eventlake.services.load
from eventlake.databricks.workspace import Workspace
from eventlake.errors import EventLakeError, Internal, InvalidSettings, Unavailable
from eventlake.lakes import cluster_checks, open_job_runner, open_store, parse_settings
from eventlake.lakes.azure_settings import AzureSettings
from eventlake.model.databricks import DatabricksAuth
from eventlake.model.job import Phase
from eventlake.model.settings import SourceSettings
from eventlake.runners.databricks import DatabricksRunner
from eventlake.runners.wheel import JobFiles
from eventlake.services.load import LoadResult
from eventlake.services.read import open_lake
from eventlake.stores import Store
from tests import lakes, processes
from tests.azure.azurite import KEY, Azure, azure
from tests.databricks.standin import CLUSTER, PRINCIPAL, SECRET, StandIn, databricks
from tests.processes import PATIENCE
from tests.tiers import long

__all__ = ["azure", "databricks"]

SAME = ("tables", "catalog", "ids")
VARIABLE = "AZURE_STORAGE_ACCOUNT_KEY"


@pytest.fixture
def lake(azure: Azure, databricks: StandIn, monkeypatch: pytest.MonkeyPatch) -> AzureSettings:
    """A lake in ADLS whose runs are on the cluster of the workspace."""
    monkeypatch.setenv("DATABRICKS_CLIENT_SECRET", SECRET)
    databricks.scopes["lake"] = {"account_key": KEY}
    databricks.add_cluster(CLUSTER, spark_env_vars={VARIABLE: "{{secrets/lake/account_key}}"})
    return azure.settings(
        databricks_instance_url=databricks.url,
        databricks_cluster_id=CLUSTER,
        client_id=PRINCIPAL,
    )


def load(lake: AzureSettings, raw: Path, **options: Any) -> LoadResult:
    settings = SourceSettings(source=lakes.SOURCE)
    return eventlake.services.load.load([raw], lake=lake, settings=settings, **options)


def runner_of(lake: AzureSettings) -> DatabricksRunner:
    context = open_job_runner(lake, open_store(lake), temporary=False)
    assert context is not None
    with context as runner:
        assert isinstance(runner, DatabricksRunner)
        return runner


def wait_until(holds: Callable[[], object]) -> None:
    until = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < until
        time.sleep(0.05)


@pytest.mark.spark
@pytest.mark.parametrize(
    "runtime", [pytest.param("16.4.x-scala2.12", marks=long), "17.3.x-scala2.13"]
)
def test_what_was_submitted_runs_and_lands_the_same_tables(
    lake: AzureSettings, databricks: StandIn, tmp_path: Path, runtime: str
) -> None:
    raw = lakes.small_sample(tmp_path / "raw")
    lakes.load(raw, tmp_path / "wanted", keep_raw=True)
    databricks.clusters[CLUSTER]["spark_version"] = runtime
    result = load(lake, tmp_path / "raw")
    (run,) = databricks.runs.values()
    assert result.status == "finished", (result, run.log)
    assert f"from {run.folder}/wheel/eventlake/job.py" in run.log
    found = lakes.read_contents(lake)
    lakes.assert_same(found, lakes.read_contents(tmp_path / "wanted"), ("tables", "ids"))
    assert open_lake(lake).verify(lakes.SOURCE).problems == ()
    assert result.counts is not None
    assert result.counts.landed == found.rows
    uploads = len(databricks.server.named("workspace/import"))
    assert uploads == 3
    assert KEY not in str(run.task)


# Without Spark: jobs that wait for their cluster


@pytest.fixture
def pool() -> Any:
    with ThreadPoolExecutor(2) as threads:
        yield threads


def begin(
    lake: AzureSettings, databricks: StandIn, raw: Path, pool: ThreadPoolExecutor
) -> "Future[LoadResult]":
    databricks.hold_runs = True
    lakes.small_sample(raw)
    future = pool.submit(load, lake, raw)
    wait_until(lambda: databricks.runs or future.done())
    return future


@pytest.mark.parametrize(
    ("state", "message"),
    [
        (
            {
                "life_cycle_state": "INTERNAL_ERROR",
                "result_state": "FAILED",
                "state_message": "Cluster 1117 terminated. Reason: Driver unresponsive",
            },
            r"failed: Cluster 1117 terminated\. Reason: Driver unresponsive",
        ),
        (
            {
                "life_cycle_state": "TERMINATED",
                "result_state": "CANCELED",
                "state_message": "Run cancelled.",
            },
            r"canceled: Run cancelled\.",
        ),
        (
            {
                "life_cycle_state": "TERMINATED",
                "result_state": "TIMEDOUT",
                "state_message": "Run timed out.",
            },
            "timedout: Run timed out",
        ),
    ],
)
def test_a_run_that_ends_without_a_commit_says_why_and_where_its_log_is(
    lake: AzureSettings,
    databricks: StandIn,
    tmp_path: Path,
    pool: ThreadPoolExecutor,
    state: dict[str, str],
    message: str,
) -> None:
    future = begin(lake, databricks, tmp_path / "raw", pool)
    (run,) = databricks.runs.values()
    run.ended = state
    with pytest.raises(Internal, match=message) as raised:
        future.result(PATIENCE)
    assert f"{databricks.url}/?o=1#job/0/run/{run.number}" in str(raised.value)
    assert open_store(lake).names("segment-stage/") == ([], [])


def test_the_error_of_the_program_is_in_the_reason(
    lake: AzureSettings, databricks: StandIn, tmp_path: Path
) -> None:
    databricks.hold_runs = True
    runner = runner_of(lake)
    handle = runner.submit("a name", "segment-stage/1/job.json")
    assert runner.state(handle).phase is Phase.WAITING
    run = databricks.runs[int(handle)]
    run.folder.mkdir(parents=True)
    (run.folder / "log").write_text("Traceback …\nRuntimeError: no disk\n")
    run.ended = {"life_cycle_state": "TERMINATED", "result_state": "FAILED", "state_message": ""}
    assert runner.state(handle).reason == "failed: RuntimeError: no disk"


def test_another_process_takes_up_a_run_by_its_handle(
    lake: AzureSettings, databricks: StandIn
) -> None:
    databricks.hold_runs = True
    handle = runner_of(lake).submit("a name", "segment-stage/1/job.json")
    again = runner_of(lake)
    assert again.state(handle).phase is Phase.WAITING
    again.cancel(handle)
    again.cancel(handle)
    state = again.state(handle)
    assert (state.phase, state.reason) == (Phase.FAILED, "canceled: Run cancelled.")
    with pytest.raises(InvalidSettings, match="has no run 999"):
        again.state("999")


def load_elsewhere(words: list[str], raw: Path, env: dict[str, str]) -> None:
    os.environ.update(env)
    lake = parse_settings(words)
    assert isinstance(lake, AzureSettings)
    load(lake, raw)


def test_a_load_follows_the_job_of_a_process_that_was_killed(
    lake: AzureSettings,
    azure: Azure,
    databricks: StandIn,
    tmp_path: Path,
    pool: ThreadPoolExecutor,
) -> None:
    databricks.hold_runs = True
    lakes.small_sample(tmp_path / "raw")
    env = {**azure.env, "DATABRICKS_CLIENT_SECRET": SECRET}
    killed = processes.start(load_elsewhere, lake.to_words(), tmp_path / "raw", env)
    store = open_store(lake)
    wait_until(lambda: [one for one in _staged(store) if one.endswith("submitted.json")])
    with processes.ended(killed):
        killed.kill()
        killed.join()
    again = pool.submit(load, lake, tmp_path / "raw")
    ((number, run),) = databricks.runs.items()
    wait_until(lambda: len(databricks.server.named("runs/get$")) > 3)
    _, job, *words = run.task["spark_python_task"]["parameters"]
    assert eventlake.job.main([job, *words], lambda _: lakes.InlineRunner()) == 0
    run.ended = {"life_cycle_state": "TERMINATED", "result_state": "SUCCESS", "state_message": ""}
    result = again.result(PATIENCE)
    assert (result.status, list(databricks.runs)) == ("nothing", [number])
    assert open_lake(lake).verify(lakes.SOURCE).problems == ()
    assert store.names("segment-stage/")[0] == []


def _staged(store: Store) -> list[str]:
    return [one.path for one in store.objects("segment-stage")]


def test_a_job_cluster_gets_its_secrets_from_the_scope(
    lake: AzureSettings, databricks: StandIn
) -> None:
    databricks.hold_runs = True
    one_run = {
        "databricks_cluster_id": "",
        "databricks_job_cluster": True,
        "databricks_node_type": "Standard_D4ds_v5",
        "databricks_secret_scope": "lake",
    }
    runner_of(lake.model_copy(update=one_run)).submit("a name", "segment-stage/1/job.json")
    (run,) = databricks.runs.values()
    cluster = run.task["new_cluster"]
    assert cluster["spark_env_vars"] == {VARIABLE: "{{secrets/lake/account_key}}"}
    assert run.environment == {VARIABLE: KEY}
    mode, user = cluster["data_security_mode"], cluster["single_user_name"]
    assert (mode, user) == ("SINGLE_USER", PRINCIPAL)
    found = {name: try_it() for name, try_it in cluster_checks(lake.model_copy(update=one_run))}
    assert found == {"runtime": "17.3.x-scala2.13", "secret scope": "lake has account_key"}
    for scope, message in {"": "set databricks_secret_scope", "gone": "no such scope"}.items():
        other = {**one_run, "databricks_secret_scope": scope}
        with pytest.raises(InvalidSettings, match=message):
            [try_it() for _, try_it in cluster_checks(lake.model_copy(update=other))]


def test_the_code_is_uploaded_once(lake: AzureSettings, databricks: StandIn) -> None:
    databricks.hold_runs = True
    for _ in range(2):
        runner_of(lake).submit("a name", "segment-stage/1/job.json")
    assert len(databricks.server.named("workspace/import")) == 3


def test_a_submission_whose_answer_is_lost_starts_one_run(
    lake: AzureSettings, databricks: StandIn
) -> None:
    databricks.hold_runs = True
    lost = databricks.fault("POST .*runs/submit", after=True)
    throttled = databricks.fault("POST .*runs/submit", status=429, times=2)
    handle = runner_of(lake).submit("a name", "segment-stage/1/job.json")
    assert (lost.times, throttled.times) == (0, 0)
    assert list(databricks.runs) == [int(handle)]
    assert len(databricks.server.named("runs/submit")) == 4


# What keeps a run from being submitted


def refused(lake: AzureSettings, **changes: Any) -> str:
    with pytest.raises(EventLakeError) as raised:
        runner_of(lake.model_copy(update=changes))
    assert isinstance(raised.value, InvalidSettings)
    return str(raised.value)


def test_a_cluster_that_does_not_exist(lake: AzureSettings) -> None:
    other = "1117-020000-zzzzzzzz"
    message = refused(lake, databricks_cluster_id=other)
    assert message.startswith(f"databricks_cluster_id is {other!r}: the workspace has no such")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"spark_version": "14.3.x-scala2.12"}, "runtime 14.3 has Python 3.10.*15.4 LTS"),
        ({"spark_version": "13.3.x-scala2.12"}, "runtime 13.3 has a Spark older than 3.5"),
        ({"data_security_mode": "USER_ISOLATION"}, "standard.*use a cluster with.*Dedicated"),
        ({"spark_env_vars": {}}, r"AZURE_STORAGE_ACCOUNT_KEY=\{\{secrets/<scope>/account_key\}\}"),
        (
            {
                "state": "TERMINATED",
                "termination_reason": {
                    "code": "CLOUD_PROVIDER_LAUNCH_FAILURE",
                    "type": "CLOUD_FAILURE",
                    "parameters": {"azure_error_code": "QuotaExceeded"},
                },
            },
            r"terminated \(CLOUD_PROVIDER_LAUNCH_FAILURE; azure_error_code: QuotaExceeded\)",
        ),
    ],
)
def test_a_cluster_that_cannot_run_jobs(
    lake: AzureSettings, databricks: StandIn, changes: dict[str, Any], message: str
) -> None:
    databricks.clusters[CLUSTER] |= changes
    with pytest.raises(InvalidSettings, match=message):
        runner_of(lake)
    assert not databricks.runs


def test_a_cluster_that_stopped_when_idle_is_started_by_the_run(
    lake: AzureSettings, databricks: StandIn
) -> None:
    reason = {"code": "INACTIVITY", "type": "SUCCESS"}
    databricks.clusters[CLUSTER] |= {"state": "TERMINATED", "termination_reason": reason}
    (check,) = cluster_checks(lake)
    assert check[1]() == f"{CLUSTER} is terminated (INACTIVITY); a run starts it"


def test_another_version_on_the_cluster_is_refused(
    lake: AzureSettings, databricks: StandIn
) -> None:
    old = {"whl": "/Workspace/Users/x/.eventlake/0.0.1+a/eventlake-0.0.1+a-py3-none-any.whl"}
    databricks.libraries.append({"library": old, "status": "INSTALLED"})
    assert "eventlake-0.0.1+a-py3-none-any.whl): uninstall that library" in refused(lake)
    databricks.libraries[0]["status"] = "UNINSTALL_ON_RESTART"
    runner_of(lake)


def test_a_wrong_secret(lake: AzureSettings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABRICKS_CLIENT_SECRET", "guessed")
    assert f"refuses the service principal {PRINCIPAL}" in refused(lake)


def test_a_wrong_token(
    lake: AzureSettings, databricks: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATABRICKS_TOKEN", "dapi-wrong")
    assert "does not accept DATABRICKS_TOKEN: it is wrong" in refused(lake)
    monkeypatch.setenv("DATABRICKS_TOKEN", databricks.add_token(days=-1))
    assert "Token is expired" in refused(lake)
    monkeypatch.setenv("DATABRICKS_TOKEN", databricks.add_token())
    runner_of(lake)


def test_a_host_that_is_none_or_no_workspace(lake: AzureSettings) -> None:
    other = "adb-1234567890123456.7.azuredatabricks.invalid"
    assert "no such host" in refused(lake, databricks_instance_url=other)


def test_a_workspace_that_does_not_answer(lake: AzureSettings, databricks: StandIn) -> None:
    secrets = runner_of(lake).workspace.secrets
    here = Workspace(
        host=databricks.url,
        auth=DatabricksAuth.OAUTH,
        secrets=secrets,
        client_id=PRINCIPAL,
        retry_seconds=1,
    )
    databricks.fault("clusters/get|runs/submit|scim", times=100)
    runner = DatabricksRunner(here, CLUSTER, JobFiles(("azure",)), ())
    with pytest.raises(Unavailable, match="could not sign in, even after retries"):
        runner.submit("a name", "job.json")


def test_oauth_tokens_are_renewed(lake: AzureSettings, databricks: StandIn) -> None:
    databricks.lifetime = 1
    workspace = runner_of(lake).workspace
    for _ in range(2):
        workspace.client.current_user.me()
        databricks.tokens.clear()  # as if the token had expired
        time.sleep(1.1)
    assert len(databricks.server.named("POST /oidc/v1/token")) >= 2
