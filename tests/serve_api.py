"""The mill's API on a real port, in the test's own process."""

import asyncio
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import uvicorn

from gristmill import app
from gristmill.cli.serve import Server


@asynccontextmanager
async def serve_api(mill: app.Gristmill) -> AsyncGenerator[str]:
    """The address; the server is stopped as `gristmill serve` stops it."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        config = uvicorn.Config(mill.api, log_config=None, lifespan="off", access_log=False)
        server = Server(config)
        task = asyncio.create_task(server.serve(sockets=[listener]))
        await server.ready.wait()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            mill.broadcaster.close()
            server.should_exit = True
            await task
