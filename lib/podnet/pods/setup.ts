import { settled } from "../../async/mod.ts";
import { ERRNO, type Netns, writeSysctl } from "../../linux/mod.ts";
import {
  type Link,
  linkDelete,
  NetlinkError,
  RouteSocket,
} from "../../netlink/mod.ts";
import { getLogger } from "../../telemetry/mod.ts";
import { IfnameTakenError } from "../base/errors.ts";
import { finishSteps } from "../links/link_end.ts";
import { type LinkIndexes, POD_END_INDEX } from "../links/link_indexes.ts";
import type { PodPlan } from "../plan/plan.ts";
import { stepRequests, vethRequest } from "../plan/requests.ts";

/** Dependencies of `connectPod()`. */
export interface SetupContext {
  /** In the host's network namespace. */
  readonly host: RouteSocket;
  /** As `host`, for deletions: each keeps its socket busy for a grace period of the kernel. */
  readonly deletions: RouteSocket;
  /** Absent: the host's network namespace is the process's own. */
  readonly hostNetns?: Netns | undefined;
  /** The pod's network namespace. */
  readonly netns: Netns;
  /** The names to try for the host's end, in this order. */
  readonly names: readonly string[];
  readonly indexes: Pick<LinkIndexes, "next">;
  /**
   * Makes room for a new link where one of that name exists. Returns false
   * when that link is another program's; then the next name is tried.
   */
  clear(link: Link): Promise<boolean>;
  /**
   * Makes room inside the pod where an interface has the wanted name, if what
   * is there is about to go anyway: the other end of a husk.
   */
  clearPeer(link: Link, pod: RouteSocket): Promise<boolean>;
}

/** The pair that was made. */
export interface ConnectedPod {
  readonly hostName: string;
  readonly hostIndex: number;
  readonly peerIndex: number;
  /** Whether nothing was in its way. */
  readonly isFirst: boolean;
}

/** Once for a link that is in the way, once for one that went away between the kernel's answer and our look, once for an index. */
const MAX_ATTEMPTS = 4;

/**
 * Makes a pod's network: three sends in all, none of which waits for anything
 * but the kernel's lock. On failure nothing is left.
 *
 * @throws {IfnameTakenError} when the pod has an interface of that name
 * @throws {NetlinkError} when the kernel refuses
 */
export async function connectPod(
  context: SetupContext,
  plan: PodPlan,
  options: { readonly signal?: AbortSignal } = {},
): Promise<ConnectedPod> {
  const { host, hostNetns, netns } = context;
  await using undo = new AsyncDisposableStack();
  using held = new DisposableStack();
  // What is next is made ready while another thread makes the pair.
  const [made, pod] = await settled([
    createVeth(context, { plan, undo }),
    prepareInside(netns, { plan, held }),
  ]);
  options.signal?.throwIfAborted();
  const { hostName, hostIndex: index, peerIndex } = made;
  const requests = peerIndex === POD_END_INDEX
    ? pod.requests
    : stepRequests(plan.pod, peerIndex);
  const podIsUp = pod.socket.tryExecute(requests);
  // mutate: before or after; the pod runs nothing yet, and another thread is at work on its end.
  refuseRouterAdvertisements(hostName, hostNetns);
  const settling = stepRequests(plan.settle, index);
  // mutate: only saves time: it is encoded while the pod's end is made.
  host.prepare(settling);
  const { peerName } = plan.veth;
  await finishSteps(
    { socket: pod.socket, index: peerIndex, name: peerName, netns },
    plan.pod,
    await podIsUp,
  );
  options.signal?.throwIfAborted();
  await finishSteps(
    { socket: host, index, name: hostName },
    plan.settle,
    await host.tryExecute(settling),
  );
  undo.move();
  return made;
}

/** Opens a socket in the pod, which `held` closes, with what it will send. Rejects rather than throws: the pair is being made. */
async function prepareInside(
  netns: Netns,
  { plan, held }: { readonly plan: PodPlan; readonly held: DisposableStack },
) {
  const socket = held.use(RouteSocket.open({ netns }));
  const requests = stepRequests(plan.pod, POD_END_INDEX);
  socket.prepare(requests);
  return { socket, requests };
}

interface Creation {
  readonly plan: PodPlan;
  /** Gets the removal of what was made. */
  readonly undo: AsyncDisposableStack;
}

async function createVeth(
  context: SetupContext,
  creation: Creation,
): Promise<ConnectedPod> {
  const { plan } = creation;
  let isFirst = true;
  for (const hostName of context.names) {
    for (let attempt = 0; attempt < MAX_ATTEMPTS; attempt++) {
      const hostIndex = context.indexes.next();
      // Never the same: the kernel would take its time with the carrier (linkwatch_urgent_event() of net/core/link_watch.c).
      const peerIndex = isFirst ? POD_END_INDEX : context.indexes.next();
      const pair = { hostName, hostIndex, peerIndex, isFirst };
      if (await tryCreate(context, creation, pair)) return pair;
      isFirst = false;
      const present = await context.host.getLink({ name: hostName });
      if (present === undefined) await clearIfname(context, plan);
      else if (!await context.clear(present)) break;
    }
  }
  throw new NetlinkError(
    `create veth for "${plan.veth.peerName}" as one of "${
      context.names.join(", ")
    }"`,
    { errno: ERRNO.EEXIST },
  );
}

/**
 * Makes the pair, and the host's end as planned. Returns false when one of the
 * two names or indexes is taken; the kernel does not say which.
 */
async function tryCreate(
  { deletions, host, hostNetns, netns }: SetupContext,
  { plan, undo }: Creation,
  { hostName: name, hostIndex: index, peerIndex }: ConnectedPod,
): Promise<boolean> {
  const veth = { ...plan.veth, name, index, peerIndex };
  const [refusal, ...errors] = await host.tryExecute([
    vethRequest(veth, netns),
    ...stepRequests(plan.host, index),
  ]);
  if (refusal !== undefined) {
    if (TAKEN.has(refusal.code)) return false;
    throw refusal;
  }
  undo.defer(() => removeQuietly(deletions, { name, index }));
  const end = { socket: host, index, name, netns: hostNetns };
  await finishSteps(end, plan.host, errors);
  return true;
}

async function clearIfname(
  context: SetupContext,
  plan: PodPlan,
): Promise<void> {
  const { peerName } = plan.veth;
  using pod = RouteSocket.open({ netns: context.netns });
  const taken = await pod.getLink({ name: peerName });
  if (taken === undefined || await context.clearPeer(taken, pod)) return;
  throw new IfnameTakenError(peerName, context.netns.path);
}

/**
 * A pod must not become the node's router. Best effort: with forwarding on,
 * the kernel takes advertisements only where `accept_ra` is 2.
 */
function refuseRouterAdvertisements(
  name: string,
  netns: Netns | undefined,
): void {
  try {
    writeSysctl(`net/ipv6/conf/${name}/accept_ra`, 0, { netns });
  } catch (error) {
    // No such sysctl: the kernel has no IPv6.
    if (error instanceof Deno.errors.NotFound) return;
    getLogger("pod-network").debug("Failed to set accept_ra", {
      iface: name,
      err: error,
    });
  }
}

/** Removing one end removes the other, with all addresses and routes. */
async function removeQuietly(
  socket: RouteSocket,
  link: Pick<Link, "index" | "name">,
): Promise<void> {
  try {
    const [error] = await socket.tryExecute([
      linkDelete({ index: link.index }),
    ]);
    // mutate: decides only whether a record is written.
    if (error !== undefined && error.code !== "ENODEV") throw error;
  } catch (error) {
    getLogger("pod-network").error("Failed to remove an unfinished veth", {
      iface: link.name,
      err: error,
    });
  }
}

/** Of a name, or of the host's end's index; of the index of the pod's end (dev_index_reserve() in net/core/dev.c). */
const TAKEN: ReadonlySet<string> = new Set(["EEXIST", "EBUSY"]);
