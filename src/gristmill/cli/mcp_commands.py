"""`gristmill mcp`: the tools over standard input and output; `gristmill mcp install`: the configuration of an agent."""

import functools
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from gristmill.cli.common import AsJson, DataDir, add_server_choice, client_settings, key_option, run_async
from gristmill.cli.completion import complete_base_names
from gristmill.cli.help import CommandLine, ServerKey, ServerUrl
from gristmill.cli.imports import pause_garbage_collector
from gristmill.cli.output import console, err, print_json

mcp_cli = CommandLine(
    name="mcp",
    help="Serve agents over standard input and output, or print the configuration of an agent.",
    examples=["gristmill mcp", "gristmill mcp --base handbook", "gristmill mcp install cursor"],
    no_args_is_help=False,
)
OneBase = Annotated[
    str | None,
    typer.Option(
        "--base",
        metavar="NAME",
        help="Serve this base alone; by default all bases.",
        autocompletion=complete_base_names,
    ),
]


@mcp_cli.callback(invoke_without_command=True)
def serve_agents(
    ctx: typer.Context,
    base: OneBase = None,
    data_dir: DataDir = None,
    server_url: ServerUrl = None,
    server_key: ServerKey = None,
) -> None:
    """Serve agents over standard input and output, or print the configuration of an agent."""
    add_server_choice(server_url, server_key)
    if ctx.invoked_subcommand is not None:
        return
    with pause_garbage_collector():
        from gristmill.cli.client_session import connect
        from gristmill.server.mcp.agent_server import create

    async def run() -> None:
        async with connect(current, work=True) as session:
            current_base = None if base is None else functools.partial(str, base)
            await create(session.new_client, current_base).run_stdio_async()

    current = client_settings(data_dir)
    run_async(run())


@mcp_cli.command(
    "install",
    examples=[
        "gristmill mcp install claude",
        "gristmill mcp install cursor --base handbook --write",
        "gristmill mcp install vscode --url https://kb.example.org",
    ],
)
def install(
    agent: Annotated[
        str,
        typer.Argument(
            help="claude (Claude Code), claude-desktop, cursor or vscode.",
            autocompletion=lambda: ["claude", "claude-desktop", "cursor", "vscode"],
        ),
    ],
    base: OneBase = None,
    name: Annotated[
        str, typer.Option(metavar="NAME", help="Name of the server in the configuration.")
    ] = "gristmill",
    write: Annotated[
        bool, typer.Option("--write", help="Write it into the file of the agent, next to what is there.")
    ] = False,
    file: Annotated[
        Path | None, typer.Option(metavar="PATH", help="File to write, instead of the usual one.")
    ] = None,
    as_json: AsJson = False,
    data_dir: DataDir = None,
) -> None:
    """Print the MCP configuration of an agent for this server, or write it."""
    from gristmill.cli import agent_config

    current = client_settings(data_dir)

    async def run() -> agent_config.AgentConfig:
        return await agent_config.configure(current, agent, base=base, name=name, key=key_option(), file=file)

    config = run_async(run())
    if write:
        agent_config.write(config)
    result: dict[str, Any] = {"path": str(config.path), "written": write, "config": config.content}
    print_json(result, as_json)
    if as_json:
        return
    if write:
        console(as_json).print(f"Wrote {escape(str(config.path))}. Start the agent again to use it.")
    else:
        # Only the configuration is on standard output, so that it can be sent into a file.
        print_json(config.content, True)
        err.print(f"Put this into {escape(str(config.path))}, or pass --write.", style="dim")
    for hint in config.hints:
        err.print(hint, style="dim", markup=False)
