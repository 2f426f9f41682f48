"""The command line; `app` puts the commands together."""


def main() -> None:
    """Run a command."""
    from weakfeedback.cli.app import main as run

    run()
