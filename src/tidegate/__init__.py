"""Tidegate, a distributed rate limiter."""
