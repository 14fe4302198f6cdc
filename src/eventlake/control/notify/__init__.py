"""Notices: what happened, who is told, and whether it arrived."""
