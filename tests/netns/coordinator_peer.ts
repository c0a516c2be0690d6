// ADD by ours and by upstream's coordinator, in the same world.
import type { JsonObject } from "../../lib/json/mod.ts";
import assert from "node:assert/strict";
import { callPlugin, sandboxOf } from "../lab/runtime.ts";
import type { CoordinatorLab, LabPod } from "./coordinator_lab.ts";

/** A way to have ADD called. */
export type Add = (
  lab: CoordinatorLab,
  pod: LabPod,
  nic: {
    readonly name: string;
    readonly addresses: readonly string[];
    /** Of the plugin's configuration. */
    readonly config?: JsonObject;
  },
) => Promise<void>;

export async function addOurs(
  ...[lab, pod, { name, config = {} }]: Parameters<Add>
): Promise<void> {
  await lab.ok("ADD", pod, { ifname: name, config });
}

export function addUpstreams(plugin: string, directory: string): Add {
  return async (lab, { containerId, netns }, { name, addresses, config }) => {
    const sandbox = sandboxOf(netns.name, { namespace: "a", name: "b" });
    const { code, stdout } = await callPlugin({
      plugin,
      command: "ADD",
      nodeNetns: lab.host.name,
      sandbox: { ...sandbox, containerId, ifname: name },
      config: {
        cniVersion: "1.0.0",
        name: "lab",
        type: "coordinator",
        ...config,
        logOptions: {
          logLevel: "debug",
          logFile: `${directory}/coordinator.log`,
        },
        prevResult: {
          cniVersion: "1.0.0",
          interfaces: [{ name, sandbox: netns.path }],
          ips: addresses.map((address) => ({ interface: 0, address })),
        },
      },
    });
    assert.equal(code, 0, stdout);
  };
}
