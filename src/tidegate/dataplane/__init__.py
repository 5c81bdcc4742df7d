"""Where a node's policy comes from, and the native server that it is for."""
