"""The limiter with real threads, processes and stores."""
