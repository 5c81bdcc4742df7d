"""`tidegate dev` as a process."""
