// An ADD that fails at any step, or send: everything is as before.
import type { JsonObject } from "../../lib/json/mod.ts";
import assert from "node:assert/strict";
import type { Outside } from "../../lib/coordinator/mod.ts";
import { FAMILIES } from "../../lib/inet/mod.ts";
import { type Countdown, failing } from "./coordinator_faults.ts";
import {
  addressIn,
  CoordinatorLab,
  type LabPod,
  type NicSpec,
  reaches,
  stateOf,
} from "./coordinator_lab.ts";
import { losing } from "./coordinator_lost_sends.ts";
import { netnsTest } from "./testing.ts";

const ETH0: NicSpec = { name: "eth0", network: 6, number: 100 };
const NET1: NicSpec = { name: "net1", network: 7, number: 100 };

const FAULTS: Readonly<
  Record<string, (at: Countdown) => (outside: Outside) => Outside>
> = {
  "that the kernel refuses": failing,
  "whose send fails": (at) => losing("request", at),
  "whose answers are lost": (at) => losing("answer", at),
};

/** An ADD of the last of these interfaces, the others are joined before; with `again` that one, too. */
interface FailedAdd {
  readonly nics: readonly NicSpec[];
  readonly config: JsonObject;
  /** What the interfaces before are joined with. */
  readonly joined?: JsonObject;
  readonly again?: true;
  /** The number of the pod's first interface, of an overlay. */
  readonly overlay?: number;
  /** How many changes it makes at least. */
  readonly changes: number;
}

const CONFIG = { txQueueLen: 500, podMACPrefix: "0a:1b", podRPFilter: 1 };
const ADDS: Readonly<Record<string, FailedAdd>> = {
  "the first interface": { nics: [ETH0], config: CONFIG, changes: 16 },
  "a second interface": { nics: [ETH0, NET1], config: CONFIG, changes: 16 },
  "an interface of an overlay pod": {
    nics: [NET1],
    overlay: 5,
    config: CONFIG,
    changes: 16,
  },
  "an interface that gets the default route": {
    nics: [ETH0, NET1],
    config: { ...CONFIG, podDefaultRouteNic: "net1" },
    changes: 16,
  },
  "an interface that gives the default route back": {
    nics: [ETH0, NET1],
    joined: { podDefaultRouteNic: "net1" },
    config: { podDefaultRouteNic: "eth0" },
    again: true,
    changes: 5,
  },
  "an interface once more, otherwise configured": {
    nics: [ETH0],
    config: { ...CONFIG, vethMTU: 1400, vethLinkAddress: "10.9.9.9" },
    again: true,
    changes: 5,
  },
};

/** What is there, but for what the pod learns of its neighbours. */
async function look(
  { host }: CoordinatorLab,
  { netns }: LabPod,
): Promise<Readonly<Record<"pod" | "host", readonly string[]>>> {
  return { pod: await stateOf(netns), host: await stateOf(host) };
}

/** With what is all pods', and what another link has left in the place of ours. */
async function labWithLeftovers(): Promise<CoordinatorLab> {
  const lab = await CoordinatorLab.start(FAMILIES);
  for (const family of ["-4", "-6"]) {
    await lab.host.ip(
      ...[family, "rule", "add", "pref", "1000", "lookup", "500"],
      ...["proto", "32"],
    );
  }
  const route = ["10.6.0.100", "dev", "net8", "table", "500"];
  await lab.host.ip("route", "add", ...route);
  return lab;
}

for (const [what, add] of Object.entries(ADDS)) {
  const { nics, config, joined = {}, again, overlay, changes } = add;
  for (const [fault, spoil] of Object.entries(FAULTS)) {
    netnsTest(
      `coordinator: a failed ADD of ${what} leaves everything as before, whichever step it is ${fault}`,
      async () => {
        await using lab = await labWithLeftovers();
        const pod = await lab.joined(again ? nics : nics.slice(0, -1), {
          config: joined,
          overlay,
        });
        const [nic = ETH0] = nics.slice(-1);
        if (!again) await lab.addNic(pod.netns, nic);
        const before = await look(lab, pod);
        let failures = 0;
        for (let step = 0;; step++) {
          const at = { left: step };
          lab.change = spoil(at);
          const { exitCode, stdout } = await lab.call("ADD", pod, {
            ifname: nic.name,
            config,
          });
          // Nothing was left to fail.
          if (at.left >= 0) {
            assert.equal(exitCode, 0, stdout);
            break;
          }
          // Of all that an ADD does this alone is not worth a pod.
          if (/Failed to announce/.test(lab.warnings.join())) break;
          assert.equal(exitCode, 1, `step ${step}`);
          // Not what follows from an empty answer.
          if (spoil !== failing) assert.match(stdout, /ENOBUFS/);
          failures++;
          assert.deepEqual(await look(lab, pod), before, `step ${step}`);
        }
        const least = spoil === failing ? changes : 11;
        assert.ok(failures >= least, `${failures} failures`);
        assert.deepEqual(lab.warnings.filter((text) => /undo/.test(text)), []);
        const address = addressIn(nic.network, "ipv4", 100);
        assert.ok(await reaches(lab.host, address));
      },
    );
  }
}
