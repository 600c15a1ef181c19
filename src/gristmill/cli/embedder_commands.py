"""The options of `gristmill embedder …`. `embedder_admin` does the work; it is imported late to keep `--help` fast."""

from typing import Annotated, Any

import typer
from rich.markup import escape

from gristmill.cli.common import AsJson, DataDir, run_with_client
from gristmill.cli.help import CommandLine
from gristmill.cli.output import console, print_json
from gristmill.errors import Invalid

embedder_cli = CommandLine(
    name="embedder",
    help="Store, list, test, change and remove embedders: models that turn texts into vectors.",
    examples=["gristmill embedder list", "gristmill embedder test small"],
)
EmbedderName = Annotated[str, typer.Argument(help="Name of the embedder.")]
Model = Annotated[str | None, typer.Option(metavar="NAME", help="Name of the model at the endpoint.")]
Key = Annotated[
    str | None,
    typer.Option(
        "--key",
        metavar="SOURCE",
        help="Where its API key is read from: - for a prompt or standard input, @FILE, or env:NAME.",
    ),
]
Dimensions = Annotated[
    int | None,
    typer.Option(
        min=1, max=16_000, metavar="NUMBER", help="Length of its vectors; asked from it if missing."
    ),
]
MaxTokens = Annotated[
    int | None,
    typer.Option(min=32, max=131_072, metavar="NUMBER", help="Longest text that the model takes, in tokens."),
]
BatchSize = Annotated[
    int | None, typer.Option(min=1, max=2048, metavar="NUMBER", help="Most texts in one request.")
]
SendDimensions = Annotated[
    bool | None,
    typer.Option("--send-dimensions/--no-send-dimensions", help="Send the dimensions with each request."),
]
QueryPrefix = Annotated[str | None, typer.Option(metavar="TEXT", help="Text put before every query.")]
DocumentPrefix = Annotated[str | None, typer.Option(metavar="TEXT", help="Text put before every document.")]
Timeout = Annotated[float | None, typer.Option(metavar="SECONDS", help="Timeout of one request.")]
RequestsPerMinute = Annotated[
    int | None,
    typer.Option(min=0, max=10_000_000, metavar="NUMBER", help="Most requests per minute; 0 for no limit."),
]
TokensPerMinute = Annotated[
    int | None,
    typer.Option(min=0, max=1_000_000_000, metavar="NUMBER", help="Most tokens per minute; 0 for no limit."),
]
Concurrency = Annotated[
    int | None, typer.Option(min=1, max=1024, metavar="NUMBER", help="Most requests at the same time.")
]
Language = Annotated[
    list[str] | None,
    typer.Option(metavar="CODE", help="A language that it knows, such as zh; none means all. Repeatable."),
]
Price = Annotated[
    float | None, typer.Option(metavar="NUMBER", help="Price of a million tokens, in your currency.")
]


@embedder_cli.command("list", examples=["gristmill embedder list"])
def list_embedders(as_json: AsJson = False, data_dir: DataDir = None) -> None:
    """List the embedders that bases can use: built-in ones, those of the settings, and stored ones."""
    from gristmill.cli import embedder_admin as embedders

    listed = run_with_client(embedders.list_embedders, data_dir)
    print_json(listed, as_json)
    console(as_json).print(embedders.embedder_table(listed))


@embedder_cli.command(
    "add",
    examples=[
        "gristmill embedder add ollama --url http://localhost:11434/v1 --model nomic-embed-text",
        "gristmill embedder add small --url https://api.example.com/v1 --model small-3 --key -",
        "gristmill embedder add small --url https://api.example.com/v1 --model small-3 --key env:EXAMPLE_KEY",
    ],
)
def add_embedder(
    name: Annotated[str, typer.Argument(help="Name of the new embedder.")],
    url: Annotated[
        str, typer.Option(metavar="URL", help="Address of an API of OpenAI's form, without /embeddings.")
    ],
    model: Annotated[str, typer.Option(metavar="NAME", help="Name of the model at the endpoint.")],
    key: Key = None,
    dimensions: Dimensions = None,
    max_tokens: MaxTokens = None,
    batch_size: BatchSize = None,
    send_dimensions: SendDimensions = None,
    query_prefix: QueryPrefix = None,
    document_prefix: DocumentPrefix = None,
    timeout: Timeout = None,
    requests_per_minute: RequestsPerMinute = None,
    tokens_per_minute: TokensPerMinute = None,
    concurrency: Concurrency = None,
    language: Language = None,
    price: Price = None,
    as_json: AsJson = False,
    data_dir: DataDir = None,
) -> None:
    """Store an embedder behind an endpoint, such as OpenAI, Ollama, vLLM or TEI."""
    from gristmill.cli import embedder_admin as embedders

    body = embedders.body_of(
        url=url,
        model=model,
        dimensions=dimensions,
        maxTokens=max_tokens,
        batchSize=batch_size,
        sendDimensions=send_dimensions,
        queryPrefix=query_prefix,
        documentPrefix=document_prefix,
        timeoutSeconds=timeout,
        requestsPerMinute=requests_per_minute,
        tokensPerMinute=tokens_per_minute,
        concurrency=concurrency,
        languages=language,
        pricePerMillionTokens=price,
    )
    if key is not None:
        body["apiKey"] = embedders.read_key(key)  # may prompt, which no event loop should surround

    async def run(session: Any) -> dict[str, Any]:
        return await session.call("POST", "/embedders", json={"name": name, **body})

    stored = run_with_client(run, data_dir)
    print_json(stored, as_json)
    console(as_json).print(
        f"Stored [bold]{escape(name)}[/bold]: {escape(stored['model'])}, {stored['dimensions']} dimensions."
    )


@embedder_cli.command("show", examples=["gristmill embedder show small"])
def show_embedder(name: EmbedderName, as_json: AsJson = False, data_dir: DataDir = None) -> None:
    """Show an embedder. Its key is never shown."""
    from gristmill.cli import embedder_admin as embedders

    async def run(session: Any) -> dict[str, Any]:
        return await session.call("GET", f"/embedders/{embedders.in_path(name)}")

    embedder = run_with_client(run, data_dir)
    print_json(embedder, as_json)
    console(as_json).print(embedders.detail_table(embedder))


@embedder_cli.command("test", examples=["gristmill embedder test small"])
def check_embedder(name: EmbedderName, as_json: AsJson = False, data_dir: DataDir = None) -> None:
    """Have an embedder make one vector; exit with 1 if it fails."""
    from gristmill.cli import embedder_admin as embedders

    async def run(session: Any) -> dict[str, Any]:
        return await session.call("POST", f"/embedders/{embedders.in_path(name)}/test")

    test = run_with_client(run, data_dir)
    print_json(test, as_json)
    messages = console(as_json)
    if test["ok"]:
        messages.print(f"{escape(name)} works: {test['dimensions']} dimensions, {test['tookMs']:.0f} ms.")
        return
    messages.print(
        f"[red]{escape(name)} failed:[/red] {escape(test['error']['message'])} ({test['error']['code']})"
    )
    raise typer.Exit(1)


@embedder_cli.command(
    "change",
    examples=[
        "gristmill embedder change small --key -",
        "gristmill embedder change small --url https://eu.example.com/v1 --key env:EXAMPLE_KEY",
        "gristmill embedder change small --requests-per-minute 600 --concurrency 4",
    ],
)
def change_embedder(
    name: EmbedderName,
    url: Annotated[
        str | None, typer.Option(metavar="URL", help="New address; on another host with its key.")
    ] = None,
    model: Model = None,
    key: Key = None,
    no_key: Annotated[bool, typer.Option("--no-key", help="Remove its key.")] = False,
    dimensions: Dimensions = None,
    max_tokens: MaxTokens = None,
    batch_size: BatchSize = None,
    send_dimensions: SendDimensions = None,
    query_prefix: QueryPrefix = None,
    document_prefix: DocumentPrefix = None,
    timeout: Timeout = None,
    requests_per_minute: RequestsPerMinute = None,
    tokens_per_minute: TokensPerMinute = None,
    concurrency: Concurrency = None,
    language: Language = None,
    price: Price = None,
    as_json: AsJson = False,
    data_dir: DataDir = None,
) -> None:
    """Change a stored embedder. The model, dimensions and prefixes can't change while a base uses it."""
    from gristmill.cli import embedder_admin as embedders

    body = embedders.body_of(
        url=url,
        model=model,
        dimensions=dimensions,
        maxTokens=max_tokens,
        batchSize=batch_size,
        sendDimensions=send_dimensions,
        queryPrefix=query_prefix,
        documentPrefix=document_prefix,
        timeoutSeconds=timeout,
        requestsPerMinute=requests_per_minute,
        tokensPerMinute=tokens_per_minute,
        concurrency=concurrency,
        languages=language,
        pricePerMillionTokens=price,
    )
    if no_key:
        body["apiKey"] = None
    elif key is not None:
        body["apiKey"] = embedders.read_key(key)
    if not body:
        raise Invalid("Nothing to change: pass an option with a new value.", code="bad_option")

    async def run(session: Any) -> dict[str, Any]:
        return await session.call("PATCH", f"/embedders/{embedders.in_path(name)}", json=body)

    print_json(run_with_client(run, data_dir), as_json)
    console(as_json).print(f"Changed [bold]{escape(name)}[/bold]. All processes use it from now on.")


@embedder_cli.command("remove", examples=["gristmill embedder remove small"])
def remove_embedder(name: EmbedderName, as_json: AsJson = False, data_dir: DataDir = None) -> None:
    """Remove a stored embedder that no base uses, with its key."""
    from gristmill.cli import embedder_admin as embedders

    async def run(session: Any) -> dict[str, Any]:
        await session.call("DELETE", f"/embedders/{embedders.in_path(name)}")
        return {"name": name}

    print_json(run_with_client(run, data_dir), as_json)
    console(as_json).print(f"Removed [bold]{escape(name)}[/bold].")


@embedder_cli.command(
    "default", examples=["gristmill embedder default small", "gristmill embedder default small --reset"]
)
def choose_default(
    name: EmbedderName,
    reset: Annotated[
        bool, typer.Option("--reset", help="Use the one of the settings again, if this one was chosen.")
    ] = False,
    as_json: AsJson = False,
    data_dir: DataDir = None,
) -> None:
    """Choose the embedder of new bases that name none, built in or stored. Existing bases keep theirs."""
    from gristmill.cli import embedder_admin as embedders

    async def run(session: Any) -> dict[str, Any]:
        await session.call("DELETE" if reset else "PUT", f"/embedders/{embedders.in_path(name)}/default")
        return next(each for each in await embedders.list_embedders(session) if each["isDefault"])

    default = run_with_client(run, data_dir)
    print_json(default, as_json)
    console(as_json).print(f"New bases get [bold]{escape(default['name'])}[/bold].")
