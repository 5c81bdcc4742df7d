"""Tests of what feeds a node."""
