"""Reads what `containerd config dump` prints on stdin and prints, as shell assignments, what an installer must know.

Run by scripts/install with the system's Python, before anything of the package is there: standard library only.
containerd 1.x keeps these settings in the CRI plugin's section, 2.x spreads them over sections of its own.
"""

from __future__ import annotations

import shlex
import sys
import tomllib
from typing import Any

_CRI_1X = "io.containerd.grpc.v1.cri"
_RUNTIME_2X = "io.containerd.cri.v1.runtime"
_IMAGES_2X = "io.containerd.cri.v1.images"
#: Any of these in `disabled_plugins` switches CRI off ("cri" in a file without a version, as Docker's package has it).
_CRI_NAMES = {"cri", _CRI_1X, _RUNTIME_2X}


def settings(dump: str) -> dict[str, str]:
    """The variables and their values; an unknown one is empty. Raises tomllib.TOMLDecodeError."""
    config = tomllib.loads(dump)
    plugins: dict[str, Any] = config.get("plugins", {})
    old, runtime, images = (plugins.get(name, {}) for name in (_CRI_1X, _RUNTIME_2X, _IMAGES_2X))
    cni = runtime.get("cni") or old.get("cni") or {}
    bin_dirs = cni.get("bin_dirs") or [cni.get("bin_dir") or "/opt/cni/bin"]
    return {
        "CRI_DISABLED": "yes" if _CRI_NAMES & set(config.get("disabled_plugins", [])) else "",
        "CNI_BIN_DIRS": " ".join(bin_dirs),
        "CNI_CONF_DIR": cni.get("conf_dir") or "/etc/cni/net.d",
        "SANDBOX_IMAGE": images.get("pinned_images", {}).get("sandbox") or old.get("sandbox_image", ""),
    }


if __name__ == "__main__":
    for variable, value in settings(sys.stdin.read()).items():
        print(f"{variable}={shlex.quote(value)}")
