"""Runs on EMR: what is submitted, how it is followed, and what every end leaves behind."""

import gzip
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from eventlake.clock import SYSTEM_CLOCK
from eventlake.errors import Conflict, InsufficientPermissions, Internal, InvalidSettings
from eventlake.lakes import open_store
from eventlake.ledger import Ledger, is_dead, lease_path, read_lease
from eventlake.model.layout import DEFAULT_LAYOUT
from eventlake.runners import package
from eventlake.runners.emr import EmrRunner
from tests import lakes, processes
from tests.aws.emr import (
    Dies,
    Emr,
    Steps,
    Told,
    lease_time,
    make_cluster,
    run_of,
    run_step,
    steps_of,
    wait_for_step,
    wait_until,
    write_little,
)
from tests.aws.moto import Aws
from tests.aws.proxy import Proxy
from tests.aws.rules import Denied


@pytest.fixture
def emr(aws: Aws, proxy: Proxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Emr]:
    monkeypatch.setattr(EmrRunner, "poll_seconds", 0.1)
    monkeypatch.setattr(package, "write_environment", write_little)
    lakes.small_sample(tmp_path / "raw")
    steps = Steps()
    with proxy.ruled(steps), ThreadPoolExecutor(2) as pool:
        found = Emr(aws, proxy, steps, make_cluster(aws), tmp_path, pool)
        yield found
        for step in steps_of(aws, found.cluster):  # nobody waits for ever, whatever a test did
            steps.states.setdefault(step["Id"], "FAILED")


# What is submitted


def test_a_step_says_all_that_a_cluster_needs(emr: Emr) -> None:
    loading = emr.begin()
    step = wait_for_step(emr.aws, emr.cluster)
    words, code = step["Config"]["Args"], f"s3://{emr.aws.bucket}/segment-stage/code/"
    assert (step["Config"]["Jar"], step["ActionOnFailure"]) == ("command-runner.jar", "CONTINUE")
    assert words[:3] == ["spark-submit", "--deploy-mode", "cluster"]
    archives = words[words.index("--archives") + 1].split(",")
    assert [name.partition("#")[2] for name in archives] == ["code", "environment"]
    confs = dict(word.split("=", 1) for word in words if word.startswith("spark."))
    assert confs["spark.executorEnv.PYTHONPATH"] == "./code:./environment"
    assert confs["spark.yarn.appMasterEnv.PYTHONPATH"] == "./code:./environment"
    assert confs["spark.python.daemon.module"] == "eventlake.runners.daemon"
    assert confs["spark.yarn.maxAppAttempts"] == "1"
    at = next(at for at, word in enumerate(words) if word.endswith("/entrypoint.py"))
    assert all(name.startswith(code) for name in (*archives, words[at]))
    assert f"s3_bucket={emr.aws.bucket}" in words[at:]
    assert f"emr_cluster_id={emr.cluster}" in words[at:]
    assert words[at + 3] in emr.keys("segment-stage/")
    assert emr.run(step)[0] == 0
    assert loading.result().status == "finished"


def test_nothing_secret_goes_to_the_cluster(emr: Emr, tmp_path: Path) -> None:
    secrets = tmp_path / "keys"
    secrets.write_text("[default]\naws_access_key_id = hidden\naws_secret_access_key = hidden\n")
    lake = emr.lake.model_copy(update={"credentials_file": str(secrets)})
    loading = emr.begin(lake=lake)
    step = wait_for_step(emr.aws, emr.cluster)
    (job,) = (key for key in emr.keys("segment-stage/") if key.endswith("/job.json"))
    body = emr.aws.client("s3").get_object(Bucket=emr.aws.bucket, Key=job)["Body"].read()
    for told in (json.dumps(step, default=str), body.decode()):
        assert "hidden" not in told
        assert str(secrets) not in told
    assert emr.run(step)[0] == 0
    assert loading.result().status == "finished"


def test_a_load_on_a_cluster_ends_as_one_here(emr: Emr) -> None:
    here = lakes.load([emr.folder / "raw"], emr.folder / "wanted")
    loading = emr.begin(lake=emr.aws.settings(emr_cluster_id=emr.cluster))
    assert emr.run(wait_for_step(emr.aws, emr.cluster))[0] == 0
    there = loading.result()
    assert (there.status, there.counts, there.files) == ("finished", here.counts, here.files)
    assert [done.counts for done in there.tables] == [done.counts for done in here.tables]
    assert emr.keys("segment-stage/") == []
    assert [line["emr_cluster_id"] for line in emr.reports()] == [emr.cluster]
    known = emr.aws.client("glue").get_tables(DatabaseName=lakes.SOURCE)["TableList"]
    assert {one["Name"] for one in known} == {done.table.name for done in there.tables}
    again = emr.load()
    assert (again.status, again.already_loaded) == ("nothing", 3)


def test_suppressed_ids_go_with_the_job(emr: Emr) -> None:
    raw = b"".join(gzip.decompress(path.read_bytes()) for path in (emr.folder / "raw").iterdir())
    users = (json.loads(line).get("userId") for line in raw.splitlines() if b'"userId"' in line)
    person = next(filter(None, users))
    here = lakes.load([emr.folder / "raw"], emr.folder / "wanted", suppressed=[person])
    assert here.counts.suppressed > 0
    loading = emr.begin(suppressed=[person])
    assert emr.run(wait_for_step(emr.aws, emr.cluster))[0] == 0
    assert loading.result().counts == here.counts


def test_code_is_uploaded_once(emr: Emr) -> None:
    for number, source in enumerate(("web", "ios"), 1):
        loading = emr.begin(source)
        assert emr.run(wait_for_step(emr.aws, emr.cluster, number))[0] == 0
        loading.result()
    puts = [call.key for call in emr.proxy.asked("PutObject") if "/code/" in call.key]
    assert sorted(key.rpartition("/")[2] for key in puts) == [
        "entrypoint.py",
        "environment.tar.gz",
        "eventlake.zip",
    ]


# A cluster's state


def test_a_missing_cluster_is_named(emr: Emr) -> None:
    lake = emr.lake.model_copy(update={"emr_cluster_id": "j-NOTTHERE"})
    with pytest.raises(InvalidSettings, match="emr_cluster_id is 'j-NOTTHERE'"):
        emr.load(lake=lake)
    assert emr.keys("") == []


def test_a_terminated_cluster_is_named_with_its_state(emr: Emr) -> None:
    emr.aws.client("emr").terminate_job_flows(JobFlowIds=[emr.cluster])
    with pytest.raises(InvalidSettings, match=f"{emr.cluster}.*TERMINATED"):
        emr.load()
    assert emr.keys("") == []


def test_a_cluster_of_an_older_release_is_refused(emr: Emr) -> None:
    old = make_cluster(emr.aws, release="emr-6.15.0")
    with pytest.raises(InvalidSettings, match=f"{old}.*'emr-6.15.0'.*emr-7.1.0 or later"):
        emr.load(lake=emr.lake.model_copy(update={"emr_cluster_id": old}))
    assert emr.keys("") == []


def test_steps_of_two_sources_wait_their_turn(emr: Emr) -> None:
    first = emr.begin("web")
    running = wait_for_step(emr.aws, emr.cluster)
    second = emr.begin("ios")
    waiting = wait_for_step(emr.aws, emr.cluster, 2)
    assert (running["Status"]["State"], waiting["Status"]["State"]) == ("RUNNING", "PENDING")
    assert emr.run(running)[0] == 0
    assert first.result().status == "finished"
    emr.steps.states[waiting["Id"]] = "RUNNING"
    assert emr.run(waiting)[0] == 0
    assert second.result().status == "finished"
    assert "wait" in emr.told["ios"]
    assert "wait" not in emr.told["web"]


# Permissions


@pytest.mark.parametrize(
    ("action", "what"),
    [
        ("AddJobFlowSteps", "no permission to submit a run to"),
        ("DescribeStep", "no permission to read the state of a run on"),
        ("DescribeCluster", "no permission to look at"),
    ],
)
def test_a_missing_permission_is_named(emr: Emr, action: str, what: str) -> None:
    with emr.proxy.ruled(Denied(f"elasticmapreduce:{action}")):
        with pytest.raises(InsufficientPermissions, match=f"elasticmapreduce:{action}") as refused:
            emr.load()
        assert str(refused.value).startswith(f"{what} the EMR cluster {emr.cluster}")


def test_a_run_that_may_not_be_submitted_leaves_a_report_only(emr: Emr) -> None:
    with (
        emr.proxy.ruled(Denied("elasticmapreduce:AddJobFlowSteps")),
        pytest.raises(InsufficientPermissions),
    ):
        emr.load()
    assert emr.keys("segment-stage/") == []
    assert [line["error_code"] for line in emr.reports()] == [InsufficientPermissions.code]
    loading = emr.begin()
    assert emr.run(wait_for_step(emr.aws, emr.cluster))[0] == 0
    assert loading.result().status == "finished"


def test_a_run_that_may_not_be_followed_goes_on(emr: Emr) -> None:
    with emr.proxy.ruled(Denied("elasticmapreduce:DescribeStep")):
        with pytest.raises(InsufficientPermissions) as refused:
            emr.load()
        step = wait_for_step(emr.aws, emr.cluster)
        assert str(refused.value).endswith(f"the job {step['Id']} was not cancelled")
        assert emr.run(step)[0] == 0
    assert emr.load().already_loaded == 3


# Leases


def test_a_run_that_waits_is_not_held_for_dead(emr: Emr) -> None:
    loading = emr.begin()
    step = wait_for_step(emr.aws, emr.cluster)
    store, run = open_store(emr.lake), run_of(emr)
    renewed = lease_time(store, run)
    wait_until(lambda: lease_time(store, run) > renewed)
    assert not is_dead(Ledger(store, DEFAULT_LAYOUT, "web"), run, SYSTEM_CLOCK.now())
    assert emr.run(step)[0] == 0
    loading.result()


def test_a_stage_that_the_job_has_removed_does_not_come_back(emr: Emr) -> None:
    loading = emr.begin()
    step = wait_for_step(emr.aws, emr.cluster)
    assert emr.run(step, state="RUNNING")[0] == 0
    looked = len(emr.proxy.asked("DescribeStep"))
    wait_until(lambda: len(emr.proxy.asked("DescribeStep")) > looked + 5)
    assert emr.keys("segment-stage/") == []
    emr.steps.states[step["Id"]] = "COMPLETED"
    assert loading.result().status == "finished"
    assert emr.keys("segment-stage/") == []


def test_a_job_that_was_held_for_dead_while_it_waited_ends_with_a_word(emr: Emr) -> None:
    with (  # as if the submitter was killed: nobody follows, nobody renews
        emr.proxy.ruled(Denied("elasticmapreduce:DescribeStep")),
        pytest.raises(InsufficientPermissions),
    ):
        emr.load()
    late = wait_for_step(emr.aws, emr.cluster)
    store, run = open_store(emr.lake), run_of(emr)
    lease = read_lease(Ledger(store, DEFAULT_LAYOUT, "web"), run)
    assert lease is not None
    gone = lease.model_copy(update={"host": "elsewhere", "pid": 0})
    store.write(lease_path(DEFAULT_LAYOUT, run), gone.to_json())
    loading = emr.begin()
    assert emr.run(wait_for_step(emr.aws, emr.cluster, 2))[0] == 0
    assert loading.result().status == "finished"
    code, told = emr.run(late)
    assert code == 1
    assert "the run was cancelled, or treated as abandoned while it waited" in told
    assert emr.keys("segment-stage/") == []


# Ends that are not good


def test_an_interrupted_wait_cancels_the_step(emr: Emr) -> None:
    with pytest.raises(KeyboardInterrupt):
        emr.load(progress=Told(interrupt="run"))
    step = wait_for_step(emr.aws, emr.cluster)
    assert emr.steps.cancelled == [step["Id"]]
    assert emr.keys("segment-stage/") == []
    assert [line["error"] for line in emr.reports()] == ["KeyboardInterrupt"]
    code, told = emr.run(step)  # EMR does not stop an application that a step has started
    assert (code, emr.keys("segment-data/data/")) == (1, [])
    assert "the run was cancelled" in told


def test_a_job_that_runs_when_it_is_cancelled_commits_nothing(emr: Emr, tmp_path: Path) -> None:
    told = Told()
    loading = emr.begin(progress=told)
    step = wait_for_step(emr.aws, emr.cluster)
    log, there = tmp_path / "job.log", processes.Meet(tmp_path, "there", ("go",), "write")
    process = run_step(emr.aws, step, log, there)
    with processes.ended(process):
        processes.wait_for(tmp_path / "there")
        told.interrupt = "run"
        with pytest.raises(KeyboardInterrupt):
            loading.result()
        (tmp_path / "go").touch()
        assert processes.finish(process) == 1
    assert "the run was cancelled" in log.read_text()
    assert (emr.keys("segment-stage/"), emr.keys("segment-data/data/")) == ([], [])
    assert [line["error_code"] for line in emr.reports()] == [Conflict.code]


def test_a_failed_job_is_told_as_if_it_had_failed_here(emr: Emr) -> None:
    loading = emr.begin()
    step = wait_for_step(emr.aws, emr.cluster)
    beside = lakes.load([emr.folder / "raw"], emr.aws.settings(catalog="files"))
    assert beside.status == "finished"
    code, told = emr.run(step, state="FAILED")
    assert code == 1
    assert Conflict.code in told
    with pytest.raises(Conflict, match="committed first and loaded some of the same files"):
        loading.result()


def test_a_step_that_dies_without_a_word_names_its_log(emr: Emr) -> None:
    loading = emr.begin()
    step = wait_for_step(emr.aws, emr.cluster)
    log = f"logs/{emr.cluster}/steps/{step['Id']}/stderr.gz"
    emr.aws.client("s3").put_object(Bucket=emr.aws.bucket, Key=log, Body=b"")
    emr.steps.reasons[step["Id"]] = {"Reason": "Unknown Error.", "Message": "exit code 1"}
    emr.steps.states[step["Id"]] = "FAILED"
    with pytest.raises(Internal) as failed:
        loading.result()
    assert "failed: Unknown Error.: exit code 1" in str(failed.value)
    assert f"s3://{emr.aws.bucket}/{log}" in str(failed.value)
    assert emr.keys("segment-stage/") == []
    assert [line["status"] for line in emr.reports()] == ["failed"]


def test_a_log_that_is_not_there_yet_is_named_by_its_folder(emr: Emr) -> None:
    loading = emr.begin()
    step = wait_for_step(emr.aws, emr.cluster)
    emr.steps.states[step["Id"]] = "FAILED"
    folder = f"s3://{emr.aws.bucket}/logs/{emr.cluster}/steps/{step['Id']}/"
    with pytest.raises(Internal, match=folder):
        loading.result()


def test_a_job_that_stopped_right_after_its_commit_is_finished_here(emr: Emr) -> None:
    loading = emr.begin()
    step = wait_for_step(emr.aws, emr.cluster)
    process = run_step(emr.aws, step, emr.folder / "killed.log", Dies("publish"))
    with processes.ended(process):
        assert processes.finish(process) == 9
    assert emr.reports() == []
    emr.steps.states[step["Id"]] = "FAILED"
    result = loading.result()
    assert (result.status, result.counts.landed > 0) == ("finished", True)
    assert [line["status"] for line in emr.reports()] == ["finished"]
    assert emr.keys("segment-stage/") == []
