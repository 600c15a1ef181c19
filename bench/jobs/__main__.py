import asyncio
from bench.jobs.machine import Machine
from bench.jobs.report import Report
from bench.jobs import throughput, peers
from bench.jobs.engine import Gristmill
import sys


async def main():
    m = Machine()
    try:
        r = Report(await m.describe())
        names = sys.argv[1].split(",")
        eng = [peers.by_name(n) for n in names]
        await throughput.enqueue(m, r, eng, 1, 20000)
        await throughput.drain(m, r, eng, 1, int(sys.argv[2]))
        print(r.text())
    finally:
        m.close()


asyncio.run(main())
