"""The script in a real store, held against the oracle."""
