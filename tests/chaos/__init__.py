"""Faults on purpose, under load: what a fault costs, counted against what was promised."""
