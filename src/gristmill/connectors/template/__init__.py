"""What `gristmill connector new` writes: `sample.py` and the files beside it, with another name."""
