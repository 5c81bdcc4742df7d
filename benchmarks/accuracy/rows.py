"""One line of the table: a mode under a shape of traffic, and whether its bounds held."""

import json
from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from pathlib import Path

from benchmarks.accuracy.judge import Verdict
from benchmarks.accuracy.policy import MODES, Mode
from benchmarks.accuracy.rule import Rule
from benchmarks.harness import Bar, Figures

SIMULATED = "simulated"
HEADS = ("mode", "algorithm", "traffic", "nodes", "asked", "over", "under", "bound", "held")
_WIDTHS = (8, 15, 8, 14, 9, 9, 9, 16, 4)


@dataclass(frozen=True, slots=True)
class Row:
    """What was found, beside what is promised. Shares are percent of N."""

    mode: Mode
    rule: Rule
    traffic: str
    nodes: int
    is_simulated: bool
    verdict: Verdict

    @property
    def place(self) -> str:
        """How many nodes, and of which kind."""
        return f"{self.nodes} {SIMULATED}" if self.is_simulated else str(self.nodes)

    @property
    def is_held(self) -> bool:
        """Whether both bounds held."""
        over, under = self.mode.bounds(self.rule.n, self.nodes)
        return self.verdict.over <= over and self.verdict.under <= under

    @property
    def name(self) -> str:
        """How the results file calls it."""
        return f"{self.mode.name}, {self.rule.algorithm}, {self.traffic}, {self.place} nodes"

    @property
    def figures(self) -> Figures:
        """For the results file."""
        over, under = self.mode.bounds(self.rule.n, self.nodes)
        return {
            "asked": self.verdict.admitted + self.verdict.denied,
            "admitted": self.verdict.admitted,
            "over_percent": self._share(self.verdict.over),
            "under_percent": self._share(self.verdict.under),
            "wrong_denials": self.verdict.wrong,
            "over_bound_percent": self._share(over),
            "under_bound_percent": self._share(under),
        }

    def cells(self) -> tuple[str, ...]:
        """For the screen."""
        found = self.figures
        bound = f"{found['over_bound_percent']:.2f} / {found['under_bound_percent']:.2f} %"
        return (
            self.mode.name,
            self.rule.algorithm,
            self.traffic,
            self.place,
            f"{found['asked']:,.0f}",
            f"{found['over_percent']:.3f} %",
            f"{found['under_percent']:.3f} %",
            bound,
            "yes" if self.is_held else "NO",
        )

    def _share(self, units: int) -> float:
        return 100 * units / self.rule.n


def line(cells: Iterable[str]) -> str:
    """A line of the table, columns under columns."""
    return "  ".join(cell.ljust(width) for cell, width in zip(cells, _WIDTHS, strict=True))


def bars(rows: Iterable[Row]) -> list[Bar]:
    """For each mode, its worst."""
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(f"{row.mode.name}, {row.place} nodes", []).append(row)
    found = []
    for name, group in groups.items():
        for what, figure in (("admitted over", "over"), ("denied under", "under")):
            bound = min(row.figures[f"{figure}_bound_percent"] for row in group)
            worst = max(row.figures[f"{figure}_percent"] for row in group)
            found.append(Bar(f"{name}: {what}, percent of N", "<=", bound, worst))
    return found


def by_mode(figures: dict[str, Figures]) -> dict[str, Figures]:
    """In the order of the modes, whenever each was measured."""
    order = list(MODES)
    return dict(sorted(figures.items(), key=lambda it: order.index(it[0].partition(",")[0])))


def earlier(path: Path, measured: AbstractSet[str]) -> tuple[dict[str, Figures], list[Bar]]:
    """What a results file says of modes that were not measured anew: figures and bars."""
    if not path.exists():
        return {}, []
    found = json.loads(path.read_text())

    def stays(name: str) -> bool:
        return name.partition(",")[0] not in measured

    figures = {name: it for name, it in found["systems"].items() if stays(name)}
    kept = [Bar(**bar) for bar in found["bars"] if stays(bar["what"])]
    return figures, kept
