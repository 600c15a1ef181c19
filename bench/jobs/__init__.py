"""The job engine, measured beside its peers and put through faults: `python -m bench.jobs`.

machine.py      the server, fresh databases, what the machine is, who used how much processor time
engine.py       what is asked of every engine, and ours;  peers.py  procrastinate, PgQueuer, DBOS
agent.py        one process with one engine in it, told what to do;  remote.py  who tells it
crew.py         a worker process of ours whose jobs leave exactly-once effects;  effects.py  and their record
throughput.py fairness.py pickup.py                   every engine, interleaved
claiming.py caps.py takeover.py chaos.py              ours
report.py       figures and requirements, as text or markdown
"""
