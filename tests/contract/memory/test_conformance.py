"""The conformance cases, decided by a policy in this process."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pytest

from tests.oracle.conformance import Answer, Case, load_cases, run_case
from tidegate import Limiter

if TYPE_CHECKING:
    from tidegate.limiter import Policy


class InProcess:
    """A limiter on memory, whose clock the case sets."""

    def __init__(self) -> None:
        self._now_us = 0
        self._limiter = Limiter(clock=lambda: self._now_us / 1_000_000)
        self._policy: Policy | None = None
        self._text = b""

    def use(self, policy: str) -> None:
        self._text = policy.encode()
        self._policy = None

    def decide(
        self,
        now_us: int,
        domain: str,
        descriptors: Sequence[Mapping[str, str]],
        costs: Mapping[str, int],
        verb: str,
    ) -> Answer:
        self._now_us = now_us
        if self._policy is None:
            # A handle made anew: its counters are those of the one before.
            self._policy = self._limiter.policy(self._text, domain=domain)
        ask = getattr(self._policy, verb)
        decision = ask([dict(one) for one in descriptors], dict(costs))
        answer: dict[str, Any] = decision.as_dict()
        wait = decision.retry_after
        answer["retry_after_us"] = None if wait is None else round(wait * 1_000_000)
        for said, limit in zip(answer["limits"], decision.limits, strict=True):
            said["reset_us"] = round(limit.reset_after * 1_000_000)
        return answer


@pytest.mark.parametrize("case", load_cases(), ids=lambda case: case.name)
def test_a_policy_in_process_decides_the_case(case: Case) -> None:
    run_case(case, InProcess())
