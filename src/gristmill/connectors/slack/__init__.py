"""Slack: channels, with their messages, threads and files."""
