"""Recordings that the commands `profile` and `try` replay under several settings."""
