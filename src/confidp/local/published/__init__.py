"""The algorithms of Yıldırım (2023) as published, to reproduce its figures and to test against.

One file for each: `smc` (Algorithms 2 and 3), `score` (Algorithm 4), `mhaar`, `interval` (equations
12 and 13), `adaptive` (Algorithm 1), and `marginal`, Algorithm 1 with an exact likelihood in place
of latent values. They are for simulated people only: their noise is drawn in floating point, which
an attack on the low bits can see through. `local.Collector` is what to use.
"""
