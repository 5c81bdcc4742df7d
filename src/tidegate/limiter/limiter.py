"""The limiter: which store counts, and how the limits and policies that count in it are made."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Self

from tidegate.errors import ConfigError
from tidegate.limiter.limit import Limit
from tidegate.limiter.policy import Policy
from tidegate.limiter.store import Clock, StoreOptions, open_engine
from tidegate.policy.rates import parse_rates

if TYPE_CHECKING:
    from types import TracebackType

    from tidegate._native import Decision, Engine
    from tidegate.limiter.policy import Source

OnStoreFailure = Literal["open", "closed", "raise"]

_MOST_SHORTHANDS = 1024


class Limiter:
    """Decides in this process, by counters in memory or in a shared store.

    Nothing is sent or read before the first hit. Instances pickle as their configuration.

    Args:
        url: `memory://`, or `redis://user:password@host:6379/0` (`rediss://` for TLS),
            `redis+cluster://host:6379,host:6380`,
            `redis+sentinel://host:26379,host:26379/service`, or `redis+unix:///path.sock`.
        prefix: What the keys of a shared store begin with; default: `tg`, the service's too.
        on_store_failure: What a hit says while the store is away: `open` allows, `closed` denies,
            `raise` raises `StoreError`. Policies say it for each limit, but for `raise`.
        clock: Gives unix seconds and stands in for the real time; only on `memory://`.
        max_counters: Bound of the memory store; beyond it newcomers share counters.
        store_timeout: Seconds after which a shared store counts as away.
        store_wait_replicas: Replicas of the store that must have a charge before it is told, as far
            as they have it within half of `store_timeout`; 0 to 16.

    Raises:
        ConfigError: if an option cannot be used.

    Example:
        >>> limiter = Limiter()
        >>> posts = limiter.limit("5/minute; 100/day", id="posts")
        >>> bool(posts.hit("ada", cost=5)), bool(posts.hit("ada"))
        (True, False)
    """

    def __init__(  # noqa: PLR0913  each option is a word of its own
        self,
        url: str = "memory://",
        *,
        prefix: str | None = None,
        on_store_failure: OnStoreFailure = "open",
        clock: Clock | None = None,
        max_counters: int = 1_000_000,
        store_timeout: float = 0.005,
        store_wait_replicas: int = 0,
    ) -> None:
        if on_store_failure not in {"open", "closed", "raise"}:
            known = "one of open, closed, raise"
            later = f"local: for the nodes of a service; use {known}"
            raise ConfigError(
                f'cannot use "{on_store_failure}"',
                path="on_store_failure",
                hint=later if on_store_failure == "local" else known,  # type: ignore[comparison-overlap]
            )
        self._on_store_failure = on_store_failure
        self._options = StoreOptions(
            url=url,
            prefix=prefix,
            clock=clock,
            max_counters=max_counters,
            store_timeout=store_timeout,
            store_wait_replicas=store_wait_replicas,
            is_raising=on_store_failure == "raise",
        )
        self._engine: Engine | None = open_engine(self._options)
        self._shorthands: dict[tuple[str, str], Limit] = {}

    def limit(
        self,
        rates: str,
        *,
        id: str,  # noqa: A002  the policy's own word
        algorithm: str = "token_bucket",
        burst: int | None = None,
    ) -> Limit:
        """Makes a limit; the text is parsed and refused here.

        Args:
            rates: Such as `5/minute`, `10/s burst 50` or `5/minute; 100/day`.
            id: The identity of its counters: edits of the numbers keep them.
            algorithm: `token_bucket`, `fixed_window`, `sliding_window`, `sliding_log` or
                `leaky_bucket`.
            burst: What may be taken at once; default: the rate's number.

        Raises:
            ConfigError: with what is wrong and where.
        """
        return Limit(self, rates, id, algorithm, burst)

    def policy(self, source: Source, *, domain: str | None = None) -> Policy:
        """Reads a policy file, the same as the service's.

        Args:
            source: The file, or its text as bytes.
            domain: Which of its domains; may be left out where it has one.

        Raises:
            ConfigError: with everything that is wrong in the file.
        """
        return Policy(self, source, domain)

    def hit(
        self, rates: str, *parts: str | bytes | int, cost: int = 1, algorithm: str = "token_bucket"
    ) -> Decision:
        """Takes `cost` from a limit named by its algorithm and windows, never by its numbers."""
        known = self._shorthands.get((rates, algorithm))
        if known is None:
            known = self._shorthand(rates, algorithm)
        return known.hit(*parts, cost=cost)

    def close(self) -> None:
        """Lets go of the store; handles refuse to answer from now on."""
        if self._engine is not None:
            self._engine.close()
        self._engine = None
        self._shorthands.clear()

    @property
    def engine(self) -> Engine:
        """The native engine.

        Raises:
            ConfigError: if the limiter is closed.
        """
        if self._engine is None:
            raise ConfigError("this limiter is closed", hint="make another one")
        return self._engine

    @property
    def fails_as(self) -> str:
        """`on_store_failure` as a policy says it."""
        return "closed" if self._on_store_failure == "closed" else "open"

    def _shorthand(self, rates: str, algorithm: str) -> Limit:
        windows = "+".join(f"{rate.period_s}s" for rate in parse_rates(rates).items)
        made = self.limit(rates, id=f"{algorithm}/{windows or 'unlimited'}", algorithm=algorithm)
        if len(self._shorthands) >= _MOST_SHORTHANDS:
            self._shorthands.clear()
        self._shorthands[rates, algorithm] = made
        return made

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __getstate__(self) -> dict[str, object]:
        return {"options": self._options, "on_store_failure": self._on_store_failure}

    def __setstate__(self, state: dict[str, object]) -> None:
        options = state["options"]
        assert isinstance(options, StoreOptions)  # noqa: S101  what __getstate__ gave
        self._options = options
        self._on_store_failure = state["on_store_failure"]  # type: ignore[assignment]
        self._engine = open_engine(options)
        self._shorthands = {}

    def __repr__(self) -> str:
        return f"<Limiter {self._options.masked_url}>"
