"""Tests of `gristmill.embedding`; `hashed.py` is for the other tests too."""
