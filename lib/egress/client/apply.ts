import { Address } from "../../inet/mod.ts";
import type { Netns } from "../../linux/mod.ts";
import { EGRESS_NFT_TABLE } from "../../names/mod.ts";
import {
  NetfilterSocket,
  type NftElement,
  type NftRefill,
  prepareRefill,
  RouteSocket,
} from "../../netlink/mod.ts";
import { listSetIfAny } from "../kernel/list_set.ts";
import {
  choiceSets,
  gatewayMark,
  gatewaySetName,
  lostSetName,
} from "../plan/choice.ts";
import {
  type ClientPlan,
  type ClientTunnel,
  MAX_CHOSEN,
  planClient,
} from "../plan/plan.ts";
import type {
  ShadowedDestination,
  SkippedDestination,
} from "../plan/request.ts";
import { CHOICE_CHAIN, clientTable, senderSetName } from "../plan/table.ts";
import { Recent } from "./recent.ts";
import { ClientRun } from "./run.ts";
import { isGateway, ownState, readState } from "./state.ts";

/** Where to work. */
export interface ClientOptions {
  /** The pod's network namespace. It has to stay open until the call is done. */
  readonly netns: Netns;
  /** Gives up between two steps; the next call goes on. */
  readonly signal?: AbortSignal;
}

/** How `applyClient()` works. */
export interface ApplyOptions extends ClientOptions {
  /**
   * The MTU of the plan's interface, in a namespace that has just been made:
   * then nothing is read, and all is made at once. Where a client turns out to
   * be there, it goes on as it would without this.
   */
  readonly freshMtu?: number | undefined;
}

/** What `applyClient()` did. */
export interface ClientReport {
  /** What was changed, one phrase each; empty when all was as planned. */
  readonly changes: readonly string[];
  /**
   * Whether a route lacks its source, since the kernel still looks for another
   * owner of the pod's address (RFC 4862, section 5.4). Another call makes it
   * whole, a second or two later.
   */
  readonly awaitsAddress: boolean;
  /** Destinations that another Egress got. */
  readonly shadowed: readonly ShadowedDestination[];
  /** Destinations of a family that pod or Service lacks. */
  readonly skipped: readonly SkippedDestination[];
}

/**
 * Makes the network of a pod what the plan says, from any state: nothing,
 * another plan, upstream Coil's, or what a killed process left half-done. Does
 * nothing when all is right already. Calls for one namespace must not overlap;
 * the caller makes sure of that.
 *
 * No packet leaves by a wrong path in the meantime: what is new comes before anything
 * is removed, and routes are replaced in one step. When something fails, the
 * destinations of Egresses that fail closed are refused.
 *
 * The kernel's reverse path check of IPv4 is switched off for the tunnels and
 * stays so.
 *
 * @throws {NetlinkError} when the kernel refuses
 * @throws {FouUnsupportedError} when the kernel has no Foo over UDP
 * @throws {GatewayNetnsError} when the namespace is an egress gateway's
 * @throws {TypeError} when it lacks the plan's interface
 */
export async function applyClient(
  plan: ClientPlan,
  options: ApplyOptions,
): Promise<ClientReport> {
  using run = ClientRun.open(plan, options);
  const { freshMtu } = options;
  const isMade = freshMtu !== undefined && await run.create(freshMtu);
  const awaitsAddress = !isMade && await run.converge();
  const { shadowed, skipped } = plan;
  return {
    get changes() {
      return run.changes;
    },
    awaitsAddress,
    shadowed,
    skipped,
  };
}

/**
 * Makes the table of nftables of a client what the plan says, and nothing else:
 * enough where its network matches a plan that differs in the gateways that are
 * ready or lost alone. One transaction, and nothing is read. Where the table is not
 * as the plan's, all is done that `applyClient()` does.
 *
 * @throws {NetlinkError} when the kernel refuses
 */
export async function applyChoices(
  plan: ClientPlan,
  options: ClientOptions,
): Promise<void> {
  {
    // Closed on another thread: the kernel makes it wait for what is replaced.
    using nft = NetfilterSocket.open(options);
    if (await nft.refillTable(refillOf(plan))) return;
  }
  await applyClient(plan, options);
}

const refills = new Recent<NftRefill>();

/** Clients of the same gateways choose in the same way. */
function refillOf(plan: ClientPlan): NftRefill {
  const { originatingOnly, ifname, choices } = plan;
  const key = JSON.stringify({ originatingOnly, ifname, choices });
  return refills.of(key, () => {
    const sets = choices.flatMap(choiceSets).map(({ name }) => name);
    const table = clientTable(plan, { interfaces: [] });
    return prepareRefill(table, { sets, chains: [CHOICE_CHAIN] });
  });
}

/**
 * Removes everything that makes a client of a pod. False when there was
 * nothing, or the namespace is an egress gateway's. Idempotent.
 *
 * @throws {NetlinkError} when the kernel refuses
 */
export async function clearClient(options: ClientOptions): Promise<boolean> {
  if (!await isClient(options)) return false;
  await applyClient(nothing(), options);
  return true;
}

/** Whether anything in the namespace makes a client of the pod, be it upstream Coil's or half-done. @throws {NetlinkError} when the kernel refuses */
export async function isClient({ netns }: ClientOptions): Promise<boolean> {
  using route = RouteSocket.open({ netns });
  using nft = NetfilterSocket.open({ netns });
  const state = await readState(route, { withAddresses: false });
  if (isGateway(state)) return false;
  const { links, rules, routes } = ownState(state);
  return links.length + rules.length + routes.length > 0 ||
    await nft.tableExists(EGRESS_NFT_TABLE);
}

/** What a client's table has of gateways that it chooses from. */
export interface KnownChoices {
  /** Connections through these stay; by the name of their Egress. */
  readonly chosen: ReadonlyMap<string, readonly Address[]>;
  /** Marks of those of them that do not answer. */
  readonly lost: ReadonlySet<number>;
}

/** Reads from a client's table which gateways it chooses from, behind these tunnels; none where it does not. */
export async function listChoices(
  tunnels: readonly Pick<ClientTunnel, "name" | "gateway" | "family">[],
  { netns }: ClientOptions,
): Promise<KnownChoices> {
  using nft = NetfilterSocket.open({ netns });
  const [chosen, lost] = [new Map<string, Address[]>(), new Set<number>()];
  for (const { name, gateway, family } of tunnels) {
    const marks = await elementsOf(nft, gatewaySetName(name));
    if (marks.length === 0) continue;
    const senders = (await elementsOf(nft, senderSetName(family)))
      .filter((each) => each instanceof Address)
      .filter((each) => marks.includes(gatewayMark(each)));
    chosen.set(gateway, [...chosen.get(gateway) ?? [], ...senders]);
    const dead = await elementsOf(nft, lostSetName(name));
    for (const mark of dead) lost.add(Number(mark));
  }
  return { chosen, lost };
}

async function elementsOf(
  nft: NetfilterSocket,
  set: string,
): Promise<NftElement[number][]> {
  // mutate: only bounds memory.
  const options = { planned: MAX_CHOSEN };
  const elements = await listSetIfAny(nft, EGRESS_NFT_TABLE, set, options);
  return elements.flat();
}

/** The plan of a pod that is not a client. */
function nothing(): ClientPlan {
  return planClient({
    addresses: {},
    ifname: "",
    mtu: 0,
    port: 0,
    gateways: [],
    originatingOnly: false,
  });
}
