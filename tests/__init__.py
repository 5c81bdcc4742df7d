"""Every test of the project, and the models and servers that they share."""
