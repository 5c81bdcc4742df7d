"""All at once: small faults of many kinds, drawn by chance, that meet each other."""

import os
import random
import signal
from contextlib import suppress

import redis

from tests.chaos.arrangement import Arrangement, Loaded
from tests.chaos.scenario import Scenario, unreplicated
from tests.servers.cluster import told
from tests.servers.network import CLEAR, Weather

_STEP_S = 0.25
_SEED = 7


def storm(arrangement: Arrangement, loaded: Loaded) -> None:
    chance = random.Random(_SEED)
    kinds = [_cut, _hang, _slow, _lose, _stall, _forget_scripts, _move, _change_masters]
    for _ in range(round(5 * arrangement.pace.during_s / _STEP_S)):
        # What moves slots or masters may be refused while the last change is under way.
        with suppress(redis.ResponseError, StopIteration):
            chance.choice(kinds)(arrangement, loaded, chance)
        loaded.lasts(_STEP_S * chance.random())
        arrangement.network.clear()
        loaded.lasts(_STEP_S * chance.random())
    loaded.ends()


def _cut(arrangement: Arrangement, _: Loaded, chance: random.Random) -> None:
    chance.choice(arrangement.links()).cut()


def _hang(arrangement: Arrangement, _: Loaded, chance: random.Random) -> None:
    chance.choice(arrangement.links()).hang()


def _slow(arrangement: Arrangement, _: Loaded, chance: random.Random) -> None:
    for link in arrangement.links():
        link.set(CLEAR, Weather(delay_s=chance.choice([0.002, 0.01, 0.1])))


def _lose(arrangement: Arrangement, _: Loaded, chance: random.Random) -> None:
    for link in chance.sample(arrangement.links(), 3):
        link.set(*chance.choice([(CLEAR, Weather(is_lost=True)), (Weather(is_lost=True), CLEAR)]))


def _stall(arrangement: Arrangement, loaded: Loaded, chance: random.Random) -> None:
    master = chance.choice(arrangement.masters())
    os.kill(master.pid, signal.SIGSTOP)
    loaded.lasts(_STEP_S / 2)
    os.kill(master.pid, signal.SIGCONT)


def _forget_scripts(arrangement: Arrangement, _: Loaded, __: random.Random) -> None:
    for master in arrangement.masters():
        told(master, "SCRIPT", "FLUSH")


def _move(arrangement: Arrangement, loaded: Loaded, chance: random.Random) -> None:
    slot = chance.choice(loaded.keys).slot
    here = arrangement.cluster.master_of(slot)
    to = chance.choice([it for it in arrangement.masters() if it is not here])
    for _ in arrangement.cluster.steps_of_move(slot, to):
        loaded.lasts(0.02)


def _change_masters(arrangement: Arrangement, _: Loaded, chance: random.Random) -> None:
    told(arrangement.replica_of(chance.choice(arrangement.masters())), "CLUSTER", "FAILOVER")


SCENARIOS = [
    Scenario(
        "storm",
        "small faults of eight kinds by chance, slots and masters that change among them",
        "at most what a replica did not have yet is lost",
        storm,
        may_lose=unreplicated,
        spends=True,
        is_brief=False,
    ),
]
