"""Run the command line as `python -m diffpool`."""

from diffpool.cli import main

if __name__ == "__main__":
    main()
