"""The oracle: a plain model of every algorithm, for the memory store and the script to agree with."""
