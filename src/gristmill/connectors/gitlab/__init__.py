"""gitlab."""
