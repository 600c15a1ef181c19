"""What `gristmill connector new` writes: `sample.py` and the files next to it, with another name."""
