"""The store of ConfigMaps and Secrets: what is told to whom, and when."""

from __future__ import annotations

from minikubelet.api.configuration import ConfigMap, Secret
from minikubelet.api.meta import ObjectMeta
from minikubelet.api.objects import CONFIG_MAP, SECRET, Objects, Ref
from minikubelet.api.pod import Pod
from minikubelet.lifecycle import notes
from minikubelet.lifecycle.memory import Memory, StartError
from minikubelet.pods.objects import ObjectStore


def config_map(name: str, value: str = "1", namespace: str = "default") -> ConfigMap:
    return ConfigMap(metadata=ObjectMeta(name=name, namespace=namespace), data={"k": value})


def secret(name: str) -> Secret:
    return Secret(metadata=ObjectMeta(name=name, namespace="default"))


def test_subscribers_hear_of_what_appeared_changed_and_went() -> None:
    store = ObjectStore()
    heard: list[frozenset[Ref]] = []
    store.apply([config_map("before")])
    with store.subscribed(heard.append):
        store.apply([config_map("before"), config_map("new"), secret("new")])
        store.apply([config_map("before", "2"), config_map("new"), secret("new")])
        store.apply([config_map("new")])
        store.apply([config_map("new")])
    store.apply([])
    assert heard == [
        {Ref(CONFIG_MAP, "default", "new"), Ref(SECRET, "default", "new")},
        {Ref(CONFIG_MAP, "default", "before")},
        {Ref(CONFIG_MAP, "default", "before"), Ref(SECRET, "default", "new")},
    ]
    assert store.version == 5


def test_what_there_was_is_a_value_that_stays() -> None:
    store = ObjectStore()
    store.apply([config_map("c", "1")])
    before = store.now
    store.apply([config_map("c", "2", namespace="other"), secret("s")])
    assert before == Objects(config_maps={("default", "c"): config_map("c", "1")})
    assert store.now.config_map("other", "c").data == {"k": "2"}
    assert store.now.secret("default", "s") == secret("s")


def test_whoever_waits_for_an_object_wakes_for_that_one_only() -> None:
    store = ObjectStore()
    with store.watched(lambda: frozenset({Ref(CONFIG_MAP, "default", "mine")})) as changed:
        store.apply([config_map("other"), config_map("mine", namespace="elsewhere"), secret("mine")])
        assert not changed.is_set()
        store.apply([config_map("mine")])
        assert changed.is_set()


def test_that_every_file_can_be_read_again_is_told_as_well() -> None:
    store = ObjectStore()
    heard: list[frozenset[Ref]] = []
    store.apply([config_map("c")], uncertain=True)
    assert store.uncertain
    with store.subscribed(heard.append):
        store.apply([config_map("c")], uncertain=True)
        store.apply([config_map("c")])
    assert heard == [frozenset()]
    assert not store.uncertain


def test_a_container_that_waited_for_its_configuration_is_tried_at_once_and_no_other() -> None:
    def error(reason: str, retry_at: float) -> StartError:
        return StartError(reason=reason, message="", at=100, retry_at=retry_at)

    errors = {
        "waits": error("CreateContainerConfigError", 110),
        "due": error("CreateContainerConfigError", 101),
        "pulls": error("ErrImagePull", 110),
    }
    memory = notes.retry_configuration(Memory(accepted_at=0, start_errors=errors), now=105)
    assert {name: it.retry_at for name, it in memory.start_errors.items()} == {"waits": 105, "due": 101, "pulls": 110}


def test_what_keeps_a_sandbox_from_being_made_is_forgotten_once_a_container_has_started() -> None:
    memory = notes.sandbox_hindered(Memory(accepted_at=0), 'configmap "c" not found')
    assert memory.sandbox_hindered == 'configmap "c" not found'
    of = Pod(metadata=ObjectMeta(name="web"))
    assert notes.container_started(memory, pod=of, name="m", container_id="1", restart_count=0).sandbox_hindered == ""
