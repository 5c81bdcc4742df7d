"""Limits that nodes decide by themselves, on a real store."""
