"""The limiter: asks the engine inside this process, alone or with a shared store."""

from tidegate.limiter.guard import Guard
from tidegate.limiter.limit import Limit
from tidegate.limiter.limiter import Limiter
from tidegate.limiter.policy import Policy

__all__ = ["Guard", "Limit", "Limiter", "Policy"]
