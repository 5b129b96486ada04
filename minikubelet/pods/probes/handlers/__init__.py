"""How probes and hooks are executed: one module per handler, and the clients they share.

Here nothing is scheduled and nothing is counted: a handler makes one attempt and says what came of it.
"""
