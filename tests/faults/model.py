"""A model of plan, commit, publish and recovery, small enough to try every interleaving.

Several runs of one source share a ledger and stages. Each takes one step at a time, and may die
between any two. A step is what the code does without another process being able to come between:
reading the ledger, putting one object, removing one stage. `explore` visits every state that can
be reached and returns the first in which a committed run's files are in neither the stage nor the
table.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import Enum

NOBODY = frozenset[int]()


class Order(Enum):
    """The order in which recovery reads the ledger and the stages."""

    LEDGER_FIRST = "ledger first"
    """Read the ledger, find dead runs, read the ledger again for the plan."""
    STAGES_FIRST = "stages first"
    """Find dead runs, then read the ledger once, for recovery and plan (`plan.recover`)."""


class GiveUp(Enum):
    """What a run does with its stage when the answer to its commit was lost."""

    REMOVES = "removes"
    """Removes the stage if the ledger does not have its commit."""
    LEAVES = "leaves"
    """Leaves the stage to the next run (`sync.fail_run`)."""


@dataclass(frozen=True)
class Rules:
    """What is modelled."""

    order: Order = Order.STAGES_FIRST
    fail_run: GiveUp = GiveUp.LEAVES
    suspects_living: bool = False
    """Whether a living run may seem dead, as after a long pause."""
    loses_answers: bool = False
    """Whether a commit's put may be applied after its process stopped waiting for the answer."""


@dataclass(frozen=True)
class Run:
    """One process and what it knows."""

    step: str = "begin"
    alive: bool = True
    dead: frozenset[int] = NOBODY
    """Runs that seemed dead to it."""
    committed: frozenset[int] = NOBODY
    """Runs whose commits it saw when it read the ledger for recovery."""
    base: int = 0
    abandons: frozenset[int] = NOBODY


@dataclass(frozen=True)
class World:
    """The shared state, and the processes."""

    runs: tuple[Run, ...]
    ledger: tuple[tuple[int, frozenset[int]], ...] = ()
    """Each commit: its run, and the runs that it abandons."""
    staged: frozenset[int] = NOBODY
    published: frozenset[int] = NOBODY
    in_flight: frozenset[tuple[int, int, frozenset[int]]] = frozenset()
    """Puts without an answer: the sequence, the run, what it abandons."""

    @property
    def committed(self) -> frozenset[int]:
        return frozenset(run for run, _ in self.ledger)

    @property
    def lost(self) -> frozenset[int]:
        """Committed runs whose files are nowhere."""
        return self.committed - self.staged - self.published

    def with_run(self, number: int, **changes: object) -> "World":
        runs = list(self.runs)
        runs[number] = replace(runs[number], **changes)  # type: ignore[arg-type]
        return replace(self, runs=tuple(runs))


def explore(processes: int, rules: Rules) -> tuple[World | None, int]:
    """The first world found with a loss, or None; and how many worlds there are."""
    first = World(tuple(Run() for _ in range(processes)))
    known, waiting = {first}, [first]
    while waiting:
        world = waiting.pop()
        if world.lost:
            return world, len(known)
        for following in successors(world, rules):
            if following not in known:
                known.add(following)
                waiting.append(following)
    return None, len(known)


def successors(world: World, rules: Rules) -> Iterator[World]:
    for number, run in enumerate(world.runs):
        if run.alive and run.step != "done":
            yield world.with_run(number, alive=False)
            yield from take_step(world, number, run, rules)
    for sequence, number, abandons in world.in_flight:
        if len(world.ledger) == sequence - 1:
            yield replace(
                world,
                ledger=(*world.ledger, (number, abandons)),
                in_flight=world.in_flight - {(sequence, number, abandons)},
            )


def take_step(world: World, number: int, run: Run, rules: Rules) -> Iterator[World]:
    if run.step == "begin":
        yield from begin(world, number, rules)
    elif run.step == "look":
        yield from look(world, number, rules, then="recover")
    elif run.step == "read":
        seen = world.with_run(number, committed=world.committed, base=len(world.ledger))
        yield seen.with_run(number, step="recover")
    elif run.step == "recover":
        yield from recover(world, number, run, rules)
    elif run.step == "stage":
        abandons = run.dead - run.committed
        staged = replace(world, staged=world.staged | {number})
        yield staged.with_run(number, step="commit", abandons=abandons)
    elif run.step == "commit":
        yield from commit(world, number, run, rules)
    elif run.step == "give up":
        yield from fail_run(world, number, rules)
    elif run.step == "publish":
        yield replace(world, published=world.published | {number}).with_run(number, step="clean")
    elif run.step == "clean":
        yield from clean(world, number, run)


def begin(world: World, number: int, rules: Rules) -> Iterator[World]:
    if rules.order is Order.LEDGER_FIRST:
        yield world.with_run(number, step="look", committed=world.committed)
    else:
        yield from look(world, number, rules, then="read")


def look(world: World, number: int, rules: Rules, then: str) -> Iterator[World]:
    """Which stages belong to dead runs; a living one may or may not seem dead."""
    others = world.staged - {number}
    dead = frozenset(other for other in others if is_over(world.runs[other]))
    seen = [dead]
    if rules.suspects_living:
        seen += [dead | {other} for other in others - dead]
    for one in seen:
        yield world.with_run(number, step=then, dead=one)


def is_over(run: Run) -> bool:
    return not run.alive or run.step == "done"


def recover(world: World, number: int, run: Run, rules: Rules) -> Iterator[World]:
    """Publish and clean the dead that had committed, one at a time; then plan."""
    behind = sorted((run.dead & run.committed) & world.staged)
    if behind:
        other = behind[0]
        abandons = next(abandons for who, abandons in world.ledger if who == other)
        yield replace(
            world,
            published=world.published | {other},
            staged=world.staged - {other} - abandons,
        )
        return
    if rules.order is Order.LEDGER_FIRST:  # the plan reads the ledger again
        yield world.with_run(number, step="stage", base=len(world.ledger))
    else:
        yield world.with_run(number, step="stage")


def commit(world: World, number: int, run: Run, rules: Rules) -> Iterator[World]:
    """Put the next sequence if absent; else take the newer commits into account, one by one."""
    if len(world.ledger) == run.base:
        put = replace(world, ledger=(*world.ledger, (number, run.abandons)))
        yield put.with_run(number, step="publish")
        if rules.loses_answers:
            late = (run.base + 1, number, run.abandons)
            waiting = replace(world, in_flight=world.in_flight | {late})
            yield waiting.with_run(number, step="give up")
        return
    other, abandons = world.ledger[run.base]
    if number in abandons:  # a definite conflict: this run never commits
        yield replace(world, staged=world.staged - {number}).with_run(number, step="done")
    else:
        yield world.with_run(number, base=run.base + 1, abandons=run.abandons - {other})


def fail_run(world: World, number: int, rules: Rules) -> Iterator[World]:
    staged = world.staged
    if rules.fail_run is GiveUp.REMOVES and number not in world.committed:
        staged = staged - {number}
    yield replace(world, staged=staged).with_run(number, step="done")


def clean(world: World, number: int, run: Run) -> Iterator[World]:
    """Remove one stage at a time, this run's own last."""
    left = sorted(run.abandons & world.staged) or [number]
    done = replace(world, staged=world.staged - {left[0]})
    yield done.with_run(number, step="done") if left[0] == number else done
