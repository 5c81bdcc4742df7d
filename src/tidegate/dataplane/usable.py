"""Whether a node can be started with its settings: what only the engine and the files can tell."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING

from tidegate import _native
from tidegate.dataplane.traces import trust
from tidegate.errors import ConfigError
from tidegate.settings import raise_all
from tidegate.settings.forward_auth import read_doors

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tidegate.settings import InForce


_STATE = b"tgstate\n"
"""What each file of counters begins with."""


def check(in_force: InForce) -> None:
    """Looks at the store's URL and at all files that settings name, but for the policy.

    Nothing is started or connected to, so that `tidegate config` finds what `tidegate serve` would.

    Raises:
        ConfigError: if any cannot be used; names all, and who said them.
    """
    parts = (_store, _state, _doors, _certificates, _collector)
    raise_all([problem for part in parts for problem in part(in_force)])


def _store(in_force: InForce) -> Iterator[ConfigError]:
    settings = in_force.settings
    if settings.store is not None:
        wrong = _native.check_store(
            settings.store,
            prefix=f"{settings.prefix}:",
            deadline_us=settings.store_timeout_us,
            wait_replicas=settings.store_wait_replicas,
            store_batch=settings.store_batch,
        )
        if wrong is not None:
            yield ConfigError(wrong, path=in_force.where("store"))


def _doors(in_force: InForce) -> Iterator[ConfigError]:
    file = in_force.settings.forward_auth
    if file is None:
        return
    try:
        wrong = _native.check_doors(read_doors(file))
    except ConfigError as error:
        yield error
    else:
        if wrong is not None:
            yield ConfigError(wrong, path=file)


def _certificates(in_force: InForce) -> Iterator[ConfigError]:
    settings = in_force.settings
    if settings.tls_cert is None or settings.tls_key is None:
        return
    wrong = _native.check_certificates(
        settings.tls_cert,
        settings.tls_key,
        settings.tls_client_ca,
        list(settings.tls_client_uris or ()),
    )
    if wrong is not None:
        file, why = wrong
        named = {settings.tls_key: "tls-key", settings.tls_client_ca: "tls-client-ca"}
        yield ConfigError(why, path=in_force.where(named.get(file, "tls-cert")))


def _collector(in_force: InForce) -> Iterator[ConfigError]:
    if in_force.settings.otlp_ca is None:
        return
    try:
        trust(in_force.settings.otlp_ca)
    except ConfigError as error:
        yield ConfigError(error.message, path=in_force.where("otlp-ca"))


def _state(in_force: InForce) -> Iterator[ConfigError]:
    if in_force.settings.state_file is None:
        return
    file = Path(in_force.settings.state_file)
    where = in_force.where("state-file")
    if not file.parent.is_dir():
        yield ConfigError(f"there is no folder {file.parent}", path=where, hint="make it")
    elif file.is_dir() or not os.access(file.parent, os.W_OK | os.X_OK):
        hint = "name a file in a folder that this user may write"
        yield ConfigError(f"cannot be written: {file}", path=where, hint=hint)
    else:
        # At the stop, when counters go there, it would be too late.
        wrong = _is_other(file)
        if wrong:
            yield ConfigError(f"{wrong}: {file}", path=where, hint="choose another path")


def _is_other(file: Path) -> str:
    """Why a node would not write its counters over a file; empty if it would."""
    try:
        if not stat.S_ISREG(file.stat().st_mode):
            return "is no file"
        with file.open("rb") as opened:
            first = opened.read(len(_STATE))
    except FileNotFoundError:
        return ""
    except OSError as error:
        return f"cannot be read: {(error.strerror or str(error)).lower()}"
    return "" if first in {b"", _STATE} else "holds no counters, and stays"
