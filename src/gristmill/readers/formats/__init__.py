"""One module for each family of documents: each has `read(sink)`, which runs in a child process."""
