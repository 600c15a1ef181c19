"""Logs, metrics, traces and memory use of this process."""
