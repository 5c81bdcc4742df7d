"""Real proxies ask before they pass a request on, with the files of examples/."""
