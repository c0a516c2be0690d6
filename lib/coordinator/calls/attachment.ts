import { type AttachmentKey, CniError, ErrorCode } from "../../cni/mod.ts";
import { COORDINATOR_VETH } from "../../names/mod.ts";
import { settled } from "../../async/mod.ts";
import { type Address, distinct } from "../../inet/mod.ts";
import type { Link } from "../../netlink/mod.ts";
import { invalidConfig } from "../config/invalid.ts";
import type { Settings } from "../config/defaults.ts";
import { familiesOf } from "../plan/family.ts";
import { type ResolvedMode, resolveMode } from "../plan/mode.ts";
import { keepForeign } from "../plan/foreign.ts";
import { planMoves } from "../plan/move_routes.ts";
import {
  familiesWithoutHost,
  type LinkEnd,
  type PlanInput,
  planNic,
} from "../plan/plan.ts";
import type { Kernel, Outside } from "../kernel/ports.ts";
import { findHostAddresses } from "../kernel/host_addresses.ts";
import {
  areRepliesMarked,
  readNeighbours,
  readRoutesBy,
  readSysctls,
} from "../kernel/read.ts";
import { staleSteps } from "../plan/stale.ts";
import { beginningOf } from "../state/beginning.ts";
import {
  addressesOf,
  duplicatesOf,
  indexOf,
  isNetworkOf,
  isOurs,
  type Sides,
  type SideState,
  type State,
} from "../state/state.ts";
import type { Step } from "../state/steps.ts";
import type { Ends } from "../kernel/ends.ts";

/** RFC 8200, section 5. */
const IPV6_MIN_MTU = 1280;

/** One interface that is added or checked. */
export interface ConfiguredAttachment extends AttachmentKey {
  readonly settings: Settings;
}

/** A plan, and what the kernel has. */
export interface PlannedState {
  readonly input: PlanInput;
  readonly steps: readonly Step[];
  readonly state: State;
}

/** The names of the links that an attachment is about. */
export function namesOf(
  { ifname, settings: { firstNic, defaultRouteNic } }: ConfiguredAttachment,
): ReadonlySet<string> {
  const configured = defaultRouteNic === undefined ? [] : [defaultRouteNic];
  return new Set([ifname, firstNic, COORDINATOR_VETH, ...configured]);
}

/**
 * How an interface is joined to the host.
 *
 * @throws {CniError} with code 7 when the mode does not fit, the interface is not there, or has no address
 */
export function modeOf(
  pod: SideState,
  { ifname: nic, settings }: ConfiguredAttachment,
): ResolvedMode {
  const link = linkOf(pod.links, nic);
  const families = familiesOf(nic, addressesOf(pod, link.index));
  const names = pod.links.map(({ name }) => name);
  const mode = resolveMode(nic, names, settings);
  refuseMacPrefix(link, settings);
  const { firstNic, vethMtu } = settings;
  const isPairs = mode === "underlay" && nic === firstNic;
  if (isPairs && families.includes("ipv6") && vethMtu < IPV6_MIN_MTU) {
    throw invalidConfig(
      `vethMTU ${vethMtu} is too small for IPv6`,
      `interface "${nic}" has an IPv6 address: use ${IPV6_MIN_MTU} or more`,
    );
  }
  return mode;
}

/**
 * Both ends of the link to the host that another call or plugin has made.
 *
 * @throws {CniError} with code 11 when the interface has no end on the host
 */
export async function findEnds(
  outside: Pick<Outside, "findHostEnd">,
  { netns }: Pick<Kernel, "netns">,
  { mode, settings, pod }: {
    readonly mode: ResolvedMode;
    readonly settings: Settings;
    readonly pod: SideState;
  },
): Promise<Ends> {
  const name = mode === "underlay" ? COORDINATOR_VETH : settings.firstNic;
  const inner = pod.links.find((link) => link.name === name);
  const outer = inner && await outside.findHostEnd({ netns, link: inner });
  if (inner?.mac !== undefined && outer?.mac !== undefined) {
    return {
      inner: { ...inner, mac: inner.mac },
      outer: { ...outer, mac: outer.mac },
      isNew: false,
    };
  }
  throw new CniError(`interface "${name}" has no end on the host`, {
    code: ErrorCode.TRY_AGAIN_LATER,
    details: mode === "overlay"
      ? `mode overlay needs a veth as the pod's first interface, as Calico or Coil make it`
      : "the pod's link to the host is gone: delete the pod",
  });
}

/** What an attachment is planned from. */
export interface Situation {
  readonly attachment: ConfiguredAttachment;
  readonly mode: ResolvedMode;
  readonly ends: Ends;
  readonly sides: Sides;
}

/** Plans what should be there, beside what there is. */
export async function planAttachment(
  outside: Pick<Outside, "warn">,
  kernel: Kernel,
  situation: Situation,
): Promise<PlannedState> {
  const { ends, attachment, sides } = situation;
  const read = sides.pod;
  const addresses = addressesOf(read, indexOf(read, attachment.ifname));
  const hostAddresses = await findHostAddresses(kernel.host, sides.host, {
    // An earlier call's gateway is kept: our own routes to the pod would change what the host answers now.
    before: read.routes.filter(isOurs).flatMap(({ gateway }) => gateway ?? []),
    towards: addresses,
  });
  const known = { addresses, hostAddresses };
  const both = await sidesWith(kernel, situation, known);
  const input = inputOf(situation, { ...known, pod: both.pod });
  const { found, steps: planned } = keepForeign(planNic(input), both);
  warn(outside, situation, { input, foreign: found });
  const steps = [...planned, ...staleSteps(planned, { ...both, input })];
  const state: State = {
    ...both,
    sysctls: readSysctls(kernel, steps),
    repliesMarked: !ends.isNew && await areRepliesMarked(kernel, steps),
  };
  return { input, steps, state };
}

function inputOf(
  { attachment: { ifname: nic, settings }, ends, mode, sides }: Situation,
  { pod, ...known }: Pick<PlanInput, "addresses" | "hostAddresses"> & {
    readonly pod: SideState;
  },
): PlanInput {
  const families = familiesOf(nic, known.addresses);
  const hijacked = settings.hijacked
    .filter((network) => !isNetworkOf(sides.pod, network));
  return {
    inner: endOf(ends.inner),
    outer: endOf(ends.outer),
    settings: { ...settings, hijacked },
    nic,
    mode,
    ...known,
    families,
    firstAddresses: addressesOf(pod, indexOf(pod, settings.firstNic)),
    moves: planMoves({ nic, mode, families, pod, settings }),
  };
}

/** Names what the pod does without. */
function warn(
  outside: Pick<Outside, "warn">,
  { attachment: { ifname: iface, settings }, sides: { pod } }: Situation,
  { input, foreign }: {
    readonly input: PlanInput;
    readonly foreign: readonly string[];
  },
): void {
  for (const address of duplicatesOf(pod, indexOf(pod, iface))) {
    outside.warn(
      "Another machine has an address of the interface: the pod starts without it",
      { address: address.toString(), iface },
    );
  }
  const left = settings.hijacked
    .filter((network) => !input.settings.hijacked.includes(network));
  for (const network of left) {
    outside.warn(
      "A network of the pod's own is not sent through the host, although it is configured",
      { network: network.toString(), iface },
    );
  }
  for (const family of familiesWithoutHost(input)) {
    outside.warn(
      "The host has no address of the family: nothing is sent through it",
      { family, iface },
    );
  }
  if (foreign.length > 0) {
    outside.warn(
      "Another program has rules or routes in the coordinator's place: they stay",
      { iface, found: beginningOf(foreign) },
    );
  }
}

/** With the ends of the link, and what is known of the neighbours by it. */
async function sidesWith(
  kernel: Kernel,
  { attachment, ends: { inner, outer, isNew }, sides }: Situation,
  { addresses, hostAddresses }: {
    readonly addresses: readonly Address[];
    readonly hostAddresses: readonly Address[];
  },
): Promise<Sides> {
  const pod = { ...sides.pod, links: withLink(sides.pod.links, inner) };
  const host = { ...sides.host, links: [outer] };
  if (isNew) return { pod, host };
  const { hostRuleTable: table } = attachment.settings;
  const filter = { table, index: outer.index };
  const routes = await readRoutesBy(kernel.host, filter);
  const former = routes.flatMap(({ destination }) =>
    destination?.address ?? []
  );
  const [inPod, onHost] = await settled([
    readNeighbours(kernel.pod, inner.index, hostAddresses),
    readNeighbours(
      kernel.host,
      outer.index,
      distinct([...addresses, ...former]),
    ),
  ]);
  return {
    pod: { ...pod, neighbours: inPod },
    host: { ...host, routes, neighbours: onHost },
  };
}

function withLink(links: readonly Link[], link: Link): Link[] {
  return [...links.filter(({ name }) => name !== link.name), link];
}

function endOf({ name: device, mac }: Ends["inner"]): LinkEnd {
  return { device, mac };
}

/** @throws {CniError} with code 7 when there is none of that name */
export function linkOf(links: readonly Link[], nic: string): Link {
  const link = links.find(({ name }) => name === nic);
  if (link !== undefined) return link;
  throw invalidConfig(
    `interface "${nic}" is not in the pod`,
    "the plugin before coordinator must create it",
  );
}

/** The link without a MAC address of zeros, as loopback links have: no machine can be asked by it. */
export function withRealMac(link: Link): Link {
  return link.mac === "00:00:00:00:00:00" ? { ...link, mac: undefined } : link;
}

function refuseMacPrefix(link: Link, { macPrefix }: Settings): void {
  if (macPrefix === undefined) return;
  const { name, kind, mac } = withRealMac(link);
  if (mac !== undefined && kind !== "ipvlan") return;
  const why = kind === "ipvlan"
    ? "an ipvlan has the MAC address of its parent"
    : "it has no MAC address";
  throw invalidConfig(
    `podMACPrefix does not fit interface "${name}"`,
    `${why}: leave podMACPrefix out`,
  );
}
