"""Masters that die or stand still."""

import os
import signal

from tests.chaos.arrangement import Arrangement, Loaded, until
from tests.chaos.scenario import Scenario, all_before, unreplicated
from tests.servers.cluster import info, told

_LAG = "at most what the replica did not have yet (rate x lag) is lost"


def kill_master(arrangement: Arrangement, loaded: Loaded) -> None:
    master = arrangement.master_of(0)
    replica = arrangement.replica_of(master)
    master.stop(signal.SIGKILL)
    loaded.ends()
    until(lambda: info(replica, "replication")["role"] == "master", "the fail-over")
    loaded.lasts()


def stop_master(arrangement: Arrangement, loaded: Loaded) -> None:
    master = arrangement.master_of(1)
    replica = arrangement.replica_of(master)
    os.kill(master.pid, signal.SIGSTOP)
    loaded.ends()
    until(lambda: info(replica, "replication")["role"] == "master", "the fail-over")
    loaded.lasts()
    # It wakes as the master that it was, with what was sent to it still to be read.
    os.kill(master.pid, signal.SIGCONT)
    until(lambda: info(master, "replication")["role"] == "slave", "the old master to yield")


def stall_master(arrangement: Arrangement, loaded: Loaded) -> None:
    master = arrangement.master_of(2)
    for _ in range(3):
        os.kill(master.pid, signal.SIGSTOP)
        loaded.lasts(0.25)
        os.kill(master.pid, signal.SIGCONT)
        loaded.lasts(0.25)
    loaded.ends()


def pause_clients(arrangement: Arrangement, loaded: Loaded) -> None:
    for master in arrangement.masters():
        told(master, "CLIENT", "PAUSE", round(arrangement.pace.during_s * 1000), "ALL")
    loaded.lasts()
    loaded.ends()


def sentinels_fail_over(arrangement: Arrangement, loaded: Loaded) -> None:
    dead = arrangement.watched.kill_master()
    loaded.ends()
    until(lambda: arrangement.watched.master() is not dead, "the fail-over")
    loaded.lasts()


def kill_store(arrangement: Arrangement, loaded: Loaded) -> None:
    for server in arrangement.stores:
        server.stop(signal.SIGKILL)
    loaded.lasts()
    for server in arrangement.stores:
        server.start()
    loaded.ends()


SCENARIOS = [
    Scenario(
        "kill-master",
        "kill -9 of a Cluster's master; its replica takes over",
        _LAG,
        kill_master,
        may_lose=unreplicated,
    ),
    Scenario(
        "stop-master",
        "a master stands still (SIGSTOP), is replaced, and wakes",
        _LAG,
        stop_master,
        may_lose=unreplicated,
        is_brief=False,
    ),
    Scenario(
        "stall-master",
        "a master stands still for 250 ms, three times",
        "nothing is lost",
        stall_master,
        is_brief=False,
    ),
    Scenario(
        "pause-clients",
        "all masters hold their clients (CLIENT PAUSE)",
        "nothing is lost",
        pause_clients,
        is_brief=False,
    ),
    Scenario(
        "kill-store",
        "kill -9 of all servers of a Cluster, which come back empty",
        "what was counted is lost, so at most that much is admitted again",
        kill_store,
        may_lose=all_before,
        is_brief=False,
    ),
    Scenario(
        "sentinel-failover",
        "kill -9 of a master that sentinels watch",
        _LAG,
        sentinels_fail_over,
        on="sentinels",
        may_lose=unreplicated,
        spends=True,
        is_brief=False,
    ),
]
