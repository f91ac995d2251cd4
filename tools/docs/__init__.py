"""The documentation site: `python -m tools.docs` writes it to site/, offline. Run it with `make docs`."""
