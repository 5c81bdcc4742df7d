"""Tests of policy files."""
