"""The command line."""

from trouper.cli.app import main as main
