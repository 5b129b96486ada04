"""A readiness gate waits for a condition that only a cluster's controllers set: the pod runs, and is never Ready."""

from __future__ import annotations

import asyncio

import pytest

from tests.support.site import private_site

pytestmark = [pytest.mark.containerd, pytest.mark.timeout(120)]


async def test_lc_11_5_a_pod_with_a_readiness_gate_runs_and_is_not_ready() -> None:
    async with private_site() as site:
        site.drop(readinessGates=[{"conditionType": "example.com/in-service"}])
        await site.running()

        async def all_containers_ready() -> bool:
            (pod,) = await site.pods()
            return any(
                it["type"] == "ContainersReady" and it["status"] == "True" for it in pod["status"].get("conditions", [])
            )

        await site.until("its containers are ready", all_containers_ready)
        (pod,) = await site.pods()
        conditions = {it["type"]: it for it in pod["status"]["conditions"]}
        assert "example.com/in-service" not in conditions
        ready = conditions["Ready"]
        assert (ready["status"], ready["reason"]) == ("False", "ReadinessGatesNotReady")
        assert ready["message"] == (
            'corresponding condition of pod readiness gate "example.com/in-service" does not exist.'
        )
        assert pod["spec"]["readinessGates"] == [{"conditionType": "example.com/in-service"}]
        (note,) = (await asyncio.to_thread(site.node.get, "/status"))["manifests"]["notes"]
        assert note["path"] == "spec.readinessGates"
        assert note["message"].startswith("needs a cluster: ")
        assert site.node.log.read_text().count("needs a cluster: ") == 1
        site.remove()
        await site.gone()
