// A call that ends at any step, as when coild is killed: the next one completes it.
import assert from "node:assert/strict";
import { FAMILIES } from "../../lib/inet/mod.ts";
import { type Countdown, failing } from "./coordinator_faults.ts";
import {
  CoordinatorLab,
  type LabPod,
  type NicSpec,
  ours,
  reaches,
  stateOf,
} from "./coordinator_lab.ts";
import { netnsTest } from "./testing.ts";

const CONFIG = {
  txQueueLen: 500,
  podRPFilter: 1,
  vethLinkAddress: "10.9.9.9",
};

/** What is the coordinator's of a pod and the host. */
async function left(lab: CoordinatorLab, { netns }: LabPod): Promise<string[]> {
  return ours([...await stateOf(netns), ...await stateOf(lab.host)]);
}

/** What the pod has, once the host has a route to this address of it. */
async function oncePublished(
  lab: CoordinatorLab,
  { netns }: LabPod,
  address: string,
): Promise<readonly string[] | undefined> {
  const routes = await lab.host.ip("route", "show", "table", "all");
  const isThere = routes.split("\n").some((line) =>
    line.startsWith(`${address} `) && line.includes("proto 32")
  );
  return isThere ? ours(await stateOf(netns)) : undefined;
}

/** A pod with two interfaces, of which the coordinator knows the first `joined`. */
async function podOf(
  lab: CoordinatorLab,
  { number, joined }: { readonly number: number; readonly joined: number },
): Promise<LabPod> {
  const nics: readonly NicSpec[] = [
    { name: "eth0", network: 6, number },
    { name: "net1", network: 7, number },
  ];
  const pod = await lab.joined(nics.slice(0, joined), { config: CONFIG });
  const [next] = nics.slice(joined);
  if (next !== undefined) await lab.addNic(pod.netns, next);
  return pod;
}

for (const [ifname, joined] of [["eth0", 0], ["net1", 1]] as const) {
  netnsTest(
    `coordinator: an ADD of ${ifname} that is cut off at any step is completed by the next one`,
    async () => {
      await using lab = await CoordinatorLab.start(FAMILIES);
      let cuts = 0;
      let published = 0;
      for (;; cuts++) {
        const pod = await podOf(lab, { number: 20 + cuts, joined });
        const at: Countdown = { left: cuts, andAllLater: true };
        lab.change = failing(at);
        await lab.call("ADD", pod, { ifname, config: CONFIG });
        lab.change = (outside) => outside;
        const network = ifname === "eth0" ? 6 : 7;
        const address = `10.${network}.0.${20 + cuts}`;
        const early = await oncePublished(lab, pod, address);
        await lab.ok("ADD", pod, { ifname, config: CONFIG });
        await lab.ok("CHECK", pod, { ifname, config: CONFIG });
        // The host sends nothing to a pod that could not answer.
        if (early !== undefined) {
          assert.deepEqual(early, ours(await stateOf(pod.netns)));
          published++;
        }
        assert.ok(await reaches(lab.host, address), `step ${cuts}`);
        for (const each of ["net1", "eth0"]) {
          await lab.ok("DEL", pod, { ifname: each });
        }
        assert.deepEqual(await left(lab, pod), [], `step ${cuts}`);
        if (at.left >= 0) break;
      }
      assert.ok(cuts > 10, `${cuts} steps`);
      // Also where the call was cut off between the host's routes.
      assert.ok(published > 1, `${published} calls`);
    },
  );

  netnsTest(
    `coordinator: a DEL of ${ifname} that is cut off at any step is completed by the next one`,
    async () => {
      await using lab = await CoordinatorLab.start(FAMILIES);
      let cuts = 0;
      for (;; cuts++) {
        const pod = await podOf(lab, {
          number: 20 + cuts,
          joined: ifname === "eth0" ? 1 : 2,
        });
        const at: Countdown = { left: cuts, andAllLater: true };
        lab.change = failing(at);
        const { exitCode, stdout } = await lab.call("DEL", pod, { ifname });
        // The runtime repeats only what has failed.
        assert.equal(exitCode, at.left < 0 ? 1 : 0, `step ${cuts}: ${stdout}`);
        lab.change = (outside) => outside;
        await lab.ok("DEL", pod, { ifname });
        if (ifname === "net1") {
          await lab.ok("CHECK", pod, { config: CONFIG });
          await lab.ok("DEL", pod);
        }
        assert.deepEqual(await left(lab, pod), [], `step ${cuts}`);
        if (at.left >= 0) break;
      }
      assert.ok(cuts > 3, `${cuts} steps`);
    },
  );
}
