"""The samples are what people copy: each has to be accepted as it stands, and to be the story that it tells."""

from __future__ import annotations

from pathlib import Path

import pytest

from minikubelet.api.decode import decode_file
from minikubelet.api.objects import refs_of
from minikubelet.api.pod import Pod, is_sidecar
from minikubelet.sources.desired import object_key

SAMPLES = sorted((Path(__file__).parents[2] / "configs/samples").glob("*.yaml"))


def decoded(sample: Path) -> Pod:
    read = decode_file(str(sample), sample.read_bytes(), node_name="node")
    assert not read.errors, "\n".join(map(str, read.errors))
    assert not read.notes, "a sample shall have no field that does nothing:\n" + "\n".join(map(str, read.notes))
    (pod,) = (it for it in read.objects if isinstance(it, Pod))
    missing = {tuple(ref) for ref in refs_of(pod)} - {tuple(object_key(it)) for it in read.objects}
    assert not missing, "what a sample refers to stands beside it"
    return pod


def test_there_are_samples() -> None:
    assert {sample.stem for sample in SAMPLES} == {
        "batch-with-shipper", "log-shipper", "proxy-gate", "web-with-configuration",
    }  # fmt: skip


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.stem)
def test_a_sample_is_accepted_bears_its_files_name_and_has_a_sidecar(sample: Path) -> None:
    pod = decoded(sample)
    assert pod.metadata.name == sample.stem
    assert any(is_sidecar(entry) for entry in pod.spec.init_containers)
    assert {c.image for c in (*pod.spec.init_containers, *pod.spec.containers)} == {"busybox:1.36"}
