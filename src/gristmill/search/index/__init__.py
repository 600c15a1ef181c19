"""Where the points of chunks are indexed and searched: the port, and its implementations."""
