"""A crowd of connections leaves the node the files that it needs itself."""

import resource

import pytest

from tidegate.dataplane.files import connections_that_fit

NO_LIMIT = resource.RLIM_INFINITY


@pytest.mark.parametrize(
    ("limits", "raised", "fits"),
    [
        ((1024, 524_288), (10_064, 524_288), 10_000),
        ((1024, NO_LIMIT), (10_064, NO_LIMIT), 10_000),
        ((1024, 4096), (4096, 4096), 4032),
        ((128, 128), (128, 128), 64),
        ((16, 16), (16, 16), 1),
        ((65_536, 65_536), None, 10_000),
        ((NO_LIMIT, NO_LIMIT), None, 10_000),
    ],
)
def test_the_limit_is_raised_as_far_as_it_may_and_some_files_are_kept_back(
    monkeypatch: pytest.MonkeyPatch,
    limits: tuple[int, int],
    raised: tuple[int, int] | None,
    fits: int,
) -> None:
    changes: list[tuple[int, int]] = []
    monkeypatch.setattr(resource, "getrlimit", lambda _: limits)
    monkeypatch.setattr(resource, "setrlimit", lambda _, to: changes.append(to))
    assert connections_that_fit(10_000, workers=1) == fits
    assert changes == ([raised] if raised else [])
