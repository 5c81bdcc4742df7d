"""Tests of single parts, without servers."""
