"""Runs the cases of conformance/ against anything that decides."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any, Protocol

from tests.oracle.model import NEVER, Op, Outcome
from tests.oracle.planning import Asked, Descriptor, Met, Verb, plan
from tests.oracle.request import Oracle
from tidegate.compiler import compile_policy

CASES = Path(__file__).parents[2] / "conformance"
START_US = 1_764_547_200_000_000
"""2025-12-01T00:00:00Z, which `at` counts from."""

Answer = Mapping[str, Any]
"""A decision as JSON. Times in `_us` are compared as they are, in `_ms` rounded up."""

OK = {"allowed": True, "reason": "ok", "retry_after_us": None}


class Subject(Protocol):
    """What is under test: one engine behind one door, with fresh counters and a clock to set."""

    def use(self, policy: str) -> None:
        """Takes a policy file, at first or in place of another; counters stay."""

    def decide(
        self,
        now_us: int,
        domain: str,
        descriptors: Sequence[Descriptor],
        costs: Mapping[str, int],
        verb: Verb,
    ) -> Answer:
        """Decides one request: `allowed`, `reason`, `retry_after_us` (or `_ms`), `limits`.

        Each of `limits` has `id`, `allowed`, `remaining`, `reset_us` (or `_ms`).
        """


@dataclass(frozen=True, slots=True)
class Step:
    """One request, and the policy that is in force from it on if that changes."""

    now_us: int
    policy: str | None
    descriptors: tuple[Descriptor, ...]
    costs: Mapping[str, int]
    verb: Verb
    expect: Answer


@dataclass(frozen=True, slots=True)
class Case:
    """One file of conformance/."""

    name: str
    why: str
    domain: str
    policy: str
    steps: tuple[Step, ...]


def load_cases(folder: Path = CASES) -> list[Case]:
    """All cases, by name."""
    return [_case(json.loads(path.read_text())) for path in sorted(folder.glob("**/*.json"))]


def run_case(case: Case, subject: Subject) -> None:
    """Asks the subject step by step; fails at the first answer that differs."""
    subject.use(case.policy)
    for number, step in enumerate(case.steps, start=1):
        if step.policy is not None:
            subject.use(step.policy)
        answer = subject.decide(step.now_us, case.domain, step.descriptors, step.costs, step.verb)
        said = _alike(answer, step.expect)
        expected = _alike(step.expect, answer)
        assert said == expected, f"{case.name}, step {number} ({case.why})"


def _case(content: dict[str, Any]) -> Case:
    return Case(
        name=content["name"],
        why=content["why"],
        domain=content["domain"],
        policy=_text(content["policy"]),
        steps=tuple(_step(step) for step in content["steps"]),
    )


def _step(content: dict[str, Any]) -> Step:
    at = content.get("at_us", int(Decimal(content.get("at", "0")) * 1_000_000))
    cost = content.get("cost", 1)
    return Step(
        now_us=START_US + at,
        policy=_text(content["policy"]) if "policy" in content else None,
        descriptors=tuple(content["descriptors"]),
        costs=cost if isinstance(cost, dict) else {"requests": cost},
        verb=content.get("action", "hit"),
        expect=content["expect"],
    )


def _text(lines: str | list[str]) -> str:
    return lines if isinstance(lines, str) else "\n".join(lines) + "\n"


def _alike(answer: Answer, other: Answer) -> Answer:
    """What both sides say, at the finer unit that both can give."""
    names = {"allowed", "reason", "id", "remaining", "limit", "shadow", "binding"}
    alike: dict[str, Any] = {name: answer[name] for name in names & answer.keys() & other.keys()}
    for time in ("retry_after", "reset"):
        if f"{time}_us" in answer.keys() & other.keys():
            alike[time] = answer[f"{time}_us"]
        elif f"{time}_ms" in answer:
            alike[time] = answer[f"{time}_ms"]
        elif f"{time}_us" in answer:
            us = answer[f"{time}_us"]
            alike[time] = None if us is None else -(-us // 1000)
    if "limits" in answer:
        blank: list[Answer] = [{}] * len(answer["limits"])
        pairs = zip(answer["limits"], (other["limits"] + blank), strict=False)
        alike["limits"] = [_alike(one, match or one) for one, match in pairs]
    return alike


class PlannedSubject:
    """The plain planner in front of a store that decides operations: the oracle, or a script."""

    def __init__(self, decide: Callable[[int, Sequence[Op]], Sequence[Outcome]]) -> None:
        self._decide = decide
        self._snapshot: Any = None

    @classmethod
    def of_oracle(cls) -> "PlannedSubject":
        """On the oracle."""
        return cls(Oracle().decide)

    def use(self, policy: str) -> None:
        compiled = compile_policy(policy)
        assert compiled.snapshot is not None, compiled.problems
        self._snapshot = json.loads(compiled.snapshot.data)

    def decide(
        self,
        now_us: int,
        domain: str,
        descriptors: Sequence[Descriptor],
        costs: Mapping[str, int],
        verb: Verb,
    ) -> Answer:
        met = plan(self._snapshot, now_us, domain, Asked(descriptors, costs, verb))
        asked = iter(self._decide(now_us, [one.op for one in met if one.verdict == "ask"]))
        shut = Outcome(fits=False, remaining=0, wait_us=NEVER, reset_us=0)
        return conclude(met, [next(asked) if one.verdict == "ask" else shut for one in met])


def conclude(met: Sequence[Met], outcomes: Sequence[Outcome]) -> Answer:
    """The answer from what each limit says: the denying one that frees last gives the reason."""
    denying = [
        (one, outcome)
        for one, outcome in zip(met, outcomes, strict=True)
        if not outcome.fits and not one.shadow
    ]
    summary: dict[str, Any] = dict(OK)
    if denying:
        one, last = max(denying, key=lambda pair: (pair[1].wait_us == NEVER, pair[1].wait_us))
        never = "cost_exceeds_limit" if one.verdict == "ask" else one.verdict
        is_never = last.wait_us == NEVER
        summary["allowed"] = False
        summary["reason"] = never if is_never else "over_limit"
        waits = [
            outcome.wait_us for one, outcome in zip(met, outcomes, strict=True) if not one.shadow
        ]
        summary["retry_after_us"] = None if is_never else max(waits)
    summary["limits"] = [
        {
            "id": one.id,
            "allowed": outcome.fits,
            "remaining": outcome.remaining,
            "reset_us": outcome.reset_us,
        }
        for one, outcome in zip(met, outcomes, strict=True)
    ]
    return summary
