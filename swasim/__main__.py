"""`python -m swasim` is the command `swasim`."""

from swasim.commands.app import main

if __name__ == "__main__":
    main()
