"""A real Envoy asks a real Tidegate about requests to a tiny application."""
