"""Processes that read a lake for the server, which has no secrets of lakes in its environment."""
