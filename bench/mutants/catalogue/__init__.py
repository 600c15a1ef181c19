"""Every hand-written mutant: the constants and guards that requirements name, each broken once.

A new requirement with a number or a condition gets a mutant here. `tests/bench/test_mutants.py` checks that each one still
applies to the source.
"""

from bench.mutants.catalogue import connectors, ingestion, operations, queue, stages

MUTANTS = (
    *operations.MUTANTS,
    *connectors.MUTANTS,
    *ingestion.MUTANTS,
    *queue.MUTANTS,
    *stages.MUTANTS,
)
