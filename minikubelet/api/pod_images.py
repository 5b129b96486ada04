"""The images that a pod needs: those of its containers and of its image volumes."""

from __future__ import annotations

from minikubelet.api.image_name import ImageNameError, full_name
from minikubelet.api.pod import PodSpec


def images_of(spec: PodSpec) -> frozenset[str]:
    """Their full names; one that is no image name is left out."""
    written = [container.image for container in (*spec.init_containers, *spec.containers)]
    written += [volume.image.reference for volume in spec.volumes if volume.image is not None]
    names = set()
    for image in written:
        try:
            names.add(full_name(image))
        except ImageNameError:
            continue
    return frozenset(names)
