"""How long a policy of many tenants takes from its bytes to its snapshot.

Each tenant has a plan and a dated override with a number of its own, the worst case for sharing.

    python benchmarks/policy_load.py [--tenants 10000] [--runs 5]
"""

from __future__ import annotations

import argparse
import statistics
import time

from tidegate.compiler import compile_document, compile_policy
from tidegate.policy.load import load_policy

HEAD = """\
version: 1
domains:
  shop:
    tenant_key: tenant
    limits:
      - {id: per-key, per: [tenant, api_key], missing: skip, rate: 1000/min, burst: 200}
      - {id: search, when: {route: /search}, per: [tenant], rate: 100/min}
      - {id: cluster, rate: 1M/min}
    plans:
      free: {per-key: {rate: 100/min}}
      pro: {per-key: {rate: 10k/min}}
    tenants:
"""
TENANT = """\
      tenant-{index:06}:
        plan: {plan}
        overrides:
          - limit: search
            rate: {rate}/min
            from: 2026-11-27T00:00:00-05:00
            until: 2026-12-{day:02}T00:00:00Z
            reason: launch week of tenant {index}
"""


def policy(tenants: int) -> bytes:
    """A policy file of that many tenants."""
    parts = [
        TENANT.format(
            index=index, plan=("free", "pro")[index % 2], rate=100 + index, day=1 + index % 28
        )
        for index in range(tenants)
    ]
    return (HEAD + "".join(parts)).encode()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tenants", type=int, default=10_000)
    parser.add_argument("--runs", type=int, default=5)
    args = parser.parse_args()
    data = policy(args.tenants)
    wall, cpu, compiling = [], [], []
    for _ in range(args.runs):
        begin, begin_cpu = time.perf_counter(), time.process_time()
        compiled = compile_policy(data, "policy")
        wall.append(time.perf_counter() - begin)
        cpu.append(time.process_time() - begin_cpu)
        if compiled.snapshot is None:
            raise SystemExit("\n".join(map(str, compiled.problems)))
        size = len(compiled.snapshot.data)
    document = load_policy(data).document
    if document is not None:
        begin = time.process_time()
        compile_document(document)
        compiling.append(time.process_time() - begin)
    print(f"{args.tenants:,} tenants, {len(data):,} bytes of YAML, {size:,} bytes of snapshot")
    print(f"parse + check + compile: {statistics.median(wall):.2f} s (median of {args.runs})")
    print(f"CPU time: {statistics.median(cpu):.2f} s, of that compiling {sum(compiling):.2f} s")


if __name__ == "__main__":
    main()
