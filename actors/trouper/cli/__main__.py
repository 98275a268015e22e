"""``python -m trouper.cli`` is ``trouper``."""

from trouper.cli.app import main

if __name__ == "__main__":
    main()
