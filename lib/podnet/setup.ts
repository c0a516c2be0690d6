import { type Netns, writeSysctl } from "../linux/mod.ts";
import {
  type Link,
  linkDelete,
  NetlinkError,
  RouteSocket,
} from "../netlink/mod.ts";
import { getLogger } from "../telemetry/mod.ts";
import { IfnameTakenError } from "./errors.ts";
import { applySteps } from "./link_end.ts";
import type { PodPlan, VethSpec } from "./plan.ts";
import { vethRequest } from "./requests.ts";

/** What `connectPod()` needs of its surroundings. */
export interface SetupContext {
  /** In the host's network namespace. */
  readonly host: RouteSocket;
  /** As `host`, for deletions: each keeps its socket busy for a grace period of the kernel. */
  readonly deletions: RouteSocket;
  /** Absent: the host's network namespace is the process's own. */
  readonly hostNetns?: Netns;
  /** The pod's network namespace. */
  readonly netns: Netns;
  /** The names to try for the host's end, in this order. */
  readonly names: readonly string[];
  /**
   * Makes room for a new link where one of that name exists. Returns false
   * when that link is somebody else's; then the next name is tried.
   */
  clear(link: Link): Promise<boolean>;
}

/** The pair that was made. */
export interface ConnectedPod {
  readonly hostName: string;
  readonly hostIndex: number;
  readonly peerIndex: number;
}

/** Once for a link that is in the way, once for one that went away between the kernel's answer and our look. */
const MAX_ATTEMPTS = 3;

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
  using pod = RouteSocket.open({ netns: context.netns });
  const link = await createVeth(context, { veth: plan.veth, pod });
  await using undo = new AsyncDisposableStack();
  undo.defer(() => removeQuietly(context.deletions, link));
  options.signal?.throwIfAborted();
  const peerIndex = peerOf(link);
  const { netns, hostNetns } = context;
  await applySteps(
    { socket: pod, index: peerIndex, name: plan.veth.peerName, netns },
    plan.pod,
  );
  options.signal?.throwIfAborted();
  refuseRouterAdvertisements(link.name, hostNetns);
  await applySteps({
    socket: context.host,
    index: link.index,
    name: link.name,
    ...(hostNetns === undefined ? {} : { netns: hostNetns }),
  }, plan.host);
  undo.move();
  return { hostName: link.name, hostIndex: link.index, peerIndex };
}

async function createVeth(
  context: SetupContext,
  spec: { readonly veth: VethSpec; readonly pod: RouteSocket },
): Promise<Link> {
  for (const name of context.names) {
    for (let attempt = 0; attempt < MAX_ATTEMPTS; attempt++) {
      const link = await tryCreate(context, { ...spec.veth, name });
      if (link !== undefined) return link;
      const present = await context.host.getLink({ name });
      if (present === undefined) await checkIfname(context, spec);
      else if (!await context.clear(present)) break;
    }
  }
  throw new NetlinkError(
    `create veth for "${spec.veth.peerName}": all names are taken: ${
      context.names.join(", ")
    }`,
    { errno: EEXIST },
  );
}

/** Returns undefined when one of the two names is taken; the kernel does not tell which. */
async function tryCreate(
  context: SetupContext,
  veth: VethSpec,
): Promise<Link | undefined> {
  try {
    return await context.host.executeAndGetLink(
      [vethRequest(veth, context.netns)],
      { name: veth.name },
    );
  } catch (error) {
    if (error instanceof NetlinkError && error.code === "EEXIST") {
      return undefined;
    }
    throw error;
  }
}

async function checkIfname(
  context: SetupContext,
  { veth, pod }: { readonly veth: VethSpec; readonly pod: RouteSocket },
): Promise<void> {
  const taken = await pod.getLink({ name: veth.peerName });
  if (taken !== undefined) {
    throw new IfnameTakenError(veth.peerName, context.netns.path);
  }
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
    const options = netns === undefined ? {} : { netns };
    writeSysctl(`net/ipv6/conf/${name}/accept_ra`, 0, options);
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
