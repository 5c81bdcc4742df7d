"""The rate limit service as gRPC clients see it."""
