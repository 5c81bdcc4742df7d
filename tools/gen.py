"""Writes what the documentation takes from the code; with --figures, what was measured.

`gen.py` writes docs/cli.md and docs/settings.md, `gen.py --check` fails if they differ from that.
The figures are those of the last `make bench` (README) and `make chaos` (docs/chaos.md), so they
are written when asked for, and not checked.
"""

import argparse
import json
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import TypeVar, cast

from tidegate.cli.main import COMMANDS, Command
from tidegate.settings import ROWS, Setting

ROOT = Path(__file__).parents[1]
CLI = ROOT / "docs" / "cli.md"
SETTINGS = ROOT / "docs" / "settings.md"
README = ROOT / "README.md"
CHAOS = ROOT / "docs" / "chaos.md"
CONSISTENCY = ROOT / "docs" / "consistency.md"
RESULTS = ROOT / "benchmarks" / "results"
FAULTS = ROOT / "tests" / "chaos" / "results.json"
SCENARIOS = {
    "rls-memory": "Envoy's question over gRPC, counters in memory, 10,000 keys, one core",
    "rls-redis": "the same with Redis, exact",
    "rls-memory-5x3": "five limits over three descriptors, 10,000 tenants in the policy, in memory",
    "rls-redis-5x3": "the same with Redis, exact",
    "hot-key": "one key that is the whole load, with Redis, exact",
    "coalescing": "calls to the store shared by requests, against one for each, with Redis, exact",
    "cluster": "a Cluster of 3 masters, against one Redis and a call for each request, exact",
    "hot-key-local": "one key on 4 nodes, `consistency: local`",
    "hot-key-sharded": "one key on 3 masters, `{sharded: 8}` against exact on one slot",
    "store-death": "the store killed under 60 % load and started again",
    "deny-flood": "one client far over its limit, with Redis, exact",
    "accuracy": "percent of N over and under, in any traffic",
    "http-check": "`/v1/check` over HTTP, keep-alive, one core",
    "observability": "all metrics and the kept denials on, against all off",
    "idle-connections": "10,000 silent connections beside 100 busy ones",
    "latency": "open loop at 60 % of the peak, 60 s",
    "soak": "10 minutes at 60 %, the policy edited every 5 s",
    "script": "the script in a store, 16 decisions a call",
    "inproc-memory": "`hit(key)` in a Python process",
    "memory-per-counter": "1 million counters in memory, keys of 20 bytes",
}
"""The scenarios that have a bar, and what each measures."""

BESIDE = {
    "latency": {
        "undisturbed_s": "seconds that count",
        "whole_p99_us": "microseconds at p99 in all",
    },
    "soak": {"p99_us": "microseconds at p99"},
}
"""Figures without a bar that are shown beside those with one, where a result has them."""

_DISTURBED = ("generator was late", "cores were away", "were undisturbed")
_UNMEASURED = " is not measured: "

_INTRODUCTION = """\
# Commands

<!-- written by tools/gen.py from the code: do not edit -->

`tidegate COMMAND --help` says the same. `tidegate --version` prints the version.

Exit codes: 0 done, 1 the answer is no (invalid file, denied), 2 it cannot run.
"""
_SETTINGS = """\
## Settings

Of `serve`; some of `dev` too: [settings.md](settings.md) has them all.
"""
_ABOUT_SETTINGS = """\
# Settings

<!-- written by tools/gen.py from the code: do not edit -->

Each setting of `tidegate serve` can be said in three ways; the first that says it wins:

1. a flag: `--store-timeout 8ms`
2. an environment variable: `TIDEGATE_STORE_TIMEOUT=8ms`; an empty one says nothing
3. a settings file, named by `--config` or `TIDEGATE_CONFIG`, with one table:

```text
[serve]
policy = "shop.yaml"
workers = 2
store-timeout = "8ms"
```

Otherwise its default holds. `tidegate dev` takes the flags and variables of some of them, and reads
no file.

`tidegate config` takes the same flags, starts nothing, and prints what would be in force and where
it comes from; secrets are masked. With `--json` it is JSON. What `serve` would refuse it refuses,
too, but for the policy, which `tidegate validate` checks.

Mistakes are named all at once, with their place, and nothing starts: values that cannot be, files
that cannot be used, keys and `TIDEGATE_` variables that do not exist. (Those that Kubernetes sets
beside a Service called `tidegate` are let be.)

Times have a unit: `us`, `ms`, `s` or `min`. Others on the machine can read command lines, so say a
secret, such as the admin token or a store's password, by the environment or the file.

"""


Declared = TypeVar("Declared", bound=argparse.Action)


class _Recorder(argparse.ArgumentParser):
    """Keeps what a command declares."""

    def __init__(self, prog: str) -> None:
        self.declared: list[argparse.Action] = []
        super().__init__(prog=prog, add_help=False)

    def _add_action(self, action: Declared) -> Declared:
        self.declared.append(action)
        return super()._add_action(action)


def main() -> int:
    """Writes or checks."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; 1 if a file differs")
    parser.add_argument("--figures", action="store_true", help="write what was measured")
    asked = parser.parse_args()
    if asked.figures:
        README.write_text(with_table(README.read_text(), "figures", _figures()))
        CHAOS.write_text(with_table(CHAOS.read_text(), "faults", _faults()))
        CONSISTENCY.write_text(with_table(CONSISTENCY.read_text(), "figures", _accuracy()))
        return 0
    made = {CLI: cli_page(), SETTINGS: settings_page()}
    if not asked.check:
        for path, text in made.items():
            path.write_text(text)
        return 0
    stale = [path for path, text in made.items() if not path.exists() or path.read_text() != text]
    for path in stale:
        name = path.relative_to(ROOT)
        print(f"{name} is not what the code says: run python tools/gen.py", file=sys.stderr)
    return 1 if stale else 0


def cli_page() -> str:
    """The text of docs/cli.md."""
    parts = [_INTRODUCTION]
    parts += [_command(name, *about) for name, about in COMMANDS.items()]
    return "\n".join([*parts, _SETTINGS])


def settings_page() -> str:
    """The text of docs/settings.md."""
    lines = ["| setting | default | means |", "|---|---|---|"]
    lines += [f"| [{row.flag}](#{row.flag}) | {_default(row)} | {row.help} |" for row in ROWS]
    return "\n".join([_ABOUT_SETTINGS + "\n".join(lines), "", *map(_setting, ROWS)])


def with_table(page: str, name: str, rows: Iterator[str]) -> str:
    """A page with the table between the comments of that name written anew."""
    first, last = f"<!-- {name}:", f"<!-- end of {name} -->"
    before, _, rest = page.partition(first)
    comment, _, rest = rest.partition("\n")
    _, _, after = rest.partition(last)
    table = "\n".join(rows)
    return f"{before}{first}{comment}\n{table}\n{last}{after}"


def _command(name: str, module: str, summary: str) -> str:
    command = cast("Command", import_module(module))
    parser = _Recorder(f"tidegate {name}")
    command.add_arguments(parser)
    settings = [action for action in parser.declared if _is_setting(action)]
    others = [action for action in parser.declared if action not in settings]
    usage = " ".join(
        [f"tidegate {name}", *map(_usage, others), *(["[SETTINGS]"] if settings else [])]
    )
    lines = [f"## tidegate {name}\n", f"{summary[0].upper()}{summary[1:]}.\n"]
    lines += [f"```text\n{usage}\n```\n"]
    if others:
        lines += ["| argument | means |", "|---|---|"]
        lines += [f"| `{_spelled(action)}` | {_cell(action.help or '')} |" for action in others]
        lines += [""]
    if settings:
        lines += [f"Settings: {', '.join(map(_link, settings))}.\n"]
    if parser.epilog:
        lines += [f"```text\n{parser.epilog.strip()}\n```\n"]
    return "\n".join(lines)


def _is_setting(action: argparse.Action) -> bool:
    """Whether a row declared it: another command may have a flag of that name."""
    named = (row for row in ROWS if row.flag in action.option_strings)
    return any((action.help or "").startswith(row.help) for row in named)


def _setting(row: Setting) -> str:
    key = f", or `{row.name}` in the file" if row.is_in_file else ""
    unit = f"; counts {row.unit}" if row.unit else ""
    return (
        f"## {row.flag}\n\n{row.help[0].upper()}{row.help[1:]}.\n\n"
        f"`{row.flag} {row.metavar}`, or `{row.variable}`{key}. Takes {row.kind.form}{unit}."
        f" Default: {_default(row)}.\n"
    )


def _default(row: Setting) -> str:
    return f"`{row.default}`" if row.default else "none"


def _spelled(action: argparse.Action) -> str:
    if not action.option_strings:
        return _metavar(action)
    value = f" {_metavar(action)}" if action.nargs != 0 else ""
    return f"{action.option_strings[-1]}{value}".replace("|", "\\|")


def _usage(action: argparse.Action) -> str:
    if action.option_strings:
        return f"[{_spelled(action)}]".replace("\\|", "|")
    word = _metavar(action)
    forms = {"?": f"[{word}]", "*": f"[{word} …]", "+": f"{word} [{word} …]"}
    return forms.get(str(action.nargs), word)


def _metavar(action: argparse.Action) -> str:
    if action.choices:
        return "|".join(map(str, action.choices))
    return str(action.metavar or action.dest.upper())


def _link(action: argparse.Action) -> str:
    flag = action.option_strings[-1]
    return f"[{flag}](settings.md#{flag})"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _figures() -> Iterator[str]:
    """A line for each bar, then what disturbed the runs."""
    yield "| `ONLY=` | measures | bar | found |"
    yield "|---|---|---|---|"
    machines: set[str] = set()
    disturbed: list[str] = []
    for name, what in SCENARIOS.items():
        path = RESULTS / f"{name}.json"
        result = json.loads(path.read_text()) if path.exists() else {}
        bars = result.get("bars", [])
        machines |= {result["machine"]} if bars else set()
        if not bars:
            yield f"| `{name}` | {what} | | not measured here |"
        for at, bar in enumerate(bars):
            first = f"| `{name}` | {what}: " if at == 0 else "| | "
            found = _found(bar["value"], bar["op"], bar["bar"])
            yield f"{first}{_cell(bar['what'])} | {bar['op']} {bar['bar']:g} | {found} |"
        for system, figures in result.get("systems", {}).items() if bars else ():
            for figure, of in BESIDE.get(name, {}).items():
                if figure in figures:
                    yield f"| | {_cell(system)}: {of} | | {_shown(figures[figure])} |"
        disturbed += [
            f"- `{name}`: {_cell(note)}" for note in result.get("notes", ()) if _is_telling(note)
        ]
    if machines:
        yield f"\nMachine: {'; '.join(sorted(machines))}."
    if disturbed:
        yield "\nWhat disturbed the runs; a void turn is made again, and does not count:\n"
        yield from disturbed


def _is_telling(note: str) -> bool:
    """Whether a note says that machine or generator, and not the server, may have set a figure."""
    return any(words in note for words in _DISTURBED)


def _faults() -> Iterator[str]:
    if not FAULTS.exists():
        yield "No run is kept here: `make chaos` makes one."
        return
    found = json.loads(FAULTS.read_text())
    counts = ("asked", "degraded", "over", "over_in_all", "under", "twice", "lost", "errors")
    yield "| fault | asked | degraded | over | in all | under | twice | lost | errors | slowest |\
 free | normal | promised besides | held |"
    yield f"|---|{'---|' * (len(counts) + 5)}"
    for row in found["rows"]:
        fault = f"`{row['scenario']}`: {_cell(row['what'])}"
        if row.get("outcome", "run") != "run":
            empty = [""] * (len(counts) + 3)
            told = f"{row['outcome']}: {_cell(row['why'])}"
            yield f"| {' | '.join([fault, *empty, row['promise'], told])} |"
            continue
        cells = [fault, *(f"{row[it]:,}" for it in counts)]
        normal = "never" if row["normal_s"] is None else f"{row['normal_s']:.2f}"
        times = (f"{row[it]:.0f}" for it in ("slowest_ms", "slowest_free_ms"))
        cells += [*times, normal, row["promise"]]
        yield f"| {' | '.join(cells)} | {'yes' if row['held'] else '**no**'} |"
    missing = found.get("scenarios", len(found["rows"])) - len(found["rows"])
    if missing:
        yield f"\nThe run broke off: {missing} scenarios are missing."
    yield f"\nOn {found['date']}. Machine: {found['machine']}."


def _accuracy() -> Iterator[str]:
    """A line for each mode, algorithm and number of nodes; a column for each shape of traffic."""
    path = RESULTS / "accuracy.json"
    result = json.loads(path.read_text()) if path.exists() else {"systems": {}}
    rows: dict[tuple[str, str, str], dict[str, dict[str, float]]] = {}
    for name, figures in result["systems"].items():
        mode, algorithm, traffic, nodes = name.split(", ")
        row = rows.setdefault((mode, algorithm, nodes.removesuffix(" nodes")), {})
        row[traffic] = figures
    shapes = list(dict.fromkeys(shape for row in rows.values() for shape in row))
    yield f"| mode | algorithm | nodes | {' | '.join(shapes)} | bound | held |"
    yield "|---" * (5 + len(shapes)) + "|"
    for about, row in rows.items():
        bounds = [_pair(found, "_bound_percent") for found in row.values()]
        is_held = all(
            found[f"{what}_percent"] <= found[f"{what}_bound_percent"]
            for found in row.values()
            for what in ("over", "under")
        )
        cells = [_pair(row[shape], "_percent") if shape in row else "" for shape in shapes]
        held = "yes" if is_held else "no"
        yield f"| {' | '.join([*about, *cells, bounds[0], held])} |"
    if rows:
        notes = [note for note in result["notes"] if _UNMEASURED not in note]
        names = [note.partition(_UNMEASURED)[0] for note in result["notes"] if note not in notes]
        yield f"\n{'; '.join([*notes, *(f'{name} is not measured' for name in names)])}."


def _pair(figures: dict[str, float], ending: str) -> str:
    return " / ".join(f"{figures[what + ending]:.3g}" for what in ("over", "under"))


def _found(value: float | None, op: str, bar: float) -> str:
    if value is None:
        return "not measured here"
    is_held = value <= bar if op == "<=" else value >= bar
    found = _shown(value)
    return found if is_held else f"{found}, missed"


def _shown(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


if __name__ == "__main__":
    sys.exit(main())
