"""How exact each consistency is: what was admitted over a limit, and denied under it."""
