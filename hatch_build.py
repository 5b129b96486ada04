"""Generate the gRPC stubs from protos/ whenever the package is built, also for an editable install.

The stubs go to minikubelet/runtime/pb/, which git ignores. After a change in protos/ run this file by hand:
`python hatch_build.py`.
"""

from __future__ import annotations

import importlib.metadata
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

ROOT = Path(__file__).resolve().parent
PROTOS = ROOT / "protos"
PACKAGE = "minikubelet/runtime/pb"


def generate(root: Path = ROOT) -> Path:
    """Write the stubs anew and return their folder. Raises SystemExit with protoc's own words on a faulty .proto."""
    out = root / PACKAGE
    fresh = out.with_name("pb.new")
    shutil.rmtree(fresh, ignore_errors=True)
    (fresh / PACKAGE).mkdir(parents=True)
    # "-I virtual=real": files are known to protoc by the path their modules will have, so that the generated code
    # imports its neighbours by absolute names.
    sources = sorted(f"{PACKAGE}/{path.name}" for path in (root / "protos").glob("*.proto"))
    command = [sys.executable, "-m", "grpc_tools.protoc", f"-I{PACKAGE}={root / 'protos'}"]
    command += [f"-I{_bundled_protos()}"]
    command += [f"--plugin={name}={_plugin(name)}" for name in ("protoc-gen-mypy", "protoc-gen-mypy_grpc")]
    command += [f"--{kind}_out={fresh}" for kind in ("python", "grpc_python", "mypy", "mypy_grpc")]
    done = subprocess.run([*command, *sources], check=False, capture_output=True, text=True)  # noqa: S603
    if done.returncode:
        raise SystemExit(f"protoc failed on protos/:\n{done.stderr}")
    (fresh / PACKAGE / "__init__.py").write_text('"""gRPC stubs, generated from protos/ by hatch_build.py."""\n')
    # Other processes may be importing: replace file by file and drop what is left over.
    out.mkdir(exist_ok=True)
    new = {path.name: path for path in (fresh / PACKAGE).iterdir()}
    for path in new.values():
        path.replace(out / path.name)
    for path in out.iterdir():
        if path.is_file() and path.name not in new:
            path.unlink()
    shutil.rmtree(fresh)
    return out


def _bundled_protos() -> Path:
    """Where grpcio-tools keeps google/protobuf/*.proto."""
    import grpc_tools  # noqa: PLC0415  # a build dependency: absent where the package is only used

    return Path(grpc_tools.__file__).parent / "_proto"


def _plugin(name: str) -> str:
    """The script of a protoc plugin: on PATH in an isolated build, else beside the interpreter."""
    found = shutil.which(name) or shutil.which(name, path=sysconfig.get_path("scripts"))
    if found is None:
        raise SystemExit(f"{name} is missing: install mypy-protobuf (pyproject.toml, [build-system])")
    return found


class StubsHook(BuildHookInterface[Any]):
    """hatchling's side of it."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # noqa: ARG002
        stubs = generate(Path(self.root))
        # Generated code refuses to run on libraries older than its generator.
        generator = re.search(r"^# Protobuf Python Version: (\S+)$", (stubs / "cri_pb2.py").read_text(), re.MULTILINE)
        if generator is None:
            raise SystemExit("the generated stubs do not say which protobuf they need")
        grpcio = importlib.metadata.version("grpcio-tools")
        build_data["dependencies"] += [f"grpcio>={grpcio}", f"protobuf>={generator[1]}"]


if __name__ == "__main__":
    print(generate())  # noqa: T201
