"""What happens inside a store that stands: it is emptied, full, or busy with others' scripts."""

import threading
from contextlib import suppress

import redis

from tests.chaos.arrangement import Arrangement, Loaded, until
from tests.chaos.scenario import Scenario, all_before
from tests.servers.cluster import told
from tests.servers.valkey import StoreServer


def flush(arrangement: Arrangement, loaded: Loaded) -> None:
    for master in arrangement.masters():
        told(master, "FLUSHALL")
    loaded.ends()
    loaded.lasts()


def flush_scripts(arrangement: Arrangement, loaded: Loaded) -> None:
    for _ in range(5):
        for master in arrangement.masters():
            told(master, "SCRIPT", "FLUSH")
        loaded.lasts(arrangement.pace.during_s / 5)
    loaded.ends()


def fill(arrangement: Arrangement, loaded: Loaded) -> None:
    masters = arrangement.masters()
    for master in masters:
        told(master, "CONFIG", "SET", "maxmemory-policy", "noeviction", "maxmemory", "1")
    loaded.lasts()
    for master in masters:
        told(master, "CONFIG", "SET", "maxmemory", "0")
    loaded.ends()


def busy_script(arrangement: Arrangement, loaded: Loaded) -> None:
    master = arrangement.master_of(0)
    told(master, "CONFIG", "SET", "busy-reply-threshold", "100")
    script = threading.Thread(target=_runs_for_ever, args=(master,))
    script.start()
    # Shorter than what makes the others choose another master.
    loaded.lasts(min(0.6, arrangement.pace.during_s))
    with suppress(redis.ResponseError):
        until(lambda: told(master, "SCRIPT", "KILL"), "the script to be killed")
    script.join()
    loaded.ends()


def _runs_for_ever(master: StoreServer) -> None:
    with suppress(redis.ResponseError):
        told(master, "EVAL", "while true do end", 0)


SCENARIOS = [
    Scenario(
        "flushall",
        "FLUSHALL on all masters",
        "what was counted is lost, so at most that much is admitted again",
        flush,
        may_lose=all_before,
    ),
    Scenario(
        "script-flush",
        "SCRIPT FLUSH on all masters, five times",
        "nothing is lost; the script is loaded again within the call",
        flush_scripts,
    ),
    Scenario(
        "full-memory",
        "all masters at maxmemory with noeviction: OOM",
        "nothing is lost; what the store refuses, `on_store_failure` decides",
        fill,
    ),
    Scenario(
        "busy-script",
        "somebody's endless script on one master, until SCRIPT KILL: BUSY",
        "nothing is lost; the other shards are exact",
        busy_script,
        is_brief=False,
    ),
]
