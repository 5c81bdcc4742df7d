"""What lies in deploy/, and what `tidegate serve` would make of the arguments that stand there."""

import argparse
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from tests.docs.pages import ROOT
from tidegate.cli import serve
from tidegate.settings import Settings, read_settings

DEPLOY = ROOT / "deploy"
DRAIN_LIMIT_S = 10
"""How long a node takes at most, after its notice."""


def objects(folder: Path) -> Iterator[dict[str, Any]]:
    """All YAML documents of a folder."""
    for path in sorted(folder.glob("*.yaml")):
        yield from yaml.safe_load_all(path.read_text())


def settings_of(arguments: Sequence[str], environment: Mapping[str, str]) -> Settings:
    """The settings in force with these arguments of `tidegate`."""
    command, *flags = arguments
    assert command == "serve"
    parser = argparse.ArgumentParser(allow_abbrev=False)
    serve.add_arguments(parser)
    return read_settings(parser.parse_args(flags), environment)
