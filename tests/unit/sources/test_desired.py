"""The folding of files into a desired set: who holds an object, what an error leaves alone."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minikubelet.api.configuration import ConfigMap
from minikubelet.api.decode import DecodedFile, ManifestError, Origin
from minikubelet.api.meta import ObjectMeta
from minikubelet.api.pod import Pod
from minikubelet.sources.desired import Desired, Outcome, Remembered, State, after, desired, initial
from minikubelet.sources.trouble import Trouble

BROKEN = ManifestError(file="x", line=3, document=1, path="spec", message="Required value")


def pod(name: str, uid: str = "", namespace: str = "default") -> Pod:
    return Pod(metadata=ObjectMeta(name=name, namespace=namespace, uid=uid or f"uid-{name}"))


def good(*pods: Pod) -> DecodedFile:
    origins = tuple(Origin(line=10 * number, document=number) for number in range(1, len(pods) + 1))
    return DecodedFile(objects=pods, errors=(), notes=(), origins=origins)


def bad(*pods: Pod) -> DecodedFile:
    return DecodedFile(objects=pods, errors=(BROKEN,), notes=())


def fold(*steps: Mapping[str, Outcome], start: State | None = None) -> Desired:
    state = start or initial(())
    for step in steps:
        state = after(state, step)
    return desired(state, folder_errors={})


def in_force(found: Desired) -> dict[str, tuple[str, str]]:
    """name -> (file, uid)"""
    return {key.partition("/")[2]: (it.file, it.pod.metadata.uid) for key, it in found.pods.items()}


def errors(found: Desired) -> dict[str, list[str]]:
    return {file: [str(error) for error in these] for file, these in found.errors.items()}


def test_objects_of_all_files_and_documents_are_in_force() -> None:
    found = fold({"a.yaml": good(pod("one"), pod("two")), "b.yaml": good(pod("three"))})
    assert in_force(found) == {
        "one": ("a.yaml", "uid-one"),
        "three": ("b.yaml", "uid-three"),
        "two": ("a.yaml", "uid-two"),
    }
    assert not found.errors


@pytest.mark.parametrize("outcome", [bad(), bad(pod("web", "new")), BROKEN, Trouble.BEING_WRITTEN, Trouble.VANISHED])
def test_a_file_that_cannot_be_used_leaves_its_earlier_objects_alone(outcome: Outcome) -> None:
    assert in_force(fold({"a.yaml": good(pod("web"))}, {"a.yaml": outcome})) == {"web": ("a.yaml", "uid-web")}


@pytest.mark.parametrize("outcome", [bad(pod("web")), BROKEN, Trouble.BEING_WRITTEN])
def test_a_new_file_that_cannot_be_used_defines_nothing(outcome: Outcome) -> None:  # IN-4
    assert not fold({"a.yaml": outcome}).objects


def test_errors_are_shown_until_the_file_is_mended() -> None:
    first = {"a.yaml": good(pod("web"))}
    assert fold(first, {"a.yaml": bad()}).errors == {"a.yaml": (BROKEN,)}
    mended = fold(first, {"a.yaml": bad()}, {"a.yaml": good(pod("web", "new"))})
    assert not mended.errors
    assert in_force(mended) == {"web": ("a.yaml", "new")}


def test_errors_are_shown_while_the_file_is_written_again() -> None:
    assert fold({"a.yaml": bad()}, {"a.yaml": Trouble.BEING_WRITTEN}).errors == {"a.yaml": (BROKEN,)}


def test_a_removed_file_takes_its_objects_and_errors_with_it() -> None:
    found = fold({"a.yaml": good(pod("web"))}, {"a.yaml": bad()}, {"a.yaml": Trouble.GONE})
    assert found == Desired()


def test_a_file_that_came_back_unchanged_is_as_before() -> None:
    found = fold({"a.yaml": good(pod("web"))}, {"a.yaml": Trouble.BEING_WRITTEN}, {"a.yaml": None})
    assert found == fold({"a.yaml": good(pod("web"))})


def test_what_is_being_written_is_told() -> None:
    assert fold({"a.yaml": Trouble.BEING_WRITTEN}).being_written == {"a.yaml"}


def test_of_two_files_with_one_object_the_earlier_one_stays_and_the_other_is_told() -> None:
    found = fold({"z.yaml": good(pod("web", "z"))}, {"a.yaml": good(pod("other"), pod("web", "a"))})
    assert in_force(found)["web"] == ("z.yaml", "z")
    assert in_force(found)["other"] == ("a.yaml", "uid-other")
    assert errors(found) == {
        "a.yaml": [
            (
                "a.yaml:20: metadata.name: z.yaml defines Pod default/web already and stays in force; "
                "rename this one, or remove one of the two"
            )
        ]
    }


def test_seen_at_the_same_time_the_first_by_file_name_holds_the_object() -> None:
    assert in_force(fold({"b.yaml": good(pod("web", "b")), "a.yaml": good(pod("web", "a"))})) == {
        "web": ("a.yaml", "a")
    }


def test_when_the_holder_goes_away_the_other_takes_over_without_an_error() -> None:
    both = fold_state({"z.yaml": good(pod("web", "z"))}, {"a.yaml": good(pod("web", "a"))})
    found = fold({"z.yaml": Trouble.GONE}, start=both)
    assert in_force(found) == {"web": ("a.yaml", "a")}
    assert not found.errors


def test_the_other_takes_over_when_the_holder_no_longer_defines_the_object() -> None:
    both = fold_state({"z.yaml": good(pod("web", "z"))}, {"a.yaml": good(pod("web", "a"))})
    found = fold({"z.yaml": good(pod("moved"))}, start=both)
    assert in_force(found) == {"web": ("a.yaml", "a"), "moved": ("z.yaml", "uid-moved")}


def test_an_edit_of_the_holders_file_keeps_the_object() -> None:
    both = fold_state({"z.yaml": good(pod("web", "z"))}, {"a.yaml": good(pod("web", "a"))})
    assert in_force(fold({"z.yaml": good(pod("web", "z2"))}, start=both)) == {"web": ("z.yaml", "z2")}


@pytest.mark.parametrize("outcome", [bad(), BROKEN, Trouble.BEING_WRITTEN])
def test_a_holder_that_became_unusable_still_holds(outcome: Outcome) -> None:
    both = fold_state({"z.yaml": good(pod("web", "z"))}, {"a.yaml": good(pod("web", "a"))})
    assert in_force(fold({"z.yaml": outcome}, start=both)) == {"web": ("z.yaml", "z")}


def test_the_one_that_took_over_keeps_the_object_when_the_first_comes_back() -> None:
    state = fold_state({"a.yaml": good(pod("web", "a"))}, {"b.yaml": good(pod("web", "b"))}, {"a.yaml": Trouble.GONE})
    found = fold({"a.yaml": good(pod("web", "a"))}, start=state)
    assert in_force(found) == {"web": ("b.yaml", "b")}
    assert list(found.errors) == ["a.yaml"]


def test_a_renamed_file_takes_over_at_once_and_without_an_error() -> None:
    found = fold({"a.yaml": good(pod("web", "a"))}, {"a.yaml": Trouble.VANISHED, "b.yaml": good(pod("web", "b"))})
    assert in_force(found) == {"web": ("b.yaml", "b")}
    assert not found.errors


def test_of_two_documents_with_one_object_the_first_stays() -> None:
    found = fold({"a.yaml": good(pod("web", "1"), pod("web", "2"))})
    assert in_force(found) == {"web": ("a.yaml", "1")}
    assert errors(found) == {
        "a.yaml": [
            (
                "a.yaml:20: metadata.name: a.yaml, document 1, defines Pod default/web already and stays in force; "
                "rename this one, or remove one of the two"
            )
        ]
    }


def test_of_two_documents_with_one_object_the_one_that_runs_stays() -> None:
    found = fold({"a.yaml": good(pod("web", "old"))}, {"a.yaml": good(pod("web", "new"), pod("web", "old"))})
    assert in_force(found) == {"web": ("a.yaml", "old")}


def test_the_same_name_in_another_namespace_is_another_object() -> None:
    found = fold({"a.yaml": good(pod("web")), "b.yaml": good(pod("web", "b", namespace="prod"))})
    assert set(found.pods) == {"default/web", "prod/web"}
    assert not found.errors


def test_two_objects_cannot_share_a_uid() -> None:
    found = fold({"b.yaml": good(pod("one", "U"))}, {"a.yaml": good(pod("two", "U"))})
    assert in_force(found) == {"one": ("b.yaml", "U")}
    assert errors(found) == {
        "a.yaml": [
            "a.yaml:10: metadata.uid: U is the uid of Pod default/one in b.yaml already; change it or leave it out"
        ]
    }


def test_after_a_restart_the_remembered_holder_stays() -> None:
    start = initial([Remembered("z.yaml", "z", pod("web", "z"))])
    found = fold({"a.yaml": good(pod("web", "a")), "z.yaml": good(pod("web", "z"))}, start=start)
    assert in_force(found) == {"web": ("z.yaml", "z")}
    assert list(found.errors) == ["a.yaml"]


def test_after_a_restart_an_edited_file_still_holds() -> None:
    start = initial([Remembered("z.yaml", "z", pod("web", "z"))])
    found = fold({"a.yaml": good(pod("web", "a")), "z.yaml": good(pod("web", "z2"))}, start=start)
    assert in_force(found) == {"web": ("z.yaml", "z2")}


@pytest.mark.parametrize("outcome", [bad(), BROKEN, Trouble.BEING_WRITTEN])
def test_after_a_restart_an_unusable_file_keeps_its_remembered_pods(outcome: Outcome) -> None:
    start = initial([Remembered("a.yaml", "w", pod("web", "w")), Remembered("a.yaml", "d", pod("db", "d"))])
    assert in_force(fold({"a.yaml": outcome}, start=start)) == {"web": ("a.yaml", "w"), "db": ("a.yaml", "d")}


def test_after_a_restart_a_file_that_is_gone_takes_its_pods_with_it() -> None:
    assert not fold({"a.yaml": Trouble.GONE}, start=initial([Remembered("a.yaml", "uid-web", pod("web"))])).objects


def test_errors_of_the_folder_come_with_the_others() -> None:
    folder = {"/manifests": (BROKEN,)}
    found = desired(after(initial(()), {"a.yaml": bad()}), folder_errors=folder)
    assert set(found.errors) == {"/manifests", "a.yaml"}


def fold_state(*steps: Mapping[str, Outcome]) -> State:
    state = initial(())
    for step in steps:
        state = after(state, step)
    return state


FILES = st.sampled_from(["a.yaml", "b.yaml", "c.yaml"])
CONTENTS = st.lists(st.sampled_from(["one", "two", "three"]), max_size=3).map(lambda names: good(*map(pod_of, names)))
OUTCOMES = st.one_of(CONTENTS, st.just(bad()), st.just(BROKEN), st.sampled_from(list(Trouble)), st.none())


def pod_of(name: str) -> Pod:
    return pod(name)


@settings(max_examples=200)
@given(st.lists(st.dictionaries(FILES, OUTCOMES, max_size=3), max_size=8), st.dictionaries(FILES, CONTENTS))
def test_whatever_happened_the_result_is_that_of_a_fresh_read_but_for_who_holds_what(
    history: list[dict[str, Outcome]], last: dict[str, DecodedFile]
) -> None:
    gone: dict[str, Outcome] = dict.fromkeys(("a.yaml", "b.yaml", "c.yaml"), Trouble.GONE)
    found = fold(*history, gone | last)
    fresh = fold(dict(last))
    assert found.objects.keys() == fresh.objects.keys()
    for key, it in found.objects.items():
        assert key.name in {obj.metadata.name for obj in last[it.file].objects}
    assert sum(map(len, found.errors.values())) == sum(map(len, fresh.errors.values()))
    assert fold({}, start=after(fold_state(*history), gone | last)) == found


@settings(max_examples=200)
@given(st.lists(st.dictionaries(FILES, OUTCOMES, max_size=3), min_size=1, max_size=8))
def test_what_is_in_force_only_leaves_when_its_file_drops_it(history: list[dict[str, Outcome]]) -> None:
    state = initial(())
    for step in history:
        before, state = state, after(state, step)
        for key, it in before.objects.items():
            outcome = step.get(it.file)
            dropped = outcome in (Trouble.GONE, Trouble.VANISHED) or isinstance(outcome, DecodedFile)
            vanished_before = before.files[it.file].trouble is Trouble.VANISHED
            if not dropped and not vanished_before:
                assert state.objects[key] == it


def config_map(value: str, *, immutable: bool) -> ConfigMap:
    return ConfigMap(metadata=ObjectMeta(name="c", namespace="default"), data={"k": value}, immutable=immutable)


def values(found: Desired) -> list[str]:
    return [it.object.data["k"] for it in found.objects.values()]


def test_an_edit_of_something_immutable_is_refused_and_what_was_stays() -> None:
    def file(value: str) -> DecodedFile:
        origins = (Origin(line=4, document=1),)
        return DecodedFile(objects=(config_map(value, immutable=True),), errors=(), notes=(), origins=origins)

    found = fold({"a.yaml": file("old")}, {"a.yaml": file("new")})
    assert values(found) == ["old"]
    assert errors(found) == {"a.yaml": ["a.yaml:4: data: Forbidden: field is immutable when `immutable` is set"]}
    back = fold({"a.yaml": file("old")}, {"a.yaml": file("new")}, {"a.yaml": file("old")})
    assert (values(back), back.errors) == (["old"], {})
    anew = fold({"a.yaml": file("old")}, {"a.yaml": Trouble.GONE}, {"a.yaml": file("new")})
    assert (values(anew), anew.errors) == (["new"], {}), "an object put back after its removal is another one"
