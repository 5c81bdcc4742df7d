"""The limiter in this process."""
