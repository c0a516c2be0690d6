import { tryReadSysctl } from "../../linux/mod.ts";
import type { Kernel, Routes } from "./ports.ts";
import { REPLY_TABLE } from "../plan/reply_table.ts";
import { type SideState, type State, sysctlKey } from "../state/state.ts";
import type { Step } from "../state/steps.ts";

/** Reads all of a pod's network. */
export async function readPod(pod: Routes): Promise<SideState> {
  return {
    links: await pod.listLinks(),
    addresses: await pod.listAddresses(),
    rules: await pod.listRules(),
    routes: await pod.listRoutes(),
    neighbours: await pod.listNeighbours(),
  };
}

/** Reads what the host has for a pod: nothing of it grows with the node's links and neighbours. */
export async function readHost(
  host: Routes,
  { device, table }: { readonly device: string; readonly table: number },
): Promise<SideState> {
  const link = await host.getLink({ name: device });
  return {
    links: link === undefined ? [] : [link],
    addresses: [],
    rules: await host.listRules(),
    routes: await host.listRoutes({ table }),
    neighbours: link === undefined
      ? []
      : await host.listNeighbours({ index: link.index }),
  };
}

/** The rest of the state that a plan is compared with. */
export async function readState(
  kernel: Kernel,
  sides: Pick<State, "pod" | "host">,
  steps: readonly Step[],
): Promise<State> {
  const wantsReplies = steps.some(({ kind }) => kind === "replies");
  return {
    ...sides,
    sysctls: readSysctls(kernel, steps),
    repliesMarked: wantsReplies &&
      (await kernel.filters.compareTable(REPLY_TABLE)).length === 0,
  };
}

function readSysctls(
  { netns, hostNetns }: Kernel,
  steps: readonly Step[],
): Map<string, string> {
  const values = new Map<string, string>();
  for (const step of steps) {
    if (step.kind !== "sysctl") continue;
    const at = step.place === "pod" ? netns : hostNetns;
    // None: the kernel has no IPv6, or is older.
    const value = tryReadSysctl(step.name, { netns: at });
    if (value !== undefined) values.set(sysctlKey(step), value);
  }
  return values;
}
