"""Real servers that tests start on loopback and stop again."""
