"""What people write: policy files, read and checked into one typed document."""
