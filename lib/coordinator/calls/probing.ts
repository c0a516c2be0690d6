import { settled } from "../../async/mod.ts";
import { CniError, ErrorCode } from "../../cni/mod.ts";
import { type Address, distinct, Prefix } from "../../inet/mod.ts";
import {
  addressDelete,
  type AddressEntry,
  linkSet,
  type Route,
} from "../../netlink/mod.ts";
import { LinuxError } from "../../linux/mod.ts";
import type { ProbeLink } from "../../probe/mod.ts";
import type { Undo } from "../kernel/apply.ts";
import {
  type ConfiguredAttachment,
  linkOf,
  withRealMac,
} from "./attachment.ts";
import { conflictLink } from "./conflict_link.ts";
import type { Kernel, Outside, Routes } from "../kernel/ports.ts";
import { readAddresses, readGateways } from "../kernel/read.ts";
import { isHostLink } from "../plan/host_addresses.ts";
import { addressesOf, type Sides, type SideState } from "../state/state.ts";

/** RFC 5227 asks for two, 2 s apart; no pod waits for that. One may get lost. */
const ANNOUNCEMENTS = { retries: 3, intervalMs: 10 };

/** The interface that asks and announces, with its addresses. */
interface ProbedNic {
  readonly name: string;
  readonly link: ProbeLink;
  readonly isUp: boolean;
  readonly present: readonly AddressEntry[];
  readonly addresses: readonly Address[];
}

/**
 * Asks the network whether the interface's addresses are in use and its
 * gateways alive. Conflicts first: the question for a gateway reveals the
 * address to the whole network. By a link of a tunnel nothing can be asked:
 * neither ARP nor neighbour discovery is.
 *
 * @throws {CniError} with code 11 when an address is in use or a gateway does not answer
 */
export async function probe(
  outside: Pick<Outside, "found" | "later" | "probes" | "warn">,
  kernel: Kernel,
  { attachment: { ifname, settings }, pod, undo }: {
    readonly attachment: ConfiguredAttachment;
    readonly pod: SideState;
    readonly undo: Undo;
  },
): Promise<void> {
  const nic = probedNic({ ...outside, ...kernel }, ifname, pod);
  if (nic.link.mac === "") {
    outside.warn("Nothing was probed: the interface has no MAC address", {
      iface: ifname,
    });
    return;
  }
  await raise(kernel.pod, nic, undo);
  try {
    await ask(outside, kernel, { nic, settings });
  } catch (cause) {
    throw cause instanceof LinuxError && cause.code === "EPERM"
      ? forbidden(ifname, cause)
      : cause;
  }
}

async function ask(
  { probes, found }: Pick<Outside, "found" | "probes">,
  kernel: Kernel,
  { nic, settings }: Pick<ConfiguredAttachment, "settings"> & {
    readonly nic: ProbedNic;
  },
): Promise<void> {
  const { detectIpConflict, detectGateway, detectTimes } = settings;
  if (detectIpConflict) {
    await forAll(nic.addresses, async (address) => {
      const link = await conflictLink(kernel, nic.link, address.family);
      const mac = await probes.findConflict(link, address, detectTimes);
      if (mac === undefined) return;
      found?.({ kind: "conflict", address, mac });
      await refuse(kernel.pod, nic, { address, mac });
    });
  }
  if (!detectGateway) return;
  const gateways = await gatewaysOf(kernel.pod, nic);
  await forAll(gateways, async (gateway) => {
    const source = sourceFor(nic, gateway);
    if (source === undefined) return;
    if (await probes.answers(nic.link, { gateway, source }, detectTimes)) {
      return;
    }
    found?.({ kind: "gateway", gateway });
    throw new CniError(`gateway ${gateway} is unreachable`, {
      code: ErrorCode.TRY_AGAIN_LATER,
      details:
        `it does not answer interface "${nic.name}"; repair it, or leave detectGateway off for gateways that do not answer such questions`,
    });
  });
}

/**
 * Refuses addresses that the host has: a macvlan and its parent do not hear
 * each other, so no probe finds them.
 *
 * @throws {CniError} with code 11
 */
export async function refuseHosts(
  { found }: Pick<Outside, "found">,
  { netns, pod }: Pick<Kernel, "netns" | "pod">,
  { ifname, sides }: { readonly ifname: string; readonly sides: Sides },
): Promise<void> {
  const { addresses, links } = sides.host;
  const nic = probedNic({ netns }, ifname, sides.pod);
  await forAll(nic.addresses, async (address) => {
    const own = addresses.find(({ prefix }) => prefix.address.equals(address));
    const link = own && links.find(({ index }) => index === own.index);
    if (link?.mac === undefined || !isHostLink(link.name)) return;
    const { mac } = link;
    found?.({ kind: "conflict", address, mac });
    await refuse(pod, nic, { address, mac, owner: "the node itself" });
  });
}

/** Without CAP_NET_RAW nothing can be said about the address, so the pod does not get it. */
function forbidden(ifname: string, cause: unknown): CniError {
  return new CniError(`cannot ask the network by interface "${ifname}"`, {
    code: ErrorCode.INTERNAL,
    details:
      "the process lacks the capability NET_RAW: add it to coild's container, as the overlay coordinator does, or leave detectIPConflict and detectGateway off",
    cause,
  });
}

/** What cannot be announced costs time, not the pod: neighbours ask again. */
export async function announce(
  { probes, later, warn }: Outside,
  kernel: Kernel,
  ifname: string,
): Promise<void> {
  try {
    const present = await readAddresses(kernel.pod, new Set([ifname]));
    const at = { netns: kernel.netns, later };
    const { link, addresses } = probedNic(at, ifname, present);
    await forAll(
      addresses,
      (address) => probes.announce(link, address, ANNOUNCEMENTS),
    );
  } catch (err) {
    warn("Failed to announce the interface's MAC address", {
      iface: ifname,
      err,
    });
  }
}

/** At once; the first failure is thrown when all have ended. */
async function forAll(
  addresses: readonly Address[],
  fn: (address: Address) => Promise<void>,
): Promise<void> {
  await settled(addresses.map(fn));
}

function probedNic(
  { netns, later }: Pick<ProbeLink, "netns" | "later">,
  ifname: string,
  pod: Pick<SideState, "links" | "addresses">,
): ProbedNic {
  const { index, mac = "", up } = withRealMac(linkOf(pod.links, ifname));
  const present = pod.addresses.filter((entry) => entry.index === index);
  const addresses = addressesOf({ addresses: present }, index);
  const link = { netns, later, index, mac };
  return { name: ifname, link, isUp: up, present, addresses };
}

/**
 * Takes the address off the interface, which would answer for it until the pod
 * is gone.
 *
 * @throws {CniError} always
 */
async function refuse(
  pod: Routes,
  { name, link: { index }, present }: ProbedNic,
  { address, mac, owner = "another machine of the network" }: {
    readonly address: Address;
    readonly mac: string;
    readonly owner?: string;
  },
): Promise<never> {
  const own = present.filter(({ prefix }) => prefix.address.equals(address));
  await pod.tryExecute(
    own.map(({ prefix }) => addressDelete({ index, prefix })),
  );
  // Upstream's words.
  throw new CniError(
    `ip conflict: pod's interface ${name} with an conflicting ip ${address}, ${address} is located at ${mac}`,
    {
      code: ErrorCode.TRY_AGAIN_LATER,
      details:
        `${owner} has the address: take it out of the pod's address range, or find the machine by its MAC address`,
    },
  );
}

async function raise(
  pod: Routes,
  { isUp, link: { index } }: ProbedNic,
  undo: Undo,
): Promise<void> {
  if (isUp) return;
  const set = (up: boolean) => pod.execute([linkSet({ index }, { up })]);
  undo.defer(() => set(false));
  await set(true);
}

/** The address in whose network the gateway is, else another one of its family. */
function sourceFor(
  { present, addresses }: ProbedNic,
  gateway: Address,
): Address | undefined {
  const own = addresses.filter(({ family }) => family === gateway.family);
  const near = present.find(({ prefix }) =>
    Prefix.of(prefix.address, prefix.length).contains(gateway) &&
    own.some((address) => address.equals(prefix.address))
  );
  return near?.prefix.address ?? own[0];
}

/** Those of the main table, and of default routes that an earlier ADD has moved to the interface's own. */
async function gatewaysOf(
  pod: Routes,
  { link }: ProbedNic,
): Promise<Address[]> {
  const routes = await readGateways(pod);
  type Way = Pick<Route, "index" | "gateway">;
  const gateways = routes
    .flatMap((route): readonly Way[] => route.hops ?? [route])
    .filter(({ index }) => index === link.index)
    .flatMap(({ gateway }) => gateway ?? []);
  return distinct(gateways);
}
