"""Real files of other people: each certain error of preflight about them is one, and nothing crashes."""
