"""The hash by which a running container is told from its edited manifest (CC-8).

`runtime/` writes it into a container's annotations, `lifecycle/` compares it with the spec's.
"""

from __future__ import annotations

import json
from functools import lru_cache

from minikubelet.api.container import Container

_FNV_OFFSET, _FNV_PRIME = 0x811C9DC5, 0x01000193


def container_hash(container: Container) -> str:
    """Covers name and image only, so nothing else of an edit restarts a container (LC 4.5)."""
    return _hash(container.name, container.image)


@lru_cache(maxsize=4096)
def _hash(name: str, image: str) -> str:
    """Asked for at every decision about a running container."""
    text = json.dumps({"image": image, "name": name}, separators=(",", ":"), ensure_ascii=False)
    data = " ".join(str(byte) for byte in text.encode())
    value = _FNV_OFFSET
    for byte in f"([]uint8)[{data}]".encode():
        value = (value ^ byte) * _FNV_PRIME & 0xFFFFFFFF
    return f"{value:x}"
