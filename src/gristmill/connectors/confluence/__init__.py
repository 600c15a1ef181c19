"""confluence."""
