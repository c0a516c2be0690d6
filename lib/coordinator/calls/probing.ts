import type { Address } from "../../inet/mod.ts";
import { linkSet, MAIN_TABLE, type Route } from "../../netlink/mod.ts";
import type { Undo } from "../kernel/apply.ts";
import { type Attachment, linkOf } from "./attachment.ts";
import { invalidConfig } from "../config/config.ts";
import type { Settings } from "../config/defaults.ts";
import type { Kernel, Outside, ProbedNic, Routes } from "../kernel/ports.ts";
import { addressesOf } from "../state/state.ts";

/** @throws {CniError} with code 7 when probes are asked for and there are none */
export function refuseProbes(
  { probes }: Pick<Outside, "probes">,
  { detectIpConflict, detectGateway }: Settings,
): void {
  if (probes !== undefined || !(detectIpConflict || detectGateway)) return;
  const key = detectIpConflict ? "detectIPConflict" : "detectGateway";
  throw invalidConfig(
    `${key} is not supported`,
    `leave ${key} out of the network configuration`,
  );
}

/**
 * Asks the network whether the interface's addresses are in use and its
 * gateways alive. Conflicts first: the question for a gateway tells everyone
 * the address.
 *
 * @throws {CniError} with code 11 when an address is in use or a gateway does not answer
 */
export async function probe(
  { probes }: Pick<Outside, "probes">,
  kernel: Kernel,
  { ifname, settings }: Attachment,
  undo: Undo,
): Promise<void> {
  const { detectIpConflict, detectGateway } = settings;
  if (probes === undefined || !(detectIpConflict || detectGateway)) return;
  const nic = await probedNic(kernel, ifname);
  await raise(kernel.pod, nic, undo);
  if (detectIpConflict) await probes.detectConflict(nic);
  if (!detectGateway) return;
  const gateways = await gatewaysOf(kernel.pod, nic);
  if (gateways.length > 0) await probes.detectGateway(nic, gateways);
}

/** What cannot be announced costs time, not the pod: neighbours ask again. */
export async function announce(
  { probes, warn }: Outside,
  kernel: Kernel,
  ifname: string,
): Promise<void> {
  if (probes === undefined) {
    warn("The interface's new MAC address is not announced", { iface: ifname });
    return;
  }
  try {
    await probes.announce(await probedNic(kernel, ifname));
  } catch (err) {
    warn("Failed to announce the interface's MAC address", {
      iface: ifname,
      err,
    });
  }
}

async function probedNic(
  { netns, pod }: Kernel,
  ifname: string,
): Promise<ProbedNic> {
  const link = linkOf(await pod.listLinks(), ifname);
  const addresses = await pod.listAddresses({ index: link.index });
  return { netns, link, addresses: addressesOf({ addresses }, link.index) };
}

async function raise(
  pod: Routes,
  { link: { index, up } }: ProbedNic,
  undo: Undo,
): Promise<void> {
  if (up) return;
  const set = async (state: boolean) => {
    const [error] = await pod.tryExecute([linkSet({ index }, { up: state })]);
    if (error !== undefined) throw error;
  };
  await set(true);
  undo.defer(() => set(false));
}

async function gatewaysOf(
  pod: Routes,
  { link }: ProbedNic,
): Promise<Address[]> {
  const routes = await pod.listRoutes({ table: MAIN_TABLE });
  type Way = Pick<Route, "index" | "gateway">;
  return routes
    .flatMap((route): readonly Way[] => route.hops ?? [route])
    .filter(({ index }) => index === link.index)
    .flatMap(({ gateway }) => gateway ?? []);
}
