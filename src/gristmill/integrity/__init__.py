"""Whether the system keeps its promises, and what repairs it when it does not: invariants, reconciliation, readiness."""
