"""Probes: how one is executed (`handlers/`), when it runs (`prober`), how many results make a verdict (`thresholds`).

The three know nothing of each other. Hooks share the handlers' clients (`pods/hooks.py`).
"""
