"""Each module answers one question: `python -m benchmarks.NAME`. See README.md."""
