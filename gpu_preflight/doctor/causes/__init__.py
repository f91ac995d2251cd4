"""Causes, by the question that they answer. Each module has a function `find` that yields the causes of one pod."""
