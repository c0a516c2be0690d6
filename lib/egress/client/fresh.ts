import { settled } from "../../async/mod.ts";
import { FAMILIES } from "../../inet/mod.ts";
import type { Netns } from "../../linux/mod.ts";
import {
  type FouSocket,
  type Link,
  linkGet,
  type NetfilterSocket,
  type NftNewTable,
  prepareTable,
  type Request,
  type RouteSocket,
  ruleAdd,
  ruleDelete,
} from "../../netlink/mod.ts";
import { Recent } from "./recent.ts";
import { addLink, kernelFacts, renameFallbacks, wantedLinks } from "./links.ts";
import type { ClientPlan } from "../plan/plan.ts";
import { addRoute, kernelRoutes } from "../plan/routes.ts";
import { narrowRule } from "../plan/rules.ts";
import { clientTable, needsTable } from "../plan/table.ts";
import { fouPorts } from "../kernel/fou_ports.ts";
import { openReversePath } from "../kernel/reverse_path.ts";
import { TUNNEL_LINKS } from "../kernel/tunnel_names.ts";

/**
 * Where the indexes of tunnel links begin. They are given here, so that routes
 * can name links that are made in the same send; the kernel itself counts from
 * 1 (dev_new_index() in net/core/dev.c) and does not come this far.
 */
const FIRST_INDEX = 10_001;

/**
 * The first index is a random one of so many: where an earlier client's links are
 * left, no route of this send is to meet one of those.
 */
const FIRST_INDEXES = 1 << 20;

/** ENODEV: the kernel has made no such link by itself. */
const NO_LINK = "ENODEV";

/** Where to work. */
export interface FreshOptions {
  readonly netns: Netns;
  readonly route: RouteSocket;
  readonly fou: Pick<FouSocket, "tryAdd">;
  readonly nft: Pick<NetfilterSocket, "createTable">;
  /** The MTU of the plan's interface. */
  readonly linkMtu: number;
}

/**
 * Makes a client of a pod whose network namespace is new. Nothing is read:
 * everything is made in such a way that the kernel refuses what is there
 * already. Rules, links and routes go in one send, the nft table in the meantime. No
 * route leads to a link that was there before.
 *
 * This second implementation saves at least 0.8 ms of each client's ADD,
 * of 5.3 (`egress.apply` of `docs/performance.md`). `ClientRun.converge()` goes on
 * where it does not succeed.
 *
 * Returns the requests that were carried out; undefined when anything was
 * refused. Then some of it may be there, and some not.
 */
export async function makeFresh(
  plan: ClientPlan,
  options: FreshOptions,
): Promise<readonly Request[] | undefined> {
  const { netns } = options;
  if (plan.receiverFamilies.includes("ipv4")) {
    // A new link gets what `default` has.
    const links = { open: ["all", "default"], loose: [plan.ifname] };
    openReversePath(netns, links);
  }
  const requests = pathRequests(plan, options);
  const done = await settled([
    makePaths(requests, plan, options),
    receive(plan, options),
  ]);
  return done.every(Boolean) ? requests : undefined;
}

/** The order is free in a new namespace, from which nothing is sent yet; only links come before their routes. */
function pathRequests(plan: ClientPlan, { linkMtu }: FreshOptions): Request[] {
  const links = wantedLinks(plan, linkMtu);
  const { addrGen } = kernelFacts();
  const first = FIRST_INDEX + Math.floor(Math.random() * FIRST_INDEXES);
  const indexes = new Map(links.map(({ name }, i) => [name, first + i]));
  return [
    ...plan.rules.map((rule) => ruleAdd(rule)),
    ...links.flatMap((link, i) => addLink(link, { addrGen, index: first + i })),
    ...kernelRoutes(plan.routes, indexes).map(addRoute),
  ];
}

/**
 * Deletes the rule that a client of a family that the plan lacks would have. A new
 * namespace has none, so the kernel refuses; no read is needed to find out.
 */
function probesOf({ families }: ClientPlan): Request[] {
  const others = FAMILIES.filter((family) => !families.includes(family));
  return others.map((family) => ruleDelete(narrowRule(family)));
}

/** Sends all at once; links that the kernel made by itself, in every namespace, get their other names after that. */
async function makePaths(
  requests: readonly Request[],
  plan: ClientPlan,
  { route }: FreshOptions,
): Promise<boolean> {
  const { receiverFamilies } = plan;
  const fallbacks: Link[] = [];
  const look = receiverFamilies.map((family) =>
    linkGet(
      { name: TUNNEL_LINKS[family].fallback.from },
      (link) => fallbacks.push(link),
    )
  );
  // Refusals are reported all the same, and a send that returned is carried out.
  const silent = requests.map((each) => ({ ...each, silent: true }));
  const probes = probesOf(plan);
  const errors = await route.tryExecute([...probes, ...silent, ...look]);
  const isUsed = errors.splice(0, probes.length).includes(undefined);
  const isRefused = errors.some((error, i) =>
    error !== undefined && (i < requests.length || error.code !== NO_LINK)
  );
  if (isUsed || isRefused) return false;
  // mutate: only a kernel with tunnels makes such links; see tests/vm.
  await route.execute(renameFallbacks(fallbacks, receiverFamilies));
  return true;
}

/** The guard is there before the ports. */
async function receive(
  plan: ClientPlan,
  { fou, nft }: FreshOptions,
): Promise<boolean> {
  if (!needsTable(plan, [])) return true;
  if (!await nft.createTable(tableOf(plan))) return false;
  const ports = fouPorts(plan.tunnelFamilies, plan.port);
  const errors = await fou.tryAdd(ports);
  return errors.every((error) => error === undefined);
}

/** Clients of the same gateways have the same table. */
const tables = new Recent<NftNewTable>();

/** The plan's table, ready to be sent. */
function tableOf(plan: ClientPlan): NftNewTable {
  const { receiverFamilies, tunnelFamilies, senders, port } = plan;
  const key = JSON.stringify([
    ...[receiverFamilies, tunnelFamilies, port, plan.choices, plan.ifname],
    senders.join(),
  ]);
  return tables.of(
    key,
    () => prepareTable(clientTable(plan, { interfaces: [] })),
  );
}
