"""What the commands know of the daemon from its configuration file: where it answers, and where its files are."""

from __future__ import annotations

import os
from pathlib import Path

from minikubelet.config import Config
from minikubelet.config_file import load

DEFAULT_CONFIG = Path("/etc/minikubelet/config.yaml")
#: The control socket's name in the daemon's rootDir.
SOCKET = "minikubelet.sock"


def settings() -> Config:
    """The daemon's configuration if this user may read it, else what applies without one. Raises ConfigError."""
    return load(DEFAULT_CONFIG if os.access(DEFAULT_CONFIG, os.R_OK) else None)


def control_socket(config: Config) -> Path:
    return config.root_dir / SOCKET


def server_url(config: Config) -> str:
    """Where what only looks is answered: the read-only port, or the control socket where that is off."""
    if not config.read_only_port:
        return f"unix://{control_socket(config)}"
    host = f"[{config.address}]" if ":" in config.address else config.address
    return f"http://{host}:{config.read_only_port}"
