"""Whatever is given to preflight ends, in bounded memory, with an answer or with one line that refuses it."""
