"""The feed of a policy file: every way a file changes, and nothing half-written."""

from __future__ import annotations

import json
import os
import shutil
import signal
import threading
import time
from typing import TYPE_CHECKING

import pytest

from tidegate.compiler import compile_policy
from tidegate.dataplane import feed as feed_module
from tidegate.dataplane.feed import Failed, FeedEvent, Loaded, PolicyFeed

if TYPE_CHECKING:
    from pathlib import Path


def policy(n: int, comment: str = "") -> str:
    return f"version: 1\ndomains: {{shop: {{limits: [{{id: a, rate: {n}/min}}]}}}}\n{comment}"


BAD = "version: 1\ndomains: {shop: {limits: [{id: a, rate: 5/fortnight}]}}\n"


def n_of(event: FeedEvent | None) -> int:
    assert isinstance(event, Loaded), event
    (domain,) = json.loads(event.snapshot.data)["domains"]
    n = domain["limits"][0]["numbers"]["n"]
    assert isinstance(n, int)
    return n


def settled(feed: PolicyFeed) -> list[FeedEvent]:
    """The events of as many looks as a change may need, and some more."""
    return [event for event in (feed.poll() for _ in range(6)) if event is not None]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "shop.yaml"
    path.write_text(policy(5))
    return path


@pytest.fixture
def feed(file: Path) -> PolicyFeed:
    """A feed that has told what the file is at first."""
    feed = PolicyFeed(file)
    assert n_of(feed.poll()) == 5
    assert settled(feed) == []
    return feed


def test_the_first_event_is_what_the_file_is_now(file: Path) -> None:
    event = PolicyFeed(file).next_change(timeout=0)
    assert n_of(event) == 5
    assert isinstance(event, Loaded)
    assert event.document.domains["shop"].limits[0].id == "a"
    assert event.problems == ()


def test_warnings_come_with_the_snapshot(file: Path) -> None:
    file.write_text("version: 1\ndomains: {s: {limits: [{id: a, per: [user], rate: 1/s}]}}")
    event = PolicyFeed(file).poll()
    assert isinstance(event, Loaded)
    assert [problem.is_error for problem in event.problems] == [False]


def test_an_edit_in_place_is_one_event(feed: PolicyFeed, file: Path) -> None:
    file.write_text(policy(60))
    assert [n_of(event) for event in settled(feed)] == [60]


def test_a_rename_over_is_one_event(feed: PolicyFeed, file: Path) -> None:
    fresh = file.with_name(".shop.yaml.swp")
    fresh.write_text(policy(7))
    fresh.replace(file)
    assert [n_of(event) for event in settled(feed)] == [7]


def test_an_edit_that_keeps_size_and_time_is_seen(feed: PolicyFeed, file: Path) -> None:
    before = file.stat()
    deadline = time.monotonic() + 5
    while file.stat().st_ctime_ns == before.st_ctime_ns and time.monotonic() < deadline:
        file.write_text(policy(6))
        os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert file.stat().st_mtime_ns == before.st_mtime_ns
    assert [n_of(event) for event in settled(feed)] == [6]


def test_unchanged_content_gives_no_event(feed: PolicyFeed, file: Path) -> None:
    file.write_text(policy(5))
    os.utime(file, ns=(1, 1))
    file.chmod(0o600)
    assert settled(feed) == []
    fresh = file.with_name("fresh")
    fresh.write_text(policy(5))
    fresh.replace(file)
    assert settled(feed) == []


def test_a_bad_file_changes_nothing_and_says_why(feed: PolicyFeed, file: Path) -> None:
    file.write_text(BAD)
    (event,) = settled(feed)
    assert isinstance(event, Failed)
    assert [(problem.file, problem.line) for problem in event.problems] == [(str(file), 2)]
    assert settled(feed) == []


def test_going_back_from_a_bad_file_is_told_too(feed: PolicyFeed, file: Path) -> None:
    file.write_text(BAD)
    assert [type(event) for event in settled(feed)] == [Failed]
    file.write_text(policy(5))
    assert [n_of(event) for event in settled(feed)] == [5]


def test_a_file_that_is_being_written_is_not_taken(feed: PolicyFeed, file: Path) -> None:
    text = policy(42, "# the end\n")
    with file.open("w") as out:
        for index, character in enumerate(text):
            out.write(character)
            out.flush()
            os.utime(file, ns=(index, index))
            assert feed.poll() is None
    assert [n_of(event) for event in settled(feed)] == [42]


def test_a_file_cut_to_nothing_changes_nothing(feed: PolicyFeed, file: Path) -> None:
    file.write_text("")
    (event,) = settled(feed)
    assert isinstance(event, Failed)
    assert event.problems[0].message == "the file is empty"


def test_deletion_is_told_once_and_the_same_file_again_is_told(
    feed: PolicyFeed, file: Path
) -> None:
    file.unlink()
    (event,) = settled(feed)
    assert isinstance(event, Failed)
    assert "no such file" in event.problems[0].message
    assert settled(feed) == []
    file.write_text(policy(5))
    assert [n_of(event) for event in settled(feed)] == [5]


def test_a_deletion_between_two_looks_is_an_edit(feed: PolicyFeed, file: Path) -> None:
    file.unlink()
    assert feed.poll() is None
    file.write_text(policy(8))
    assert [n_of(event) for event in settled(feed)] == [8]


def test_a_file_that_is_not_there_yet_is_told_and_awaited(tmp_path: Path) -> None:
    feed = PolicyFeed(tmp_path / "later.yaml")
    assert isinstance(feed.poll(), Failed)
    assert settled(feed) == []
    (tmp_path / "later.yaml").write_text(policy(3))
    assert [n_of(event) for event in settled(feed)] == [3]


@pytest.mark.parametrize("kind", ["folder", "fifo", "loop"])
def test_what_is_no_file_is_told_and_never_opened(feed: PolicyFeed, file: Path, kind: str) -> None:
    file.unlink()
    if kind == "folder":
        file.mkdir()
    elif kind == "fifo":
        os.mkfifo(file)
    else:
        file.symlink_to(file)
    assert [type(event) for event in settled(feed)] == [Failed]


def config_map(root: Path, name: str, text: str) -> None:
    """Writes a version of a mounted ConfigMap and swaps it in, as a kubelet does."""
    (root / name).mkdir()
    (root / name / "shop.yaml").write_text(text)
    old = (root / "..data").readlink() if (root / "..data").is_symlink() else None
    (root / "..data_tmp").symlink_to(name)
    (root / "..data_tmp").replace(root / "..data")
    if old is not None:
        shutil.rmtree(root / old)


@pytest.fixture
def mounted(tmp_path: Path) -> Path:
    config_map(tmp_path, "..ts0", policy(100))
    (tmp_path / "shop.yaml").symlink_to("..data/shop.yaml")
    return tmp_path


def test_the_swap_of_a_config_map_is_one_event(mounted: Path) -> None:
    feed = PolicyFeed(mounted / "shop.yaml")
    assert n_of(feed.poll()) == 100
    config_map(mounted, "..ts1", policy(101))
    assert [n_of(event) for event in settled(feed)] == [101]


def test_b71_ten_swaps_in_a_second_end_at_the_last_and_read_none_twice(
    mounted: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Elsewhere swaps were missed, or read twice by way of `..data`."""
    compiled: list[bytes] = []

    def recording(data: bytes, name: str, *, year: int) -> object:
        compiled.append(data)
        return compile_policy(data, name, year=year)

    monkeypatch.setattr(feed_module, "compile_policy", recording)
    feed = PolicyFeed(mounted / "shop.yaml", poll_seconds=0.02)
    assert n_of(feed.next_change(5)) == 100

    def swap() -> None:
        for index in range(1, 11):
            config_map(mounted, f"..ts{index}", policy(100 + index))
            time.sleep(0.1)  # the pace of the report

    swapping = threading.Thread(target=swap)
    swapping.start()
    seen, deadline = 100, time.monotonic() + 10
    while seen < 110 and time.monotonic() < deadline:
        event = feed.next_change(0.5)
        if event is not None:
            assert n_of(event) > seen
            seen = n_of(event)
    swapping.join()
    assert seen == 110
    assert len(compiled) == len(set(compiled))
    assert feed.next_change(0.2) is None


def test_an_edit_is_live_within_a_second(file: Path) -> None:
    feed = PolicyFeed(file)
    assert n_of(feed.next_change(5)) == 5
    begin = time.monotonic()
    file.write_text(policy(9))
    assert n_of(feed.next_change(5)) == 9
    assert time.monotonic() - begin < 1


def test_the_timeout_is_kept_by_the_clock_that_is_given(file: Path) -> None:
    now = [0.0]

    def sleep(seconds: float) -> None:
        now[0] += seconds

    feed = PolicyFeed(file, monotonic=lambda: now[0], sleep=sleep)
    assert n_of(feed.next_change(0)) == 5
    assert feed.next_change(timeout=3) is None
    assert now[0] == pytest.approx(3)


NEW_YEAR = 1_798_761_600
"""2027-01-01T00:00:00Z."""


def last_begin(event: FeedEvent | None) -> int:
    assert isinstance(event, Loaded), event
    begin, _ = json.loads(event.snapshot.data)["calendars"]["UTC"]["month"][-1]
    assert isinstance(begin, int)
    return begin


def test_calendars_are_made_anew_each_year_while_the_node_runs(file: Path) -> None:
    now = [NEW_YEAR - 1.0]
    file.write_text("version: 1\ndomains: {a: {limits: [{id: a, quota: 5/month}]}}")
    feed = PolicyFeed(file, wall=lambda: now[0])
    first = feed.poll()
    settled(feed)
    assert settled(feed) == []
    for _ in range(12):
        now[0] += 366 * 86_400
        (event,) = settled(feed)
        assert last_begin(event) > now[0] + 8 * 365 * 86_400
        assert settled(feed) == []
    assert last_begin(event) > last_begin(first)


def test_a_policy_without_quotas_is_not_made_anew(file: Path) -> None:
    now = [NEW_YEAR - 1.0]
    feed = PolicyFeed(file, wall=lambda: now[0])
    assert n_of(feed.poll()) == 5
    now[0] += 20 * 366 * 86_400
    assert settled(feed) == []


def test_a_file_that_broke_keeps_its_calendars_until_it_is_good_again(file: Path) -> None:
    now = [NEW_YEAR - 1.0]
    good = "version: 1\ndomains: {a: {limits: [{id: a, quota: 5/month}]}}"
    file.write_text(good)
    feed = PolicyFeed(file, wall=lambda: now[0])
    before = feed.poll()
    file.write_text(BAD)
    assert any(isinstance(event, Failed) for event in settled(feed))
    now[0] += 2 * 366 * 86_400
    assert settled(feed) == []
    file.write_text(good)
    (event,) = settled(feed)
    assert last_begin(event) > last_begin(before)


def test_a_signal_handler_stops_the_wait(file: Path) -> None:
    feed = PolicyFeed(file)
    assert n_of(feed.next_change(5)) == 5
    old = signal.signal(signal.SIGALRM, lambda *_: feed.stop())
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        begin = time.monotonic()
        assert feed.next_change() is None
        assert time.monotonic() - begin < 2
    finally:
        signal.signal(signal.SIGALRM, old)
    assert feed.is_stopped
    assert feed.next_change(10) is None


def test_a_bug_of_the_compiler_is_a_failure_and_not_a_crash(
    feed: PolicyFeed, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(data: bytes, name: str) -> object:
        raise ZeroDivisionError(name, data)

    with monkeypatch.context() as patched:
        patched.setattr(feed_module, "compile_policy", broken)
        file.write_text(policy(11))
        (event,) = settled(feed)
    assert isinstance(event, Failed)
    assert "a bug of Tidegate" in event.problems[0].message
    file.write_text(policy(12))
    assert [n_of(event) for event in settled(feed)] == [12]
