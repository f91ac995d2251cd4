"""The language of templates: what is declared, what values are, and what comes before what."""
