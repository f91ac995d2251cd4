"""External facts, each with source and date: hardware, versions, names and limits of other projects, node software."""
