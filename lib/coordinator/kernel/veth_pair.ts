import { CniError, ErrorCode } from "../../cni/mod.ts";
import { COORDINATOR_VETH } from "../../names/mod.ts";
import {
  type Link,
  linkAddVeth,
  linkDelete,
  linkSet,
} from "../../netlink/mod.ts";
import type { Undo } from "./apply.ts";
import { huskOf } from "./husks.ts";
import { invalidConfig } from "../config/invalid.ts";
import type { LinkEnd } from "../plan/plan.ts";
import type { Kernel, Routes } from "./ports.ts";
import { remove } from "./remove.ts";
import { parseVethAlias, type VethSpec } from "../plan/veth.ts";

/** Both ends of the link between a pod and its host. */
export interface Ends {
  readonly inner: LinkEnd;
  readonly outer: LinkEnd;
}

/**
 * Makes the pair of a pod, or takes the one that is there, with its MAC
 * addresses: the pod's neighbours know them.
 *
 * @throws {CniError} with code 7 when the pod has another link called veth0, 11 when the host has another link of the pair's name
 * @throws {NetlinkError} when the kernel refuses
 */
export async function ensureVeth(
  kernel: Kernel,
  spec: VethSpec,
  undo: Undo,
): Promise<Ends> {
  const { host, pod } = kernel;
  const present = await host.getLink({ name: spec.hostName });
  const inside = await pod.getLink({ name: spec.podName });
  if (present !== undefined) {
    refuseForeign(present, spec);
    const isLiving = huskOf(present) === undefined;
    if (isLiving && isPair(present, inside)) {
      return await adopt(kernel, spec, present);
    }
    // Of an earlier sandbox with this ID, or of this one before DEL. A husk may go at the same time.
    await remove(host, [linkDelete({ index: present.index })]);
  } else if (inside !== undefined) {
    throw invalidConfig(
      `pod has a link "${COORDINATOR_VETH}" that the coordinator did not create`,
      "it is the name of the link to the host: call the other link otherwise",
    );
  }
  return await create(kernel, spec, undo);
}

async function create(
  { host, pod, netns }: Kernel,
  spec: VethSpec,
  undo: Undo,
): Promise<Ends> {
  const { hostName, podName, hostMac, podMac, mtu } = spec;
  await host.execute([
    linkAddVeth({
      name: hostName,
      mac: hostMac,
      mtu,
      queues: 1,
      peer: { name: podName, mac: podMac, mtu, queues: 1, netns },
    }),
  ]);
  const { index } = await linkOf(host, hostName);
  undo.defer(() => host.execute([linkDelete({ index })]));
  await raise(host, index, spec.alias);
  const { index: inside } = await linkOf(pod, podName);
  await raise(pod, inside);
  return {
    inner: { device: podName, mac: podMac },
    outer: { device: hostName, mac: hostMac },
  };
}

async function adopt(
  { host, pod }: Kernel,
  spec: VethSpec,
  present: Link,
): Promise<Ends> {
  const inside = await linkOf(pod, spec.podName);
  if (present.alias !== spec.alias && present.alias === undefined) {
    await raise(host, present.index, spec.alias);
  }
  for (
    const [socket, { index, mtu, up }] of [[host, present], [
      pod,
      inside,
    ]] as const
  ) {
    if (mtu === spec.mtu && up) continue;
    await socket.execute([linkSet({ index }, { mtu: spec.mtu, up: true })]);
  }
  return {
    inner: { device: inside.name, mac: inside.mac ?? spec.podMac },
    outer: { device: present.name, mac: present.mac ?? spec.hostMac },
  };
}

/** Up, without a link-local address of the kernel's: nothing here needs one. */
async function raise(
  socket: Routes,
  index: number,
  alias?: string,
): Promise<void> {
  const [error] = await socket.tryExecute([
    linkSet({ index }, { ipv6AddrGenMode: "none" }),
  ]);
  // A kernel without IPv6, or an MTU too small for it.
  if (error !== undefined && error.code !== "EAFNOSUPPORT") throw error;
  await socket.execute([linkSet({ index }, { alias, up: true })]);
}

function refuseForeign(link: Link, spec: VethSpec): void {
  const owner = parseVethAlias(link.alias) ?? huskOf(link);
  const own = parseVethAlias(spec.alias);
  const isOwn = link.kind === "veth" &&
    (link.alias === undefined || owner?.containerId === own?.containerId);
  if (isOwn) return;
  throw new CniError(`link name "${spec.hostName}" is taken on the host`, {
    code: ErrorCode.TRY_AGAIN_LATER,
    details: `its alias is "${link.alias ?? ""}", not "${spec.alias}"`,
  });
}

function isPair(outside: Link, inside: Link | undefined): boolean {
  return inside?.kind === "veth" && outside.peerIndex === inside.index &&
    inside.peerIndex === outside.index;
}

async function linkOf(socket: Routes, name: string): Promise<Link> {
  const link = await socket.getLink({ name });
  if (link !== undefined) return link;
  throw new TypeError(`Cannot find link "${name}", which was just created`);
}
