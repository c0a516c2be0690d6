import { settled } from "../../async/mod.ts";
import type { Address } from "../../inet/mod.ts";
import { tryReadSysctl } from "../../linux/mod.ts";
import {
  type Neighbour,
  neighbourGet,
  refuseLost,
  type Route,
} from "../../netlink/mod.ts";
import { readHostLinks } from "./host_addresses.ts";
import type { Kernel, Routes } from "./ports.ts";
import { REPLY_TABLE } from "../plan/reply_table.ts";
import { type SideState, type State, sysctlKey } from "../state/state.ts";
import type { Step } from "../state/steps.ts";

/** What pod and host have. */
export type Sides = Pick<State, "pod" | "host">;

/** A pod's lists before anything runs in it, and the host's, which has only what is set up by hand or by us. */
const SHORT = { isShort: true };

/** Reads a pod's network, but for its neighbours: the kernel keeps those of all namespaces in one table. */
export async function readPod(
  pod: Routes,
  options: { readonly isShort?: boolean } = {},
): Promise<SideState> {
  return {
    links: await pod.listLinks(),
    addresses: await pod.listAddresses({}, options),
    rules: await pod.listRules({}, options),
    routes: await pod.listRoutes({}, options),
    neighbours: [],
  };
}

/** Reads a pod's network, and what of the host's concerns all pods: nothing of it grows with them. */
export async function readSides(
  { pod, host }: Pick<Kernel, "pod" | "host">,
): Promise<Sides> {
  const [inside, outside] = await settled([
    readPod(pod, SHORT),
    readHost(host),
  ]);
  return { pod: inside, host: outside };
}

async function readHost(host: Routes): Promise<SideState> {
  return {
    ...await readHostLinks(host, SHORT),
    rules: await host.listRules({}, SHORT),
    routes: [],
    neighbours: [],
  };
}

/** The routes by a link in one table. */
export async function readRoutesBy(
  host: Routes,
  filter: { readonly table: number; readonly index: number },
): Promise<Route[]> {
  return await host.listRoutes(filter, SHORT);
}

/** What the kernel knows about some neighbours of a link, each looked up on its own: that does not grow with the node's. */
export async function readNeighbours(
  socket: Routes,
  index: number,
  addresses: readonly Address[],
): Promise<Neighbour[]> {
  const found: Neighbour[] = [];
  const requests = addresses.map((address) =>
    neighbourGet({ index, address }, (neighbour) => found.push(neighbour))
  );
  refuseLost(await socket.tryExecute(requests));
  return found;
}

/** Whether the pod has the table of reply marks just so, if a step wants it. */
export async function areRepliesMarked(
  { filters }: Pick<Kernel, "filters">,
  steps: readonly Step[],
): Promise<boolean> {
  return steps.some(({ kind }) => kind === "replies") &&
    (await filters.compareTable(REPLY_TABLE)).length === 0;
}

/** The values of the sysctls that steps set. */
export function readSysctls(
  { netns, hostNetns }: Pick<Kernel, "netns" | "hostNetns">,
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
