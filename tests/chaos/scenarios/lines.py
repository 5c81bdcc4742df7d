"""A bad network between nodes and their store."""

from tests.chaos.arrangement import NODES, Arrangement, Loaded
from tests.chaos.scenario import Scenario
from tests.servers.network import CLEAR, Weather

_FAR = Weather(delay_s=0.05)
_GONE = Weather(is_lost=True)


def slow_store(arrangement: Arrangement, loaded: Loaded) -> None:
    for link in arrangement.links():
        link.set(_FAR)
    loaded.lasts()
    arrangement.network.clear()
    loaded.ends()


def slow_answers(arrangement: Arrangement, loaded: Loaded) -> None:
    for link in arrangement.links():
        link.set(CLEAR, Weather(delay_s=0.1))
    loaded.lasts()
    arrangement.network.clear()
    loaded.ends()


def partition(arrangement: Arrangement, loaded: Loaded) -> None:
    master = arrangement.master_of(0)
    for server in (master, arrangement.replica_of(master)):
        arrangement.cluster.links[server.port].set(_GONE, only=NODES[0])
    loaded.lasts()
    arrangement.network.clear()
    loaded.ends()


def lost_answers(arrangement: Arrangement, loaded: Loaded) -> None:
    for link in arrangement.links():
        link.set(CLEAR, _GONE)
    loaded.lasts()
    arrangement.network.clear()
    loaded.ends()


def hung_sockets(arrangement: Arrangement, loaded: Loaded) -> None:
    for link in arrangement.links():
        link.hang()
    loaded.ends()
    loaded.lasts()


def cut(arrangement: Arrangement, loaded: Loaded) -> None:
    for link in arrangement.links():
        # So that most cuts meet answers that are on their way: what was charged is not known then.
        link.set(CLEAR, Weather(delay_s=0.002))
    for _ in range(20):
        for link in arrangement.links():
            link.cut()
        loaded.lasts(arrangement.pace.during_s / 20)
    arrangement.network.clear()
    loaded.ends()


SCENARIOS = [
    Scenario(
        "slow-store",
        "50 ms each way to all of the store",
        "nothing is lost; once the breakers are open nobody waits",
        slow_store,
    ),
    Scenario(
        "slow-answers",
        "what is asked arrives at once, answers 100 ms later",
        "nothing is lost; what was charged too late for its request is charged once",
        slow_answers,
        is_brief=False,
    ),
    Scenario(
        "partition",
        "one node and one of three shards lose each other, without a word",
        "nothing is lost; the other node and the other shards are exact",
        partition,
    ),
    Scenario(
        "lost-answers",
        "what is asked arrives, no answer does",
        "nothing is lost; what was charged is charged once",
        lost_answers,
        is_brief=False,
    ),
    Scenario(
        "hung-sockets",
        "all connections to the store fall silent for ever; new ones work",
        "nothing is lost; they are given up half a second later, and made anew",
        hung_sockets,
    ),
    Scenario(
        "cut",
        "all connections to the store are reset, twenty times, with answers on their way",
        "nothing is lost; what had its answer cut off is charged once",
        cut,
    ),
]
