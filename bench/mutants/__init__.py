"""Mutants: changes of the source that tests must notice."""
