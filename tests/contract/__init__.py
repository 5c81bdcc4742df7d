"""What every engine has to keep, held against the oracle."""
