"""Lambda: the code of an assembly, each invocation a process of its own."""
