"""`tidegate serve` as a process."""
