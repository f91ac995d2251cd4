"""Lambda: functions of an assembly, each invocation a process of its own."""
