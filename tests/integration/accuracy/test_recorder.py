"""The recorder of the accuracy table asks real nodes, and the judge sees what they do."""

from collections.abc import Callable
from pathlib import Path

import pytest

from benchmarks.accuracy.judge import Verdict, judge
from benchmarks.accuracy.policy import ALGORITHMS, DOMAIN, MODES, entries, policy
from benchmarks.accuracy.recorder import record
from benchmarks.accuracy.rule import SECOND_US, Rule
from benchmarks.accuracy.traffic import Course, arrivals
from benchmarks.accuracy.wire import now_us, question
from tests.oracle.model import AlgorithmName
from tests.servers.tidegate import Tidegate
from tests.servers.valkey import StoreServer

N = 200
PERIOD_S = 100 * 24 * 3600
"""So long that no window ends meanwhile."""
Ask = Callable[[AlgorithmName, str | None], Verdict]


@pytest.fixture
def ask(tmp_path: Path) -> Ask:
    """Asks two nodes three times as much as a limit permits, and judges them."""

    def asked(algorithm: AlgorithmName, store: str | None) -> Verdict:
        rule = Rule(algorithm, N, PERIOD_S * SECOND_US)
        text = policy(MODES["exact"], N, PERIOD_S)
        homes = [tmp_path / f"{algorithm}-{number}" for number in range(2)]
        for home in homes:
            home.mkdir()
        with Tidegate(text, homes[0], store) as one, Tidegate(text, homes[1], store) as two:
            ports = [one.grpc_port, two.grpc_port]
            due = arrivals("at once", Course(rule, nodes=2, periods=0.4))
            due += [it._replace(due_us=it.due_us + 50_000) for it in due]
            # The shape begins a third of a period late; nobody waits for that here.
            early = [it._replace(due_us=it.due_us - due[0].due_us) for it in due]
            run = question(DOMAIN, entries(rule, "run"))
            recording = record(ports, run, sorted(early), now_us())
        assert not recording.errors
        assert not recording.degraded
        assert len(recording.exchanges) == len(due)
        return judge(rule, recording.exchanges)

    return asked


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_nodes_on_one_store_are_found_to_be_exact(
    ask: Ask, valkey: StoreServer, algorithm: AlgorithmName
) -> None:
    verdict = ask(algorithm, valkey.url)
    assert (verdict.over, verdict.under) == (0, 0)
    assert verdict.denied > N


def test_nodes_that_do_not_share_are_found_to_be_over(ask: Ask) -> None:
    verdict = ask("fixed_window", None)
    assert verdict.over == N
    assert verdict.under == 0
