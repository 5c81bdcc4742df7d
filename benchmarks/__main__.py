"""`make bench`: runs the scenarios, one after another; `--only NAME` runs one."""

import argparse
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
SCENARIOS = {
    "rls-memory": "rls_memory.py",
    "rls-redis": "rls_redis.py",
    "rls-memory-5x3": "rls_memory_5x3.py",
    "rls-redis-5x3": "rls_redis_5x3.py",
    "hot-key": "hot_key.py",
    "coalescing": "coalescing.py",
    "cluster": "cluster.py",
    "hot-key-local": "hot_key_local.py",
    "hot-key-sharded": "hot_key_sharded.py",
    "deny-flood": "deny_flood.py",
    "store-death": "store_death.py",
    "accuracy": "accuracy",
    "latency": "latency.py",
    "http-check": "http_check.py",
    "idle-connections": "idle_connections.py",
    "soak": "soak.py",
    "observability": "observability.py",
    "script": "script.py",
    "inproc-memory": "inproc_memory.py",
    "memory-per-counter": "memory_per_counter.py",
    "matching": "matching.py",
    "policy-load": "policy_load.py",
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--only", choices=SCENARIOS, metavar="NAME", help=", ".join(SCENARIOS))
    only = parser.parse_args().only
    failed = []
    for name in [only] if only else SCENARIOS:
        print(f"== {name}", flush=True)
        run = subprocess.run([sys.executable, HERE / SCENARIOS[name]], check=False)
        if run.returncode:
            failed.append(name)
    if failed:
        print(f"did not run to the end: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
