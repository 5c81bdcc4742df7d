"""The settings of a data plane: one table, for flags, environment, file, help and docs."""

from tidegate.settings.sources import (
    Found,
    InForce,
    Source,
    add_arguments,
    in_force,
    raise_all,
    read_settings,
)
from tidegate.settings.table import LOOPBACK_GRPC, LOOPBACK_HTTP, ROWS, Setting, Settings
from tidegate.settings.values import masked

__all__ = [
    "LOOPBACK_GRPC",
    "LOOPBACK_HTTP",
    "ROWS",
    "Found",
    "InForce",
    "Setting",
    "Settings",
    "Source",
    "add_arguments",
    "in_force",
    "masked",
    "raise_all",
    "read_settings",
]
