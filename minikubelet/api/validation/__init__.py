"""Is a defaulted pod one that can be run? Pure checks with Kubernetes' own texts (VA-1); nothing here reads or writes.

`validate_pod` asks every check, in the reference's order; a check yields what it finds and never stops the others.
"""
