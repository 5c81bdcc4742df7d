"""Runs one mode after another shape of traffic, on real nodes or on simulated ones."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count

from benchmarks.accuracy import policy
from benchmarks.accuracy.judge import judge
from benchmarks.accuracy.modes import node_of
from benchmarks.accuracy.nodes import running
from benchmarks.accuracy.policy import MODES, Mode
from benchmarks.accuracy.recorder import record
from benchmarks.accuracy.rows import Row
from benchmarks.accuracy.rule import SECOND_US, Exchange, Rule
from benchmarks.accuracy.simulator import simulate
from benchmarks.accuracy.traffic import SHAPES, Course, arrivals
from benchmarks.accuracy.wire import now_us, question
from benchmarks.turns import VOID_TURNS, System, VoidError

PERIOD_S = 2
AHEAD_US = 300_000
"""Before a run begins, so that its first question is not late."""
SAME_AS = {"auto": "local"}
"""A hot key under `auto` is `local`; the simulator has no other."""


@dataclass(frozen=True, slots=True)
class Scope:
    """What a mode is tried with.

    Args:
        nodes: How many.
        n: The limit, per two seconds.
        periods: The length of each run.
        algorithms: Those of them that the mode takes.
        traffic: The shapes.
    """

    nodes: int
    n: int
    periods: float = 3.0
    algorithms: tuple[str, ...] = policy.ALGORITHMS
    traffic: tuple[str, ...] = tuple(SHAPES)

    def rules(self, mode: Mode) -> Iterator[Rule]:
        """The limits."""
        for algorithm in mode.algorithms:
            if algorithm in self.algorithms:
                yield Rule(algorithm, self.n, PERIOD_S * SECOND_US)


def real(scope: Scope, mode: Mode) -> Iterator[Row]:
    """What real nodes do.

    Raises:
        VoidError: Answers failed, or were given without the store, again and again.
    """
    text = policy.policy(mode, scope.n, PERIOD_S)
    settle = mode.name != "exact"
    runs = count()
    with running(text, scope.nodes, in_cluster=mode.needs_cluster, settle=settle) as found:
        for rule in scope.rules(mode):
            for shape in scope.traffic:
                course = Course(rule, scope.nodes, scope.periods)
                for _ in range(VOID_TURNS):
                    asked = policy.entries(rule, f"{shape}-{next(runs)}")
                    seen = _run(found, course, shape, question(policy.DOMAIN, asked))
                    if seen is not None:
                        break
                else:
                    raise VoidError(f"{mode.name}, {rule.algorithm}, {shape}: see above")
                verdict = judge(rule, seen)
                yield Row(mode, rule, shape, scope.nodes, is_simulated=False, verdict=verdict)


def simulated(scope: Scope, mode: Mode) -> Iterator[Row]:
    """What many nodes would do."""
    node = node_of(MODES[SAME_AS.get(mode.name, mode.name)])
    shards = mode.parts if mode.needs_cluster else 1
    for rule in scope.rules(mode):
        for shape in scope.traffic:
            due = arrivals(shape, Course(rule, scope.nodes, scope.periods))
            verdict = judge(rule, simulate(rule, scope.nodes, node, due, shards).seen)
            yield Row(mode, rule, shape, scope.nodes, is_simulated=True, verdict=verdict)


def _run(found: list[System], course: Course, shape: str, asked: bytes) -> list[Exchange] | None:
    """One run that begins with a window; none if something went wrong."""
    due = arrivals(shape, course)
    ports = [node.server.port for node in found]
    begin = (course.rule.window(now_us() + AHEAD_US) + 1) * course.rule.period_us
    recording = record(ports, asked, due, begin)
    if recording.errors or recording.degraded:
        errors = dict(recording.errors) | {"degraded": recording.degraded}
        print(f"void: {course.rule.algorithm}, {shape}: {errors}", flush=True)
        return None
    return recording.exchanges
