import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikubelet.api.image_name import ImageName, ImageNameError, parse, with_default_tag

DIGEST = "sha256:" + "a" * 64


@pytest.mark.parametrize(
    ("image", "domain", "path", "tag", "digest"),
    [
        ("busybox", "docker.io", "library/busybox", "", ""),
        ("busybox:1.36", "docker.io", "library/busybox", "1.36", ""),
        ("me/app", "docker.io", "me/app", "", ""),
        ("docker.io/busybox", "docker.io", "library/busybox", "", ""),
        ("index.docker.io/me/app:x", "docker.io", "me/app", "x", ""),
        ("localhost/app", "localhost", "app", "", ""),
        ("localhost:5000/app:v1", "localhost:5000", "app", "v1", ""),
        ("host:5000/a/b/c", "host:5000", "a/b/c", "", ""),
        ("Host/app", "Host", "app", "", ""),
        ("[::1]:5000/app", "[::1]:5000", "app", "", ""),
        ("registry.example/a__b/c-d.e:T_1", "registry.example", "a__b/c-d.e", "T_1", ""),
        (f"app@{DIGEST}", "docker.io", "library/app", "", DIGEST),
        (f"r.example/app:v1@{DIGEST}", "r.example", "app", "v1", DIGEST),
    ],
)
def test_a_name_has_parts(image: str, domain: str, path: str, tag: str, digest: str) -> None:  # IM-1
    name = parse(image)
    assert name == ImageName(domain=domain, path=path, tag=tag, digest=digest)
    assert parse(str(name)) == name


BAD_FORMAT = "invalid reference format"


@pytest.mark.parametrize(
    ("image", "detail"),
    [
        ("", BAD_FORMAT),
        (" busybox", BAD_FORMAT),
        ("busybox:", BAD_FORMAT),
        ("busybox:a b", BAD_FORMAT),
        ("busybox:" + "x" * 129, BAD_FORMAT),
        ("a//b", BAD_FORMAT),
        ("-a/b", BAD_FORMAT),
        ("a..b/c/d_", BAD_FORMAT),
        ("http://r.example/app", BAD_FORMAT),
        ("app@", BAD_FORMAT),
        ("app@sha256:xyz", BAD_FORMAT),
        ("UPPER", f"{BAD_FORMAT}: repository name (library/UPPER) must be lowercase"),
        ("r.example/App", f"{BAD_FORMAT}: repository name (App) must be lowercase"),
        ("app@sha256:" + "a" * 63, "invalid checksum digest length"),
        ("app@md5:" + "a" * 32, "unsupported digest algorithm"),
        ("a" * 64, f"invalid repository name ({'a' * 64}), cannot specify 64-byte hexadecimal strings"),
        ("r.example/" + "a" * 250, "repository name must not be more than 255 characters"),
    ],
)
def test_a_bad_name_says_what_is_wrong_with_it(image: str, detail: str) -> None:  # IM-1
    with pytest.raises(ImageNameError) as caught:
        parse(image)
    assert str(caught.value) == f'couldn\'t parse image name "{image}": {detail}'


@pytest.mark.parametrize(
    ("image", "asked_for"),
    [
        ("busybox", "busybox:latest"),
        ("localhost:5000/app", "localhost:5000/app:latest"),
        ("busybox:1.36", "busybox:1.36"),
        (f"busybox@{DIGEST}", f"busybox@{DIGEST}"),
    ],
)
def test_the_runtime_is_asked_with_a_tag(image: str, asked_for: str) -> None:  # IM-2
    assert with_default_tag(image) == asked_for


@given(st.text(alphabet="abcXYZ019.:/@-_[] ", max_size=40))
def test_any_text_is_a_name_or_refused(image: str) -> None:
    try:
        name = parse(image)
    except ImageNameError:
        return
    assert parse(str(name)) == name
