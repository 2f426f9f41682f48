"""``python -m weakfeedback`` is the command ``weakfeedback``."""

from weakfeedback.cli.app import main

if __name__ == "__main__":  # processes that compile import this module again
    main()
