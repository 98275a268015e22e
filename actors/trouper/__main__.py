"""``python -m trouper`` is the program ``trouper``."""

from trouper.cli import main

if __name__ == "__main__":
    main()
