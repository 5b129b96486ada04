"""What scripts/install reads out of `containerd config dump`, for each generation of containerd."""

from __future__ import annotations

import pytest

from scripts.containerd_settings import settings

OLD = """
disabled_plugins = []
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "registry.example/pause:3.6"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "/etc/cni/other.d"
"""
NEW = """
version = 3
disabled_plugins = []
[plugins.'io.containerd.cri.v1.images'.pinned_images]
  sandbox = 'registry.example/pause:3.10'
[plugins.'io.containerd.cri.v1.runtime'.cni]
  bin_dir = ''
  bin_dirs = ['/usr/lib/cni', '/opt/cni/bin']
  conf_dir = '/etc/cni/net.d'
"""


@pytest.mark.parametrize(
    ("dump", "found"),
    [
        pytest.param(OLD, ("", "/usr/lib/cni", "/etc/cni/other.d", "registry.example/pause:3.6"), id="1.x"),
        pytest.param(NEW, ("", "/usr/lib/cni /opt/cni/bin", "/etc/cni/net.d", "registry.example/pause:3.10"), id="2.x"),
        pytest.param(
            'disabled_plugins = ["cri"]', ("yes", "/opt/cni/bin", "/etc/cni/net.d", ""), id="as Docker ships it"
        ),
        pytest.param(
            'disabled_plugins = ["io.containerd.grpc.v1.cri"]',
            ("yes", "/opt/cni/bin", "/etc/cni/net.d", ""),
            id="switched off by its full name",
        ),
    ],
)
def test_settings(dump: str, found: tuple[str, str, str, str]) -> None:
    read = settings(dump)
    assert (read["CRI_DISABLED"], read["CNI_BIN_DIRS"], read["CNI_CONF_DIR"], read["SANDBOX_IMAGE"]) == found
