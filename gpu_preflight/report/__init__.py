"""Results as plain data, and that data as text, Markdown, JSON, SARIF and HTML."""
