"""What every benchmark needs: CPU time of a process, fair turns, a table, the results file."""

import json
import os
import platform
import resource
import statistics
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

RESULTS = Path(__file__).parent / "results"
QUIET = 0.01
"""Share of a pair's time for which one core may be away from the machine."""

Figures = dict[str, float]
"""What one system did: `rate` in decisions a second, `server_cpu_us`, `store_cpu_us`, …"""


@dataclass(frozen=True, slots=True)
class Bar:
    """One promise: `value` must be `op` (">=" or "<=") `bar`."""

    what: str
    op: str
    bar: float
    value: float

    @property
    def is_met(self) -> bool:
        """Whether the promise holds."""
        return self.value >= self.bar if self.op == ">=" else self.value <= self.bar


@dataclass(frozen=True, slots=True)
class Usage:
    """What a process used while it was watched: CPU and wall time in microseconds."""

    cpu_us: float
    wall_us: float

    @property
    def share(self) -> float:
        """How much of one core that is; 1.0 is a saturated thread."""
        return self.cpu_us / self.wall_us


def cpu_us(pid: int) -> float:
    """The CPU time of all threads of a process so far, in microseconds."""
    total = 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        with suppress(FileNotFoundError, ProcessLookupError):
            total += int((task / "schedstat").read_text().split()[0])
    return total / 1000


def watch(pid: int, work: Callable[[], None]) -> Usage:
    """Runs `work` and says what the process `pid` used meanwhile."""
    cpu, wall = cpu_us(pid), time.perf_counter()
    work()
    return Usage(cpu_us(pid) - cpu, (time.perf_counter() - wall) * 1e6)


def pin(core: int, pid: int = 0) -> None:
    """Keeps a process (this one by default) on one core; does nothing where there is only one."""
    if core in os.sched_getaffinity(0) or core < (os.cpu_count() or 1):
        os.sched_setaffinity(pid, {core})


def take_turns(systems: Mapping[str, Callable[[], Figures]], rounds: int = 3) -> dict[str, Figures]:
    """Runs all systems one after another, `rounds` times, and takes the median of each figure."""
    runs: dict[str, list[Figures]] = {name: [] for name in systems}
    for _ in range(rounds):
        for name, run in systems.items():
            runs[name].append(run())
    return _medians(runs)


@dataclass(frozen=True, slots=True)
class Paired:
    """How many times as good one system is as another: CPU a decision, pair by pair of turns."""

    median: float
    lower: float
    upper: float
    pairs: int
    figures: dict[str, Figures]
    """The median of each figure of each system."""
    made: int
    """How many pairs these are the quietest of."""
    away: float
    """Share of their time for which the host kept a core from the machine, 0 to 1."""

    @property
    def note(self) -> str:
        """The spread, for the report."""
        ours, other = self.figures
        said = (
            f"{ours} to {other} is of server CPU a decision: median {self.median:.3f} of"
            f" {self.pairs} pairs, quartiles {self.lower:.3f} and {self.upper:.3f}"
        )
        if self.made == self.pairs:
            return said
        return f"{said}; the quietest of {self.made}, in which cores were away for {self.away:.1%}"


def paired_ratio(
    systems: Mapping[str, Callable[[], Figures]],
    pairs: int = 7,
    figure: str = "server_cpu_us",
) -> Paired:
    """Compares two systems that are nearly alike, by interleaved pairs of turns.

    What slows the machine for a while slows both turns of a pair, so their ratio stands. Who is
    first changes from pair to pair. What slows one turn alone is mostly the machine's host, which
    keeps a core from it: such pairs are made again, at most twice as many as are asked for, and the
    quietest count.

    Args:
        systems: Two: first the one that is judged, then the one that it is held against.
        pairs: How many pairs; 7 at least.
        figure: What is compared, of the kind where less is better.
    """
    if len(systems) != 2 or pairs < 7:
        raise ValueError("two systems and at least 7 pairs, so that the quartiles say something")
    made: list[tuple[float, dict[str, Figures]]] = []
    names = list(systems)
    while len(made) < 3 * pairs and sum(away <= QUIET for away, _ in made) < pairs:
        began, stolen = time.perf_counter(), stolen_seconds()
        turns = {name: systems[name]() for name in (names[::-1] if len(made) % 2 else names)}
        away = (stolen_seconds() - stolen) / (time.perf_counter() - began)
        made.append((away, turns))
    quietest = sorted(made, key=lambda pair: pair[0])[:pairs]
    runs = {name: [turns[name] for _, turns in quietest] for name in names}
    ours, other = runs.values()
    ratios = [b[figure] / a[figure] for a, b in zip(ours, other, strict=True)]
    lower, median, upper = statistics.quantiles(ratios, n=4, method="inclusive")
    away = statistics.mean(away for away, _ in quietest)
    return Paired(median, lower, upper, pairs, _medians(runs), len(made), away)


def _medians(runs: Mapping[str, list[Figures]]) -> dict[str, Figures]:
    return {
        name: {figure: statistics.median(run[figure] for run in taken) for figure in taken[0]}
        for name, taken in runs.items()
    }


def resident_bytes(pid: int) -> int:
    """The memory that a process holds."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def stolen_seconds() -> float:
    """For how long the host has kept cores from this machine: `steal` in /proc/stat."""
    first = Path("/proc/stat").read_text().partition("\n")[0].split()
    return int(first[8]) / os.sysconf("SC_CLK_TCK") if len(first) > 8 else 0.0


def allow_open_files(needed: int) -> None:
    """Lets this process and its children open so many files.

    Raises:
        RuntimeError: The machine does not permit it.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft >= needed:
        return
    if hard < needed:
        raise RuntimeError(f"{needed:,} open files are needed, {hard:,} permitted (ulimit -Hn)")
    resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))


def machine() -> str:
    """The machine in one line: processor, cores, kernel."""
    model = platform.processor() or platform.machine()
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                model = line.split(":", 1)[1].strip()
                break
    return f"{model}, {os.cpu_count()} cores, {platform.system()} {platform.release()}"


def write_results(
    scenario: str, systems: Mapping[str, Figures], bars: Iterable[Bar], notes: Sequence[str] = ()
) -> Path:
    """Writes benchmarks/results/SCENARIO.json and says where."""
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{scenario}.json"
    document: dict[str, object] = {
        "scenario": scenario,
        "machine": machine(),
        "systems": {
            name: {figure: round(value, 3) for figure, value in figures.items()}
            for name, figures in systems.items()
        },
        "bars": [
            {"what": bar.what, "op": bar.op, "bar": bar.bar, "value": round(bar.value, 3)}
            for bar in bars
        ],
    }
    if notes:
        document["notes"] = list(notes)
    path.write_text(json.dumps(document, indent=2) + "\n")
    return path


def print_report(
    scenario: str, systems: Mapping[str, Figures], bars: Iterable[Bar], notes: Sequence[str] = ()
) -> None:
    """Prints the figures as a table, a line for each system, and the bars under it."""
    names = list(dict.fromkeys(figure for figures in systems.values() for figure in figures))
    rows = [["system", *names]]
    for system, figures in systems.items():
        rows.append([system, *(_shown(figures[n]) if n in figures else "-" for n in names)])
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    print(f"\n{scenario} on {machine()}")
    for row in rows:
        cells = [row[0].ljust(widths[0])]
        cells += [cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)]
        print("  " + "  ".join(cells))
    for bar in bars:
        verdict = "holds" if bar.is_met else "MISSED"
        print(f"  {bar.what}: {_shown(bar.value)} (bar: {bar.op} {bar.bar:g}) {verdict}")
    for note in notes:
        print(f"  note: {note}")


def _shown(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:,.2f}"
