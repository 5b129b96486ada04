"""Which logins fit an image (IM-9), and where they come from (IM-8)."""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
import structlog

from minikubelet.api.configuration import Secret, with_secret_defaults
from minikubelet.api.docker_config import DockerConfigError, Entry, Form, Login, read_docker_config
from minikubelet.api.image_name import parse
from minikubelet.api.meta import ObjectMeta
from minikubelet.api.pod import LocalObjectReference, Pod, PodSpec
from minikubelet.pods.credentials import logins_for
from minikubelet.pods.objects import ObjectStore
from minikubelet.pods.pull_credentials import PullCredentials


def entries(*locations: str) -> tuple[Entry, ...]:
    """Each with a login that bears its name."""
    return tuple(Entry(location=it, login=Login(username=it, password=it)) for it in locations)


def fitting(image: str, *sources: tuple[Entry, ...]) -> list[str]:
    return [login.username for login in logins_for(parse(image).repository, *sources)]


@pytest.mark.parametrize(
    ("location", "image", "fits"),
    [
        pytest.param("r.example", "r.example/app", True, id="the host"),
        pytest.param("r.example", "r.example/team/app:1@sha256:" + "0" * 64, True, id="neither tag nor digest count"),
        pytest.param("r.example", "s.example/app", False, id="another host"),
        pytest.param("https://r.example", "r.example/app", True, id="https://"),
        pytest.param("http://r.example", "r.example/app", True, id="http://"),
        pytest.param("https://r.example/", "r.example/app", True, id="a slash at the end"),
        pytest.param("https://user@r.example", "r.example/app", True, id="a user in the URL"),
        pytest.param("https://r.example/v1/", "r.example/app", True, id="/v1/"),
        pytest.param("r.example/v2/", "r.example/app", True, id="/v2/"),
        pytest.param("r.example/v2", "r.example/app", True, id="/v2"),
        pytest.param("r.example/v2/team", "r.example/team/app", True, id="a path behind /v2"),
        pytest.param("r.example/v3/", "r.example/app", False, id="/v3/ is a path"),
        pytest.param("r.example/v2x", "r.example/app", False, id="/v2x is a path"),
        pytest.param("r.example/team", "r.example/team/app", True, id="a path"),
        pytest.param("r.example/team/app", "r.example/team/app", True, id="a whole path"),
        pytest.param("r.example/team", "r.example/teams/app", True, id="a path is a prefix of the text"),
        pytest.param("r.example/team/", "r.example/teams/app", False, id="a path with a slash at its end"),
        pytest.param("r.example/team", "r.example/app", False, id="another path"),
        pytest.param("r.example:5000", "r.example:5000/app", True, id="the port"),
        pytest.param("r.example", "r.example:5000/app", False, id="no port in the entry"),
        pytest.param("r.example:5000", "r.example/app", False, id="no port in the image"),
        pytest.param("r.example:443", "r.example:5000/app", False, id="another port"),
        pytest.param("r.example:*", "r.example:5000/app", False, id="no wild card for ports"),
        pytest.param("localhost:5000", "localhost:5000/app", True, id="localhost"),
        pytest.param("127.0.0.1:5000", "127.0.0.1:5000/app", True, id="an address"),
        pytest.param("[::1]:5000", "[::1]:5000/app", True, id="an IPv6 address"),
        pytest.param("[::1]", "[::1]:5000/app", False, id="an IPv6 address without the port"),
        pytest.param("*.example", "r.example/app", True, id="a wild card for a label"),
        pytest.param("*.example", "a.r.example/app", False, id="but not for two"),
        pytest.param("*.example", "example:80/app", False, id="nor for none"),
        pytest.param("*.*.example", "a.r.example/app", True, id="a wild card for each"),
        pytest.param("r*.example", "r17.example/app", True, id="a part of a label"),
        pytest.param("r?.example", "r17.example/app", False, id="one character"),
        pytest.param("r[0-9].example", "r1.example/app", True, id="a range"),
        pytest.param("r[^0-9].example", "r1.example/app", False, id="not a range"),
        pytest.param("r.*", "r.example/app", True, id="a wild card at the end"),
        pytest.param("r.example/*", "r.example/team/app", False, id="no wild card for paths"),
        pytest.param("https://[::1", "r.example/app", False, id="no URL"),
        pytest.param("", "r.example/app", False, id="nothing"),
        pytest.param("docker.io", "busybox", True, id="the Hub by its name"),
        pytest.param("docker.io/library", "busybox:1.36", True, id="the Hub's library"),
        pytest.param("docker.io/team", "busybox", False, id="another part of the Hub"),
        pytest.param("https://index.docker.io/v1/", "busybox", True, id="the Hub's entry"),
        pytest.param("index.docker.io", "team/app", True, id="the Hub's entry, for all of it"),
        pytest.param("index.docker.io/v1/team", "team/app", False, id="only a whole one"),
        pytest.param("https://index.docker.io/v1/", "index.docker.io/team/app", True, id="the Hub's old name"),
        pytest.param("https://index.docker.io/v1/", "r.example/app", False, id="the Hub's entry for another"),
    ],
)
def test_an_entry_fits_an_image(location: str, image: str, fits: bool) -> None:  # IM-9
    assert fitting(image, entries(location)) == ([location] if fits else [])


@pytest.mark.parametrize(
    ("image", "sources", "order"),
    [
        pytest.param(
            "r.example/team/app",
            [("r.example", "*.example", "r.example/team", "r.example/team/app", "s.example")],
            ["r.example/team/app", "r.example/team", "r.example", "*.example"],
            id="keys in reverse order",
        ),
        pytest.param(
            "r.example/app",
            [("https://r.example", "r.example", "http://r.example/v1/")],
            ["https://r.example", "r.example", "http://r.example/v1/"],
            id="several under one key, as written",
        ),
        pytest.param(
            "r.example/team/app",
            [("r.example",), ("r.example/team",)],
            ["r.example", "r.example/team"],
            id="one source after the other",
        ),
        pytest.param("r.example/app", [("r.example",), ("r.example",)], ["r.example"], id="the same login once"),
        pytest.param(
            "busybox",
            [("docker.io", "index.docker.io"), ("index.docker.io",)],
            ["docker.io", "index.docker.io"],
            id="the Hub's entry only where nothing else of a source fits",
        ),
    ],
)
def test_the_order_of_logins(image: str, sources: list[tuple[str, ...]], order: list[str]) -> None:
    assert fitting(image, *(entries(*locations) for locations in sources)) == order


def b64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


@pytest.mark.parametrize(
    ("entry", "login"),
    [
        pytest.param({"username": "u", "password": "p"}, ("u", "p"), id="plain"),
        pytest.param({"auth": b64("u:p")}, ("u", "p"), id="auth"),
        pytest.param({"auth": b64("user:p").rstrip("=")}, ("user", "p"), id="auth without padding"),
        pytest.param({"auth": f" {b64('user:p')}\n"}, ("user", "p"), id="auth between blanks"),
        pytest.param({"auth": b64("u:p:q")}, ("u", "p:q"), id="a colon in the password"),
        pytest.param({"auth": b64(":")}, ("", ""), id="empty"),
        pytest.param({"auth": b64("u:p"), "username": "x", "password": "y"}, ("u", "p"), id="auth wins"),
        pytest.param({"auth": "", "username": "x", "password": "y"}, ("x", "y"), id="an empty auth does not"),
        pytest.param({"auth": None, "username": "x", "email": "a@b"}, ("x", ""), id="null, and other fields"),
        pytest.param({}, ("", ""), id="nothing, as where a credential helper has it"),
        pytest.param(None, ("", ""), id="null"),
    ],
)
@pytest.mark.parametrize("form", ["json", "cfg"])
def test_an_entrys_login(entry: object, login: tuple[str, str], form: Form) -> None:
    content = {"r.example": entry} if form == "cfg" else {"auths": {"r.example": entry}, "credsStore": "x"}
    (found,) = read_docker_config(json.dumps(content).encode(), form)
    assert (found.location, found.login.username, found.login.password) == ("r.example", *login)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        pytest.param(b"", "must be a JSON object", id="empty"),
        pytest.param(b"hunter2", "must be a JSON object", id="text"),
        pytest.param(b"\xff", "must be a JSON object", id="binary"),
        pytest.param(b'["hunter2"]', "must be a docker configuration: Expected `object`, got `array`", id="a list"),
        pytest.param(
            b'{"auths": {"hunter2": {"auth": 7}}}',
            "must be a docker configuration: Expected `str | null`, got `int` - at `$.auths[...].auth`",
            id="a number",
        ),
        pytest.param(
            b'{"auths": {"a": {}, "hunter2": {"auth": "hunter2!"}}}',
            "auth of entry 2 is not base64 of USER:PASSWORD",
            id="no base64",
        ),
        pytest.param(
            json.dumps({"auths": {"hunter2": {"auth": b64("hunter2")}}}).encode(),
            "auth of entry 1 is not base64 of USER:PASSWORD: there is no colon in it",
            id="no colon",
        ),
        pytest.param(
            json.dumps({"auths": {"a": {"auth": base64.b64encode(b"\xff:x").decode()}}}).encode(),
            "auth of entry 1 is not base64 of USER:PASSWORD",
            id="no UTF-8",
        ),
    ],
)
def test_what_cannot_be_used_is_said_without_showing_it(data: bytes, message: str) -> None:
    with pytest.raises(DockerConfigError) as caught:
        read_docker_config(data, "json")
    assert str(caught.value) == message


@pytest.mark.parametrize("data", [b"{}", b'{"auths": null}', b'{"auths": {}}'])
def test_no_entries_are_fine(data: bytes) -> None:
    assert read_docker_config(data, "json") == ()


# ---- where they come from ------------------------------------------------------------------------
def config(user: str, *, form: Form = "json", location: str = "r.example") -> str:
    bare = {location: {"auth": b64(f"{user}:hunter2")}}
    return json.dumps({"auths": bare} if form == "json" else bare)


def secret(name: str, user: str, *, form: Form = "json", type_: str = "", namespace: str = "default") -> Secret:
    key = ".dockerconfigjson" if form == "json" else ".dockercfg"
    made = Secret(
        metadata=ObjectMeta(name=name, namespace=namespace),
        string_data={key: config(user, form=form)},
        type=type_ or f"kubernetes.io/{key[1:]}",
    )
    return with_secret_defaults(made)


def pod(*secrets: str) -> Pod:
    spec = PodSpec(image_pull_secrets=tuple(LocalObjectReference(name=name) for name in secrets))
    return Pod(metadata=ObjectMeta(name="web", namespace="default", uid="u"), spec=spec)


class Node:
    """State folder, working folder and home in one temporary folder."""

    def __init__(self, base: Path, monkeypatch: pytest.MonkeyPatch, *secrets: Secret) -> None:
        self.base = base
        for folder in ("root", "here", "home/.docker"):
            (base / folder).mkdir(parents=True)
        monkeypatch.chdir(base / "here")
        self.objects = ObjectStore()
        self.objects.apply(secrets)
        self.credentials = PullCredentials(self.objects, root=base / "root", home=base / "home")

    async def users(self, pod: Pod | None = None) -> list[str]:
        found = await self.credentials.find("r.example/app", pod)
        return [login.username for login in found.logins]

    async def told(self, *secrets: str) -> list[str]:
        found = await self.credentials.find("r.example/app", pod(*secrets))
        assert {(event.type, event.reason) for event in found.events} <= {
            ("Warning", "FailedToRetrieveImagePullSecret")
        }
        return [event.message for event in found.events]


async def test_secrets_come_before_the_node_in_their_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    node = Node(tmp_path, monkeypatch, secret("a", "of a"), secret("b", "of b", form="cfg"), secret("c", "of c"))
    (tmp_path / "root/config.json").write_text(config("of the node"))
    assert await node.users(pod("b", "", "a")) == ["of b", "of a", "of the node"]
    assert await node.users(pod()) == ["of the node"]
    assert await node.users() == ["of the node"]


async def test_a_secret_that_is_missing_or_unfit_is_told_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    elsewhere = secret("elsewhere", "x", namespace="other")
    node = Node(tmp_path, monkeypatch, secret("fit", "x"), secret("opaque", "x", type_="Opaque"), elsewhere)
    assert await node.told("fit") == []
    assert await node.told("no", "fit", "elsewhere") == [
        "Unable to retrieve some image pull secrets (no, elsewhere); attempting to pull the image may not succeed."
    ]
    (unfit,) = await node.told("opaque")
    assert unfit == (
        'Secret "opaque" is of type Opaque: for pulling images it has to be one of type '
        "kubernetes.io/dockerconfigjson or kubernetes.io/dockercfg"
    )


async def test_the_first_file_that_can_be_used_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    node = Node(tmp_path, monkeypatch)
    places: list[tuple[str, Form]] = [  # the last first
        ("home/.dockercfg", "cfg"),
        ("here/.dockercfg", "cfg"),
        ("root/.dockercfg", "cfg"),
        ("home/.docker/config.json", "json"),
        ("here/config.json", "json"),
        ("root/config.json", "json"),
    ]
    for place, form in places:
        (tmp_path / place).write_text(config(place, form=form))
        assert await node.users() == [place], "read anew each time"
    (tmp_path / "root/config.json").write_text("{")
    assert await node.users() == ["here/config.json"]
    (tmp_path / "here/config.json").write_text("{}")
    assert await node.users() == [], "it can be used, and has nothing"


async def test_a_file_that_cannot_be_used_is_named_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    node = Node(tmp_path, monkeypatch)
    broken, folder = tmp_path / "root/config.json", tmp_path / "here/.dockercfg"
    folder.mkdir()
    broken.write_text(json.dumps({"auths": {"r.example": {"auth": "hunter2"}}}))
    with structlog.testing.capture_logs() as logs:
        for _ in range(3):
            assert await node.users() == []
        assert [line["problem"] for line in logs] == [
            f"{broken}: auth of entry 1 is not base64 of USER:PASSWORD; it is passed over",
            f"{folder}: Is a directory; it is passed over",
        ]
        broken.write_text(config("mended"))
        assert await node.users() == ["mended"]
        broken.write_text("{")
        await node.users()
    assert [line["problem"] for line in logs[2:]] == [
        f"{broken}: must be a JSON object; it is passed over",
        f"{folder}: Is a directory; it is passed over",
    ]
    assert "hunter2" not in str(logs)


def _endless(path: Path) -> None:
    path.touch()
    os.truncate(path, 1 << 40)


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        pytest.param(os.mkfifo, "it is not a regular file", id="pipe"),
        pytest.param(lambda path: path.symlink_to("/dev/zero"), "it is not a regular file", id="link to a device"),
        pytest.param(_endless, "it has more than 10485760 bytes", id="endless"),
        pytest.param(lambda path: path.symlink_to(path.name), "Too many levels of symbolic links", id="circle"),
    ],
)
@pytest.mark.parametrize("place", ["root/config.json", "here/.dockercfg"])
async def test_what_is_no_file_holds_up_nobody(
    make: Callable[[Path], None], problem: str, place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = Node(tmp_path, monkeypatch)
    make(tmp_path / place)
    (tmp_path / "home/.dockercfg").write_text(config("home", form="cfg"))
    with structlog.testing.capture_logs() as logs:
        assert await node.users() == ["home"]
    assert [line["problem"] for line in logs] == [f"{tmp_path / place}: {problem}; it is passed over"]


async def test_a_file_may_be_a_link_to_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    node = Node(tmp_path, monkeypatch)
    (tmp_path / "kept").write_text(config("kept"))
    (tmp_path / "root/config.json").symlink_to(tmp_path / "kept")
    assert await node.users() == ["kept"]


@pytest.mark.parametrize("helpers", [{"credsStore": "desktop"}, {"credHelpers": {"r.example": "x"}}])
async def test_credential_helpers_are_named_as_not_run(
    helpers: dict[str, object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = Node(tmp_path, monkeypatch)
    (tmp_path / "root/config.json").write_text(json.dumps(json.loads(config("u")) | helpers))
    with structlog.testing.capture_logs() as logs:
        assert await node.users() == ["u"]
    (told,) = logs
    assert told["problem"] == (
        f"{tmp_path}/root/config.json: its credential helpers (credsStore, credHelpers) are not run; "
        "write user and password under auths"
    )


async def test_nothing_shows_a_password(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    node = Node(tmp_path, monkeypatch, secret("a", "u"))
    found = await node.credentials.find("r.example/app", pod("a"))
    assert [login.password for login in found.logins] == ["hunter2"]
    assert "hunter2" not in repr(found) + repr(read_docker_config(config("u").encode(), "json"))
