"""The images that a pod needs: those of its containers and of its image volumes."""

from __future__ import annotations

import re

from minikubelet.api.image_name import ImageNameError, full_name
from minikubelet.api.pod import PodSpec

#: What the runtime takes for an image's id, although it is a name with a tag, too.
_ID = re.compile(r"sha256:[0-9a-f]{64}")


def images_of(spec: PodSpec) -> frozenset[str]:
    """Their full names, and ids where they are written; one that is no image name is left out."""
    written = [container.image for container in (*spec.init_containers, *spec.containers)]
    written += [volume.image.reference for volume in spec.volumes if volume.image is not None]
    names = {image for image in written if _ID.fullmatch(image)}
    for image in written:
        try:
            names.add(full_name(image))
        except ImageNameError:
            continue
    return frozenset(names)
