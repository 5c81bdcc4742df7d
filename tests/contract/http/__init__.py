"""Decisions over HTTP as clients see them, on both stores."""
