"""The command line; `app` puts the commands together."""
