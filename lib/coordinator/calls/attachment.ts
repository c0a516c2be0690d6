import { type AttachmentKey, CniError, ErrorCode } from "../../cni/mod.ts";
import { COORDINATOR_VETH } from "../../names/mod.ts";
import type { Link } from "../../netlink/mod.ts";
import { invalidConfig } from "../config/invalid.ts";
import type { Settings } from "../config/defaults.ts";
import { familiesOf } from "../plan/family.ts";
import { type ResolvedMode, resolveMode } from "../plan/mode.ts";
import { planMoves } from "../plan/move_routes.ts";
import { familiesWithoutHost, type PlanInput, planNic } from "../plan/plan.ts";
import type { Kernel, Outside } from "../kernel/ports.ts";
import { findHostAddresses } from "../kernel/host_addresses.ts";
import { readHost, readPod, readState } from "../kernel/read.ts";
import { staleSteps } from "../plan/stale.ts";
import {
  addressesOf,
  indexOf,
  isNetworkOf,
  isOurs,
  type State,
} from "../state/state.ts";
import type { Step } from "../state/steps.ts";
import { planVeth, type VethSpec } from "../plan/veth.ts";
import type { Ends } from "../kernel/veth_pair.ts";

/** One interface that is added or checked. */
export interface Attachment extends AttachmentKey {
  readonly settings: Settings;
}

/** What an interface is joined to the host by. */
export interface Joint {
  readonly mode: ResolvedMode;
  /** The pair to make; absent where another call or plugin has made the link. */
  readonly veth?: VethSpec;
}

/** A plan, and what the kernel has. */
export interface PlannedState {
  readonly input: PlanInput;
  readonly steps: readonly Step[];
  readonly state: State;
}

/**
 * How an interface is joined to the host.
 *
 * @throws {CniError} with code 7 when the mode does not fit, the interface is not there, or has no address
 */
export async function planJoint(
  { pod }: Pick<Kernel, "pod">,
  attachment: Attachment,
): Promise<Joint> {
  const { ifname: nic, settings } = attachment;
  const links = await pod.listLinks();
  const link = linkOf(links, nic);
  const addresses = await pod.listAddresses({ index: link.index });
  familiesOf(nic, addressesOf({ addresses }, link.index));
  const mode = resolveMode(nic, links.map(({ name }) => name), settings);
  refuseMacPrefix(link, settings);
  return mode === "underlay" && nic === settings.firstNic
    ? { mode, veth: await planVeth(attachment, { mtu: settings.vethMtu }) }
    : { mode };
}

/**
 * Both ends of the link to the host that another call or plugin has made.
 *
 * @throws {CniError} with code 11 when the interface has no end on the host
 */
export async function findEnds(
  outside: Pick<Outside, "findHostEnd">,
  { pod, netns }: Kernel,
  { mode, settings }: Pick<Joint, "mode"> & { readonly settings: Settings },
): Promise<Ends> {
  const name = mode === "underlay" ? COORDINATOR_VETH : settings.firstNic;
  const link = await pod.getLink({ name });
  const end = link && await outside.findHostEnd({ netns, link });
  if (link?.mac !== undefined && end?.mac !== undefined) {
    return {
      inner: { device: link.name, mac: link.mac },
      outer: { device: end.name, mac: end.mac },
    };
  }
  throw new CniError(`interface "${name}" has no end on the host`, {
    code: ErrorCode.TRY_AGAIN_LATER,
    details: mode === "overlay"
      ? `mode overlay needs a veth as the pod's first interface, as Calico or Coil make it`
      : "the pod's link to the host is gone: delete the pod",
  });
}

/** Reads what there is, and plans what should be there. */
export async function planAttachment(
  outside: Pick<Outside, "warn">,
  kernel: Kernel,
  { ends, mode, attachment }: {
    readonly ends: Ends;
    readonly mode: ResolvedMode;
    readonly attachment: Attachment;
  },
): Promise<PlannedState> {
  const { ifname: nic, settings } = attachment;
  const pod = await readPod(kernel.pod);
  const host = await readHost(kernel.host, {
    device: ends.outer.device,
    table: settings.hostRuleTable,
  });
  const addresses = addressesOf(pod, indexOf(pod, nic));
  const families = familiesOf(nic, addresses);
  const hostAddresses = await findHostAddresses(kernel.host, {
    // The gateway of an earlier call stays it: our own routes to the pod would change what the host says.
    before: pod.routes.filter(isOurs).flatMap(({ gateway }) => gateway ?? []),
    towards: addresses,
  });
  const own = settings.hijacked.filter((destination) =>
    isNetworkOf(pod, destination)
  );
  for (const network of own) {
    outside.warn(
      "An interface of the pod is in this network: it is not sent through the host",
      { network: network.toString(), iface: nic },
    );
  }
  const hijacked = settings.hijacked.filter((each) => !own.includes(each));
  const input: PlanInput = {
    ...ends,
    settings: { ...settings, hijacked },
    nic,
    mode,
    addresses,
    families,
    hostAddresses,
    firstAddresses: addressesOf(pod, indexOf(pod, settings.firstNic)),
    moves: planMoves({ nic, mode, families, pod, settings }),
  };
  for (const family of familiesWithoutHost(input)) {
    outside.warn(
      "The host has no address of the family: nothing is sent through it",
      { family, iface: nic },
    );
  }
  const planned = planNic(input);
  const steps = [...planned, ...staleSteps(planned, { pod, host, input })];
  const state = await readState(kernel, { pod, host }, steps);
  return { input, steps, state };
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

function refuseMacPrefix({ name, kind }: Link, { macPrefix }: Settings): void {
  if (macPrefix === undefined || kind !== "ipvlan") return;
  throw invalidConfig(
    `podMACPrefix does not fit interface "${name}"`,
    "an ipvlan has the MAC address of its parent: leave podMACPrefix out",
  );
}
