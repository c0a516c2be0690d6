// Whether kernel, API server, container runtime and coild tell the same story.
import assert from "node:assert/strict";
import { ADDRESS_BLOCKS, type AddressBlock } from "../../lib/api/mod.ts";
import { Address, Prefix } from "../../lib/inet/mod.ts";
import { type KubeClient, PODS, type V1Pod } from "../../lib/kube/mod.ts";
import {
  HUSK_ALIAS_PREFIX,
  LINK_ALIAS_PREFIX,
  NODE_LABEL,
  POD_TABLE,
  POOL_LABEL,
} from "../../lib/names/mod.ts";
import type { ClusterNode } from "../lab/cluster/mod.ts";
import { eventually } from "../lab/mod.ts";
import { type AddressCount, countAddresses } from "./address_counts.ts";
import { listSandboxes, type Sandbox } from "./cri.ts";
import type { Installation } from "./installation.ts";

const SETTLE_MS = 180_000;
/** States in which coild keeps an address from others for a pod: "releasing" is for the time of a DEL alone. */
const HOLDING = ["used", "releasing", "quarantined"];

/** A pod's end on the host. */
interface HostLink {
  readonly name: string;
  readonly alias: string;
}

/** A pod's address in table 116, and the link that it goes to. */
interface Route {
  readonly dst: string;
  readonly dev: string;
}

/** What is so on one node. */
interface NodeView {
  readonly node: string;
  readonly links: readonly HostLink[];
  readonly routes: readonly Route[];
  readonly sandboxes: readonly Sandbox[];
  /** What coild has in its memory, or why it does not say. */
  readonly counts: readonly AddressCount[] | string;
}

interface ApiView {
  readonly pods: readonly V1Pod[];
  readonly blocks: readonly AddressBlock[];
}

/**
 * Waits until every address of the cluster is where all agree that it is: one pod has it, whose runtime reports it, whose
 * node's kernel leads it to a link that names the pod's container, by one route, and which is in a block of that node;
 * coild counts as many; and nothing else is left over.
 *
 * @throws {AssertionError} that lists what does not agree.
 */
export async function assertAgreement(
  installation: Installation,
): Promise<void> {
  let last: readonly string[] = [];
  try {
    await eventually("agreement", async () => {
      last = await disagreements(installation);
      return last.length === 0;
    }, { timeoutMs: SETTLE_MS, intervalMs: 500 });
  } catch (cause) {
    if (last.length === 0) throw cause;
    assert.fail(`not all say the same:\n${last.join("\n")}`);
  }
}

/** @throws {AssertionError} when containerd, on any node, has one address twice. */
export async function assertUnique(
  { nodes }: Installation,
): Promise<void> {
  const views = await Promise.all(nodes.map(async (node) => ({
    node: node.name,
    sandboxes: await listSandboxes(node),
  })));
  assert.deepEqual(checkUnique(views), []);
}

async function disagreements(
  { nodes, client }: Installation,
): Promise<readonly string[]> {
  const views: NodeView[] = [];
  for (const node of nodes) views.push(await viewNode(node));
  const api = await viewApi(client);
  return [
    ...views.flatMap((view) => checkNode(view, api)),
    ...checkUnique(views),
  ];
}

async function viewApi(client: KubeClient): Promise<ApiView> {
  const pods = (await client.list(PODS)).items.filter(({ spec, status }) =>
    spec?.hostNetwork !== true && status?.phase === "Running"
  );
  return { pods, blocks: (await client.list(ADDRESS_BLOCKS)).items };
}

async function viewNode(node: ClusterNode): Promise<NodeView> {
  const links = parseLinks(await node.run("ip", ["-j", "link", "show"]));
  const routes: Route[] = [];
  for (const family of ["-4", "-6"]) {
    const args = ["-j", family, "route", "show", "table", `${POD_TABLE}`];
    // An empty table is none to `ip`.
    const text = await node.run("ip", args).catch(() => "[]");
    routes.push(...parseRoutes(text));
  }
  const sandboxes = (await listSandboxes(node))
    .filter(({ addresses }) => addresses.length > 0);
  const counts = await countAddresses(node)
    .catch((error) => `coild does not answer: ${error.message}`);
  return { node: node.name, links, routes, sandboxes, counts };
}

/** Links of pods, those included that are about to be removed. */
function parseLinks(text: string): readonly HostLink[] {
  const all = JSON.parse(text) as { ifname: string; ifalias?: string }[];
  return all.flatMap(({ ifname, ifalias = "" }) =>
    [LINK_ALIAS_PREFIX, HUSK_ALIAS_PREFIX].some((p) => ifalias.startsWith(p))
      ? [{ name: ifname, alias: ifalias }]
      : []
  );
}

function parseRoutes(text: string): readonly Route[] {
  return JSON.parse(text === "" ? "[]" : text);
}

function checkNode(view: NodeView, api: ApiView): readonly string[] {
  const { node, sandboxes, links } = view;
  const pods = api.pods.filter(({ spec }) => spec?.nodeName === node);
  const blocks = api.blocks.filter((b) =>
    b.metadata?.labels?.[NODE_LABEL] === node
  );
  const wrong: string[] = [];
  const say = (text: string) => wrong.push(`${node}: ${text}`);
  for (const { metadata } of pods) {
    if (sandboxes.some(({ uid }) => uid === metadata?.uid)) continue;
    say(`pod ${metadata?.name} runs, but not in the runtime`);
  }
  for (const sandbox of sandboxes) {
    const pod = pods.find(({ metadata }) => metadata?.uid === sandbox.uid);
    for (const text of checkSandbox(sandbox, { pod, blocks, view })) say(text);
  }
  for (const text of checkRoutes(view)) say(text);
  for (const text of checkCounts(view, blocks)) say(text);
  for (const { name, alias } of links) {
    if (sandboxes.some(({ id }) => alias.includes(`:${id}:`))) continue;
    say(`link ${name} "${alias}" of no pod`);
  }
  return wrong;
}

function* checkRoutes({ routes, sandboxes }: NodeView): Generator<string> {
  const known = new Set(sandboxes.flatMap(({ addresses }) => addresses));
  const seen = new Map<string, string>();
  for (const { dst, dev } of routes) {
    if (!known.has(dst)) yield `route to ${dst} by ${dev} for no pod`;
    const other = seen.get(dst);
    if (other !== undefined) {
      yield `two routes to ${dst}, by ${other} and by ${dev}`;
    }
    seen.set(dst, dev);
  }
}

/** Compares what coild has given out, and not got back, with the pods that have it: an address can be lost in its memory alone. */
function* checkCounts(
  { counts, sandboxes }: NodeView,
  blocks: readonly AddressBlock[],
): Generator<string> {
  if (typeof counts === "string") return yield counts;
  const rest = new Map<string, number>();
  for (const { addresses } of sandboxes) {
    const pool = poolOf(addresses[0] ?? "", blocks);
    rest.set(pool, (rest.get(pool) ?? 0) + 1);
  }
  for (const { pool, state, count } of counts) {
    const expected = state === "used" ? rest.get(pool) ?? 0 : 0;
    if (state === "used") rest.delete(pool);
    if (!HOLDING.includes(state) || count === expected) continue;
    yield `coild has ${count} addresses of pool ${pool} ${state}, pods make it ${expected}`;
  }
  for (const [pool, count] of rest) {
    yield `coild knows nothing of pool ${pool}, of which ${count} pods have addresses`;
  }
}

/** The pool of the block that an address is in. */
function poolOf(address: string, blocks: readonly AddressBlock[]): string {
  const block = blocks.find((b) => contains(b, address));
  return block?.metadata?.labels?.[POOL_LABEL] ?? "";
}

function* checkSandbox(
  sandbox: Sandbox,
  world: {
    readonly pod: V1Pod | undefined;
    readonly blocks: readonly AddressBlock[];
    readonly view: NodeView;
  },
): Generator<string> {
  const { pod, blocks, view } = world;
  const name = `${sandbox.namespace}/${sandbox.pod}`;
  const inRuntime = [...sandbox.addresses].sort().join();
  if (pod === undefined) return yield `${name} runs in the runtime alone`;
  const inApi = (pod.status?.podIPs ?? []).map(({ ip }) => ip).sort().join();
  if (inApi !== inRuntime) {
    yield `${name} has ${inApi} in the API and ${inRuntime} in the runtime`;
  }
  for (const address of sandbox.addresses) {
    const dev = view.routes.find(({ dst }) => dst === address)?.dev;
    const link = view.links.find((l) => l.name === dev);
    if (link?.alias.includes(`:${sandbox.id}:`) !== true) {
      yield `${name}: ${address} is routed to ${
        dev ?? "nothing"
      } "${link?.alias}"`;
    }
    if (!blocks.some((block) => contains(block, address))) {
      yield `${name}: ${address} is in no block of the node`;
    }
  }
}

function contains(block: AddressBlock, text: string): boolean {
  const address = Address.parse(text);
  return [block.ipv4, block.ipv6].some((prefix) => {
    if (prefix === undefined || prefix === null) return false;
    return Prefix.parse(prefix).contains(address);
  });
}

function checkUnique(
  views: readonly Pick<NodeView, "node" | "sandboxes">[],
): readonly string[] {
  const owners = new Map<string, string>();
  const wrong: string[] = [];
  for (const { node, sandboxes } of views) {
    for (const { namespace, pod, addresses } of sandboxes) {
      for (const address of addresses) {
        const who = `${namespace}/${pod} on ${node}`;
        const other = owners.get(address);
        if (other !== undefined) {
          wrong.push(`${address} is both ${other}'s and ${who}'s`);
        }
        owners.set(address, who);
      }
    }
  }
  return wrong;
}
