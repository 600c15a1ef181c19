"""Benchmarks of the job engine, compared with its peers and under faults: `python -m bench.jobs`.

server.py           the database server, fresh databases, a description of the machine, processor times
engine.py           the interface of every engine, and ours;  peers.py  procrastinate, PgQueuer, DBOS
agent.py            a process with one engine, controlled by JSON lines;  agent_client.py  its client
worker_process.py   a worker process of ours whose jobs leave exactly-once effects;  effects.py  counts them
throughput.py fairness.py pickup.py                   every engine, interleaved
claims.py caps.py takeover.py chaos.py                ours
report.py           figures and requirements, as text or markdown
"""
