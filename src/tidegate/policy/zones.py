"""Time zones by their IANA names, from the package `tzdata` alone.

The tables of the operating system are not asked, so that nodes of one version agree.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from zoneinfo import ZoneInfo

UTC = "UTC"


@cache
def zone_names() -> frozenset[str]:
    """All names, `UTC` among them."""
    return frozenset(files("tzdata").joinpath("zones").read_text("utf-8").split())


@cache
def load_zone(name: str) -> ZoneInfo:
    """The rules of a zone.

    Args:
        name: One of `zone_names`.
    """
    with files("tzdata").joinpath("zoneinfo", *name.split("/")).open("rb") as file:
        return ZoneInfo.from_file(file, key=name)
