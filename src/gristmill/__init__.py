"""Gristmill: a durable knowledge base engine."""

__version__ = "0.1.0"
