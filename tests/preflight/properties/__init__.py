"""Properties of every answer: less knowledge gives no better one, and neutral changes give the same one."""
