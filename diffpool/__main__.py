"""`python -m diffpool` is `diffpool`."""

from diffpool.cli.commands import main

if __name__ == "__main__":
    main()
