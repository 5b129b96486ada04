"""Pod YAML as people have it: what is accepted, and what is refused with words that help.

The manifests are those of tests/integration/real_world, where they run.
"""

from __future__ import annotations

import pytest

from minikubelet.api.decode import decode_file
from tests.integration.real_world.reading import OUTCOMES, Manifest, read_all

MANIFESTS = read_all()


def test_there_are_many_of_every_outcome() -> None:
    assert len(MANIFESTS) >= 60
    assert {manifest.outcome for manifest in MANIFESTS} == OUTCOMES


@pytest.mark.parametrize("manifest", MANIFESTS, ids=lambda it: it.name)
def test_a_manifest_is_accepted_or_refused_for_what_is_wrong_with_it(manifest: Manifest) -> None:
    read = decode_file(manifest.path.name, manifest.text.encode(), node_name="node")
    if manifest.accepted:
        assert not read.errors
        return
    assert {error.path for error in read.errors} == {path for path, _ in manifest.details}
    for path, fragment in manifest.details:
        found = [error.message for error in read.errors if error.path == path]
        assert any(fragment in message for message in found), found
