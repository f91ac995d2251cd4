"""The documentation site that `make docs` has written: `make docs-test`."""
