"""Slots that move, and a clock that does."""

import redis

from tests.chaos.arrangement import Arrangement, Loaded, until
from tests.chaos.scenario import Scenario
from tests.servers.cluster import id_of, info, told

_SLOTS = 4096


def reshard(arrangement: Arrangement, loaded: Loaded) -> None:
    source, to = arrangement.master_of(0), arrangement.master_of(1)
    used = [key.slot for key in loaded.keys if key.shard == 0]
    count = round(_SLOTS * arrangement.pace.share)
    slots = list(dict.fromkeys([*used, *range(_SLOTS)]))[:count]
    names = {server.port: id_of(server) for server in (source, to)}
    with redis.Redis(port=source.port) as giver, redis.Redis(port=to.port) as taker:
        for slot in slots:
            told_by = ("CLUSTER", "SETSLOT", slot)
            taker.execute_command(*told_by, "IMPORTING", names[source.port])
            giver.execute_command(*told_by, "MIGRATING", names[to.port])
            while keys := giver.execute_command("CLUSTER", "GETKEYSINSLOT", slot, 10):
                giver.execute_command(
                    *("MIGRATE", "127.0.0.1", to.port, "", 0, 5000, "KEYS", *keys)
                )
            # The receiver first: between the two nobody would serve the slot.
            for client in (taker, giver):
                client.execute_command(*told_by, "NODE", names[to.port])
    loaded.ends()


def set_clock(arrangement: Arrangement, loaded: Loaded) -> None:
    first = arrangement.master_of(0)
    behind = arrangement.replica_of(first)
    for server in (behind, first):
        told(server, "CLUSTER", "FAILOVER")
        until(lambda it=server: info(it, "replication")["role"] == "master", "the fail-over")  # type: ignore[misc]
        loaded.lasts()
        # The old one must follow before it can take over.
        until(
            lambda: all(
                it["role"] == "master" or it["master_link_status"] == "up"
                for it in (info(each, "replication") for each in (first, behind))
            ),
            "the copy",
        )
    loaded.ends()


SCENARIOS = [
    Scenario(
        "clock-back",
        "fail-over by command to a replica whose clock is 5 s behind, and back",
        "nothing is lost; each step of the clock begins at most one window more",
        set_clock,
        on="skewed",
        clock_steps=2,
        is_brief=False,
    ),
    Scenario(
        "reshard",
        "4,096 slots move to another master, key by key",
        "nothing is lost",
        reshard,
        spends=True,
    ),
]
