"""The oracle: a plain model of each algorithm, which memory store and script must agree with."""
