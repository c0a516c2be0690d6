import { type Netns, writeSysctl } from "../../linux/mod.ts";
import {
  type Link,
  linkDelete,
  NetlinkError,
  RouteSocket,
} from "../../netlink/mod.ts";
import { getLogger } from "../../telemetry/mod.ts";
import { IfnameTakenError } from "../base/errors.ts";
import { applySteps } from "../links/link_end.ts";
import type { PodPlan } from "../plan/plan.ts";
import { linkRequest, vethRequest } from "../plan/requests.ts";

/** What `connectPod()` needs of its surroundings. */
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

/** Once for a link that is in the way, once for one that went away between the kernel's answer and our look. */
const MAX_ATTEMPTS = 3;

/**
 * Makes a pod's network: four sends in all, none of which waits for anything
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
  using pod = RouteSocket.open({ netns });
  const { link, isFirst } = await createVeth(context, { plan, pod });
  await using undo = new AsyncDisposableStack();
  undo.defer(() => removeQuietly(context.deletions, link));
  options.signal?.throwIfAborted();
  const { index, name } = link;
  const hostEnd = { socket: host, index, name, netns: hostNetns };
  await applySteps(hostEnd, plan.claim);
  const peerIndex = peerOf(link);
  await applySteps(
    { socket: pod, index: peerIndex, name: plan.veth.peerName, netns },
    plan.pod,
  );
  options.signal?.throwIfAborted();
  // mutate: before or after the next; the pod runs nothing yet.
  refuseRouterAdvertisements(link.name, hostNetns);
  await applySteps(hostEnd, plan.host);
  undo.move();
  return { hostName: name, hostIndex: index, peerIndex, isFirst };
}

interface Creation {
  readonly plan: PodPlan;
  readonly pod: RouteSocket;
}

async function createVeth(
  context: SetupContext,
  creation: Creation,
): Promise<{ readonly link: Link; readonly isFirst: boolean }> {
  let isFirst = true;
  for (const name of context.names) {
    for (let attempt = 0; attempt < MAX_ATTEMPTS; attempt++) {
      const link = await tryCreate(context, creation.plan, name);
      if (link !== undefined) return { link, isFirst };
      isFirst = false;
      const present = await context.host.getLink({ name });
      if (present === undefined) await clearIfname(context, creation);
      else if (!await context.clear(present)) break;
    }
  }
  const { peerName } = creation.plan.veth;
  throw new NetlinkError(
    `create veth for "${peerName}" as one of "${context.names.join(", ")}"`,
    { errno: EEXIST },
  );
}

/**
 * Returns undefined when one of the two names is taken; the kernel does not
 * say which. The steps that follow the creation in the same send select the
 * link by name. Should the creation fail because a foreign link has the name,
 * that link is set up, and set not to generate an address when it is set up the
 * next time; anything that would do it harm waits until the index is known.
 */
async function tryCreate(
  context: SetupContext,
  plan: PodPlan,
  name: string,
): Promise<Link | undefined> {
  const { host, netns } = context;
  const requests = [
    vethRequest({ ...plan.veth, name }, netns),
    ...plan.raise.map((step) => linkRequest(step, { name })),
  ];
  try {
    return await host.executeAndGetLink(requests, { name });
  } catch (error) {
    if (!(error instanceof NetlinkError)) throw error;
    if (error.index !== 0) {
      return await raiseAgain(context, { name, plan, error });
    }
    if (error.code === "EEXIST") return undefined;
    throw error;
  }
}

/** The pair was made, and something after that failed: perhaps only an optional step. */
async function raiseAgain(
  context: SetupContext,
  made: { name: string; plan: PodPlan; error: NetlinkError },
): Promise<Link> {
  const { host, deletions } = context;
  const link = await host.getLink({ name: made.name });
  if (link === undefined) throw made.error;
  try {
    await applySteps(
      { socket: host, index: link.index, name: link.name },
      made.plan.raise,
    );
    return link;
  } catch (error) {
    await removeQuietly(deletions, link);
    throw error;
  }
}

async function clearIfname(
  context: SetupContext,
  { plan, pod }: Creation,
): Promise<void> {
  const { peerName } = plan.veth;
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

function peerOf(link: Link): number {
  if (link.peerIndex === undefined) {
    throw new TypeError(`Cannot find the other end of veth "${link.name}"`);
  }
  return link.peerIndex;
}

/** Removing one end removes the other, with all addresses and routes. */
async function removeQuietly(socket: RouteSocket, link: Link): Promise<void> {
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

/** EEXIST of `<asm-generic/errno-base.h>`. */
const EEXIST = 17;
