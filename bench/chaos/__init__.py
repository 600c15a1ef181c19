"""Random kills over everything that runs, and what must be true afterwards.

outside.py     what Gristmill reads from and pays: web pages, two fake tools, an embedder that counts texts
processes.py   the processes of Gristmill, and the faults that hit them
workload.py    what people do meanwhile, and what must be searchable because of it
checks.py      what must be true once everything is quiet
"""
