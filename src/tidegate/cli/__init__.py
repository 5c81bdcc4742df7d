"""The `tidegate` command: one file for each of its commands."""
