import { CniError, ErrorCode } from "../../cni/mod.ts";
import { COORDINATOR_VETH } from "../../names/mod.ts";
import {
  type Link,
  linkAddVeth,
  linkDelete,
  linkSet,
  type NetlinkError,
} from "../../netlink/mod.ts";
import type { Undo } from "./apply.ts";
import { type Ends, raiseProblem, raiseRequests } from "./ends.ts";
import { huskOf } from "./husks.ts";
import { invalidConfig } from "../config/invalid.ts";
import type { Kernel, Routes } from "./ports.ts";
import { remove } from "./remove.ts";
import { silent } from "./requests.ts";
import { pairOf, type VethSpec } from "../plan/veth.ts";

/** A pair, and what is in its place. */
export interface PairPlace {
  readonly spec: VethSpec;
  /** The pod's link of the pair's name. */
  readonly inside: Link | undefined;
  /** The host's. */
  readonly present: Link | undefined;
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
  place: PairPlace,
  undo: Undo,
): Promise<Ends> {
  const { spec } = place;
  const attempt = async (present: Link | undefined) =>
    await tryAdopt(kernel, { ...place, present }, undo) ??
      await tryCreate(kernel, spec, undo);
  const first = await attempt(place.present);
  if ("inner" in first) return first;
  // An index was taken, or another process works for the same container.
  const again = await attempt(
    await kernel.host.getLink({ name: spec.hostName }),
  );
  if ("inner" in again) return again;
  throw again;
}

/** The pair that is there; undefined when one is to be made, and nothing of an earlier one is in its place any longer. */
async function tryAdopt(
  kernel: Kernel,
  { spec, inside, present }: PairPlace,
  undo: Undo,
): Promise<Ends | undefined> {
  if (present !== undefined) {
    refuseForeign(present, spec);
    const isLiving = huskOf(present) === undefined;
    if (isLiving && inside !== undefined && isPair(present, inside)) {
      const ends = { outer: present, inner: inside };
      return await adopt(kernel, spec, { ends, undo });
    }
    // Of an earlier sandbox with this ID, or of this one before DEL. A husk may go at the same time.
    await remove(kernel.host, [linkDelete({ index: present.index })]);
  } else if (inside !== undefined && await isLeft(kernel, inside)) {
    throw invalidConfig(
      `pod has a link "${COORDINATOR_VETH}" that the coordinator did not create`,
      "it is the name of the link to the host: call the other link otherwise",
    );
  }
  return undefined;
}

/** Makes the pair and the host's end of it by one send; the refusal, when a name or an index is taken. */
async function tryCreate(
  { host, netns }: Kernel,
  spec: VethSpec,
  undo: Undo,
): Promise<Ends | NetlinkError> {
  const { hostName, podName, hostMac, podMac, mtu, alias } = spec;
  const [index, peerIndex] = chooseIndexes();
  const request = linkAddVeth({
    name: hostName,
    index,
    mac: hostMac,
    mtu,
    queues: 1,
    peer: {
      name: podName,
      index: peerIndex,
      mac: podMac,
      mtu,
      queues: 1,
      netns,
    },
  });
  const [refusal, ...errors] = await host.tryExecute(
    // The end is named, not numbered: if the index is taken, it is that of another link of Coil's. That no link has the name was looked up.
    [request, ...raiseRequests({ name: hostName }, { alias })].map(silent),
  );
  if (refusal === undefined || refusal.lost === "answer") {
    undo.defer(() => remove(host, [linkDelete({ index })]));
  }
  if (refusal !== undefined) {
    if (TAKEN.has(refusal.code)) return refusal;
    throw refusal;
  }
  const problem = raiseProblem(errors);
  if (problem !== undefined) throw problem;
  const both = {
    mtu,
    kind: "veth",
    up: true,
    // mutate: no plan looks at it.
    lowerUp: true,
    group: 0,
    flags: 1,
  };
  return {
    inner: { ...both, index: peerIndex, name: podName, mac: podMac },
    outer: { ...both, index, name: hostName, mac: hostMac, alias },
    isNew: true,
  };
}

/**
 * Indexes that hardly any link has: the kernel counts up from 1, and other
 * links of Coil's have theirs by chance, too.
 */
function chooseIndexes(): readonly [number, number] {
  const [random = 0] = crypto.getRandomValues(new Uint32Array(1));
  const index = FIRST_INDEX + (random & INDEX_MASK);
  // Never the same: the kernel would take its time with the carrier (linkwatch_urgent_event() of net/core/link_watch.c).
  return [index, index ^ 1];
}

async function adopt(
  { host, pod }: Kernel,
  spec: VethSpec,
  { ends: { inner, outer }, undo }: {
    readonly ends: { readonly inner: Link; readonly outer: Link };
    readonly undo: Undo;
  },
): Promise<Ends> {
  if (outer.alias === undefined) {
    await raise(host, outer.index, { alias: spec.alias });
  }
  for (
    const [socket, { index, mtu, up }] of [[host, outer], [pod, inner]] as const
  ) {
    if (mtu === spec.mtu && up) continue;
    undo.defer(() => socket.execute([linkSet({ index }, { mtu, up })]));
    await socket.execute([linkSet({ index }, { mtu: spec.mtu, up: true })]);
  }
  return {
    inner: { ...inner, mac: inner.mac ?? spec.podMac },
    outer: { ...outer, mac: outer.mac ?? spec.hostMac },
    isNew: false,
  };
}

async function raise(
  socket: Routes,
  index: number,
  options: { readonly alias: string },
): Promise<void> {
  const requests = raiseRequests({ index }, options);
  const problem = raiseProblem(await socket.tryExecute(requests));
  if (problem !== undefined) throw problem;
}

function refuseForeign(link: Link, spec: VethSpec): void {
  const owner = pairOf(link) ?? huskOf(link);
  const own = pairOf({ kind: "veth", alias: spec.alias });
  const isOwn = link.kind === "veth" && link.name === spec.hostName &&
    (link.alias === undefined || owner?.containerId === own?.containerId);
  if (isOwn) return;
  throw new CniError(
    `interface "${own?.ifname}" cannot be connected: the host has another link "${spec.hostName}"`,
    {
      code: ErrorCode.TRY_AGAIN_LATER,
      details: link.name === spec.hostName
        ? `its alias is "${
          link.alias ?? ""
        }", not "${spec.alias}": rename it, or delete it`
        : `it is an alternative name of "${link.name}": remove it (ip link property del)`,
    },
  );
}

/** What DEL has cut off may have been deleted since it was read. */
async function isLeft({ pod }: Kernel, { index }: Link): Promise<boolean> {
  return await pod.getLink({ index }) !== undefined;
}

function isPair(outside: Link, inside: Link | undefined): boolean {
  return inside?.kind === "veth" && outside.peerIndex === inside.index &&
    inside.peerIndex === outside.index;
}

/** Of a name, or of an index (dev_index_reserve() in net/core/dev.c). */
const TAKEN: ReadonlySet<string> = new Set(["EEXIST", "EBUSY"]);
/** The last of the indexes that there are (INT_MAX is the highest). Neither the kernel nor lib/podnet, which count up, come to them. */
const FIRST_INDEX = 2 ** 31 - 2 ** 28;
const INDEX_MASK = 2 ** 28 - 1;
