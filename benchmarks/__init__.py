"""One question a module: `python -m benchmarks.NAME`, see README.md here."""
