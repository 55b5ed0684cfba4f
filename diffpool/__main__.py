"""`python -m diffpool` is `diffpool`."""

from diffpool.cli import main

if __name__ == "__main__":
    main()
