"""Makes the images that scripts/sample-image is asked for. On the system's Python: standard library only."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

from scripts.containerd_settings import settings
from tests.support.images import BUSYBOX_NAME, PAUSE, Image, write_archive
from tests.support.software import PackagesUnavailableError, image_of

#: Where the daemon of this host, if there is one, looks for archives; else they are written to the other one.
_NODE = Path("/etc/minikubelet/images")
_BUILD = Path(__file__).parents[1] / "build"


class UnknownSandboxImageError(Exception):
    """containerd does not tell which image it makes sandboxes of; the text says why, for people."""


def image(name: str) -> Image:
    """Raises PackagesUnavailableError, UnknownSandboxImageError, and KeyError for an unknown name."""
    match name:
        case "busybox":
            return Image(names=(BUSYBOX_NAME,), cmd=("sh",))
        case "pause":
            return Image(names=(_sandbox_image(),), entrypoint=PAUSE.entrypoint)
        case _:
            return image_of(name)


def _sandbox_image() -> str:
    try:
        done = subprocess.run(["containerd", "config", "dump"], check=True, capture_output=True, text=True)
        name = settings(done.stdout)["SANDBOX_IMAGE"]
    except FileNotFoundError:
        raise UnknownSandboxImageError(
            "there is no containerd here to ask for its name: scripts/install first"
        ) from None
    except subprocess.CalledProcessError as error:
        raise UnknownSandboxImageError(f"containerd config dump: {error.stderr.strip()}") from error
    except tomllib.TOMLDecodeError as error:
        raise UnknownSandboxImageError(f"containerd config dump: {error}") from error
    if not name:
        raise UnknownSandboxImageError("containerd's configuration names no sandbox image")
    return name


def main() -> None:
    folder = _NODE if _NODE.is_dir() else _BUILD
    folder.mkdir(exist_ok=True)
    for name in sys.argv[1:]:
        try:
            made = image(name)
        except (PackagesUnavailableError, UnknownSandboxImageError) as error:
            raise SystemExit(f"sample-image: {name}: {error}") from error
        # Under another name until it is whole: one that was broken off must not lie in the node's folder.
        fresh = write_archive(folder / f".{name}.tar.new", (made,))
        done = fresh.rename(folder / f"{name}.tar")
        print(f"{' '.join(made.names)}: {done}", flush=True)
    if folder == _BUILD:
        print(f"Give them to the node: copy them to its {_NODE}, or `ctr -n k8s.io images import FILE`.")


if __name__ == "__main__":
    main()
