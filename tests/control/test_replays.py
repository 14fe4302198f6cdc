"""Replays in chunks, beside the schedule, on both databases."""

from datetime import timedelta

import pytest

from eventlake.control.database import Database
from eventlake.control.replays import (
    Replay,
    ReplayRequest,
    add_replay,
    advance_replays,
    cancel_replay,
    get_replay,
    list_replays,
    resume_replay,
    start_replay,
)
from eventlake.control.run_kinds import ReplayParameters, cut_into_chunks
from eventlake.control.runs import Run, cancel_run, queue_run, retry_run
from eventlake.errors import Conflict, InvalidSettings, NotFound
from tests.clocks import SimulatedClock
from tests.control.world import World, ask_for

THREE_DAYS = {"since": "2026-02-01T10:00:00Z", "until": "2026-02-03T05:00:00Z"}


@pytest.fixture
def world(database: Database, clock: SimulatedClock) -> World:
    world = World(database, clock)
    world.add("web")
    return world


def add(world: World, **values: object) -> Replay:
    request = ReplayRequest.model_validate({"source": "web", "parameters": THREE_DAYS, **values})
    with world.database.write() as session:
        return add_replay(session, request, "ada", world.clock.now())


def show(world: World, replay: Replay) -> Replay:
    with world.database.read() as session:
        return get_replay(session, replay.id)


def advance(world: World) -> list[Replay]:
    with world.database.write() as session:
        return advance_replays(session, world.clock.now())


def start_chunk(world: World) -> Run:
    advance(world)
    [run] = world.start()
    return run


def do_chunks(world: World, count: int) -> list[Run]:
    """Run chunks to their end; return them."""
    done = []
    for _ in range(count):
        done.append(start_chunk(world))
        world.end(done[-1])
    advance(world)
    return done


def test_chunks_begin_and_end_at_multiples_of_their_length() -> None:
    parameters = ReplayParameters(since="2026-02-01T10:00:00Z", until="2026-02-03T05:00:00Z")
    chunks = [(one.since, one.until) for one in cut_into_chunks(parameters, 86_400)]
    assert chunks == [
        ("2026-02-01T10:00:00Z", "2026-02-02T00:00:00Z"),
        ("2026-02-02T00:00:00Z", "2026-02-03T00:00:00Z"),
        ("2026-02-03T00:00:00Z", "2026-02-03T05:00:00Z"),
    ]
    assert len(cut_into_chunks(parameters, 3600)) == 43
    assert cut_into_chunks(parameters, 0) == [parameters]


def test_a_replay_runs_chunk_by_chunk_to_its_end(world: World) -> None:
    replay = add(world)
    assert (replay.state, replay.chunks, replay.chunks_done) == ("running", 3, 0)
    runs = do_chunks(world, 3)
    assert [(run.kind, run.trigger, run.chunk, run.replay_id) for run in runs] == [
        ("replay", "replay", number, replay.id) for number in range(3)
    ]
    assert [run.parameters["since"][:10] for run in runs] == [
        "2026-02-01",
        "2026-02-02",
        "2026-02-03",
    ]
    done = show(world, replay)
    assert (done.state, done.chunks_done, done.ended_at) == ("finished", 3, world.clock.now())
    assert advance(world) == []


def test_syncs_run_between_the_chunks_and_beside_them(world: World) -> None:
    add(world)
    chunk = start_chunk(world)
    world.clock.sleep(2 * 3600)
    assert world.tick()
    [sync] = world.start()
    assert (sync.kind, sync.state) == ("sync", "running")
    world.end(sync)
    world.end(chunk)
    assert [run.kind for run in world.runs()] == ["replay", "sync"]


def ask_for_sync(world: World) -> None:
    with world.database.write() as session:
        queue_run(session, ask_for("web"), "ada", world.clock.now())


def test_no_sync_runs_beside_a_replay_that_changes_settings(world: World) -> None:
    ask_for_sync(world)
    [sync] = world.start()
    add(world, parameters={"all_time": True, "settings": {"date_partition": "day"}})
    advance(world)
    assert world.start() == []  # it waits for the sync
    world.end(sync)
    ask_for_sync(world)
    [rebuild] = world.start()
    assert (rebuild.kind, rebuild.trigger) == ("replay", "rebuild")
    assert world.start() == []
    world.end(rebuild)
    assert [run.kind for run in world.start()] == ["sync"]


def test_a_plan_is_made_first_on_request(world: World) -> None:
    replay = add(world, dry_run=True)
    assert (replay.state, replay.chunks, replay.plan) == ("planned", 3, None)
    [run] = world.start()
    assert (run.id, run.dry_run, run.lane) == (replay.plan_run, True, "plan")
    assert advance(world) == []
    world.end(run)
    with world.database.write() as session:
        started = start_replay(session, replay.id, world.clock.now())
    assert started.state == "running"
    assert start_chunk(world).chunk == 0
    with world.database.write() as session, pytest.raises(Conflict, match="only a planned one"):
        start_replay(session, replay.id, world.clock.now())


def test_cancelling_keeps_what_has_committed_and_resuming_does_the_rest(world: World) -> None:
    replay = add(world)
    do_chunks(world, 1)
    run = start_chunk(world)
    with world.database.write() as session:
        cancelled = cancel_replay(session, replay.id, world.clock.now(), "by ada")
    assert (cancelled.state, cancelled.chunks_done, cancelled.active_run) == (
        "cancelled",
        1,
        run.id,
    )
    ended = world.end(run, "failed", "EventLake.Conflict")
    assert ended
    assert (ended.state, ended.reason) == ("cancelled", "by ada")
    assert advance(world) == []
    assert world.start() == []
    with world.database.write() as session:
        with pytest.raises(Conflict, match="already"):
            cancel_replay(session, replay.id, world.clock.now())
        resume_replay(session, replay.id, world.clock.now())
    assert [run.chunk for run in do_chunks(world, 2)] == [1, 2]
    done = show(world, replay)
    assert (done.state, done.chunks_done) == ("finished", 3)


def test_a_chunk_that_commits_while_it_is_cancelled_counts(world: World) -> None:
    replay = add(world)
    run = start_chunk(world)
    with world.database.write() as session:
        cancel_replay(session, replay.id, world.clock.now())
    world.end(run, "finished")
    assert show(world, replay).chunks_done == 1
    with world.database.write() as session:
        resume_replay(session, replay.id, world.clock.now())
    assert [run.chunk for run in do_chunks(world, 2)] == [1, 2]


def test_a_chunk_that_fails_ends_the_replay_after_its_retries(world: World) -> None:
    replay = add(world)
    run = start_chunk(world)
    for minutes in (1, 5, 25):
        world.end(run, "failed", "EventLake.Unavailable", "no answer")
        assert advance(world) == []
        assert show(world, replay).state == "running"
        world.clock.sleep(timedelta(minutes=minutes).total_seconds())
        [run] = world.start()
    world.end(run, "failed", "EventLake.Unavailable", "no answer")
    [failed] = advance(world)
    assert (failed.state, failed.error, failed.chunks_done) == ("failed", "no answer", 0)
    with world.database.write() as session:
        with pytest.raises(Conflict, match="resume the replay"):
            retry_run(session, run.id, "ada", world.clock.now())
        resume_replay(session, replay.id, world.clock.now())
    do_chunks(world, 3)
    assert show(world, replay).state == "finished"


def test_cancelling_the_run_of_a_chunk_cancels_the_replay(world: World) -> None:
    replay = add(world)
    [run] = world.runs()
    with world.database.write() as session:
        cancel_run(session, run.id, world.clock.now())
    assert [one.state for one in advance(world)] == ["cancelled"]
    assert show(world, replay).state == "cancelled"


def test_another_run_of_the_lane_comes_between_chunks(world: World) -> None:
    add(world)
    chunk = start_chunk(world)
    with world.database.write() as session:
        asked = queue_run(session, ask_for("web", "compact"), "ada", world.clock.now(), wait=True)
    world.end(chunk)
    advance(world)
    [compaction] = world.start()
    assert (compaction.id, compaction.kind) == (asked.id, "compact")
    world.end(compaction)
    assert [run.chunk for run in do_chunks(world, 2)] == [1, 2]


def test_an_erasure_waits_for_the_chunk_and_goes_before_the_next(world: World) -> None:
    add(world)
    chunk = start_chunk(world)
    with world.database.write() as session:
        queue_run(session, ask_for("web", "forget"), "ada", world.clock.now())
    assert world.start() == []
    world.end(chunk)
    advance(world)
    [erasure] = world.start()
    assert erasure.kind == "forget"
    world.end(erasure)
    assert start_chunk(world).chunk == 1


def test_one_replay_of_a_source_runs_at_a_time(world: World) -> None:
    first = add(world)
    with pytest.raises(Conflict, match=f"replay {first.id} of source web runs"):
        add(world)
    world.add("ios")
    with world.database.write() as session:
        for source in ("ios", "web"):
            request = ReplayRequest(source=source, parameters={"all_time": True}, dry_run=True)
            add_replay(session, request, "ada", world.clock.now())
    with world.database.read() as session:
        assert [one.source for one in list_replays(session)] == ["web", "ios", "web"]
        assert [one.chunks for one in list_replays(session, "web", limit=1)] == [1]
        older = list_replays(session, "web", before=3)
        assert [one.id for one in older] == [first.id]
        with pytest.raises(NotFound):
            get_replay(session, 99)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"parameters": {}}, "give since and until"),
        ({"parameters": {"since": "1970-01-01", "until": "2026-01-01"}, "chunk": "hour"}, "10,000"),
        ({"source": "none"}, "no such source"),
    ],
)
def test_a_replay_that_cannot_be_is_refused(
    world: World, values: dict[str, object], message: str
) -> None:
    with pytest.raises(InvalidSettings, match=message):
        add(world, **values)
    assert world.runs() == []
