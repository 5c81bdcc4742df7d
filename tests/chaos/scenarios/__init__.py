"""All faults; those on one store follow each other, the last leaves it another than it was."""

from tests.chaos.scenario import Scenario
from tests.chaos.scenarios import contents, deaths, lines, moves, nodes, storm

ALL: dict[str, Scenario] = {
    scenario.name: scenario
    for on in ("cluster", "skewed", "sentinels")
    for part in (lines, contents, nodes, deaths, storm, moves)
    for scenario in part.SCENARIOS
    if scenario.on == on
}
