"""Memory decides as the oracle does, asked through the Python binding."""
