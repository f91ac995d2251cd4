"""A rehearsal: a synthesized stack lives on the real programs of a control plane, while AWS alone is played.

`players` make the world of a stack, and know nothing of this library. A `stage` puts them together, a scene plays on it
and judges, and a report says what happened. Needs the extra ``rehearsal``, and the programs of ``make e2e-tools``.
"""
