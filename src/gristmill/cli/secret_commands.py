"""`gristmill secrets …`: the key that encrypts stored secrets. `secret_admin` does the work; it is imported late to keep
`--help` fast."""

from gristmill.cli.common import AsJson, DataDir, load_settings, run_async
from gristmill.cli.help import CommandLine
from gristmill.cli.output import print_json

secret_cli = CommandLine(
    name="secrets",
    help="Rotate the key that encrypts stored secrets, and see what it encrypts.",
    examples=["gristmill secrets rotate", "gristmill secrets status"],
)


@secret_cli.command("rotate", local=True, examples=["gristmill secrets rotate --data-dir /srv/gristmill"])
def rotate(as_json: AsJson = False, data_dir: DataDir = None) -> None:
    """Encrypt every stored secret with a new key, while servers and workers run. An interrupted rotation continues."""
    from gristmill.cli import secret_admin

    current = load_settings(quiet=True, data_dir=data_dir)
    print_json(run_async(secret_admin.rotate(current, as_json)), as_json)


@secret_cli.command("status", local=True, examples=["gristmill secrets status"])
def status(as_json: AsJson = False, data_dir: DataDir = None) -> None:
    """Show the keys by their ids, and how many secrets each encrypts."""
    from gristmill.cli import secret_admin

    current = load_settings(quiet=True, data_dir=data_dir)
    print_json(run_async(secret_admin.status(current, as_json)), as_json)
