import { type Netns, writeSysctl } from "../../linux/mod.ts";
import type { NetlinkError, RouteSocket } from "../../netlink/mod.ts";
import { getLogger } from "../../telemetry/mod.ts";
import type { Step } from "../plan/plan.ts";
import { stepRequests } from "../plan/requests.ts";

/** One end of a veth pair, ready to be changed. */
export interface LinkEnd {
  readonly socket: RouteSocket;
  readonly index: number;
  readonly name: string;
  /** Where the end lives; absent for the process's own network namespace. */
  readonly netns?: Netns | undefined;
}

/** A step that the kernel refused. */
interface Failure {
  readonly step: Step;
  readonly error: NetlinkError;
}

/** Enabling IPv6 may uncover a source address that is not there; nothing else comes after that. */
const MAX_REMEDIES = 2;

/**
 * Carries out the steps in one send. Two refusals have a remedy, tried once
 * each: IPv6 switched off for new interfaces is switched on for this one, and
 * a source address that the node does not have (yet) is left out of the route.
 *
 * @throws {NetlinkError} of the first step refused for good
 */
export async function applySteps(
  end: LinkEnd,
  steps: readonly Step[],
): Promise<void> {
  await finishSteps(end, steps, await send(end, steps));
}

/** As {@linkcode applySteps}, for steps that were sent already, with the kernel's answer to each. */
export async function finishSteps(
  end: LinkEnd,
  steps: readonly Step[],
  errors: readonly (NetlinkError | undefined)[],
): Promise<void> {
  let failures = failuresOf(steps, errors);
  // mutate: once more is not worth it, and does no harm.
  for (let i = 0; i < MAX_REMEDIES; i++) {
    const again = remedy(end, failures);
    if (again === undefined) break;
    failures = failuresOf(again, await send(end, again));
  }
  const [first] = failures;
  if (first !== undefined) throw first.error;
}

function send(
  { socket, index }: LinkEnd,
  steps: readonly Step[],
): Promise<(NetlinkError | undefined)[]> {
  return socket.tryExecute(stepRequests(steps, index));
}

function failuresOf(
  steps: readonly Step[],
  errors: readonly (NetlinkError | undefined)[],
): Failure[] {
  return steps.flatMap((step, i) => {
    const error = errors[i];
    if (error === undefined) return [];
    return isDispensable(step, error) ? [] : [{ step, error }];
  });
}

/** ENOBUFS: neigh_alloc() of the kernel's net/core/neighbour.c where its table is full, which all namespaces of the machine share; without the entry the ends ask each other. */
function isDispensable(step: Step, { code }: NetlinkError): boolean {
  if (step.kind === "neighbour") return code === "ENOBUFS";
  return step.kind === "link" && step.optional === true;
}

/** The refused steps in a form that may work, or undefined when nothing can be done. */
function remedy(
  end: LinkEnd,
  failures: readonly Failure[],
): Step[] | undefined {
  if (failures.some(isIpv6Disabled)) {
    const { name, netns } = end;
    writeSysctl(`net/ipv6/conf/${name}/disable_ipv6`, 0, { netns });
    return failures.map(({ step }) => step);
  }
  if (!failures.some(isSourceMissing)) return undefined;
  getLogger("pod-network").warn(
    "Added route without source: the node does not have that address",
    { iface: end.name, sources: failures.map(sourceOf) },
  );
  return failures.map((failure) =>
    isSourceMissing(failure) ? withoutSource(failure.step) : failure.step
  );
}

/** EACCES: ipv6_add_addr() and fib6_nh_init() of the kernel's net/ipv6 on `disable_ipv6`. */
function isIpv6Disabled({ step, error }: Failure): boolean {
  return step.kind === "address" && step.address.family === "ipv6" &&
    error.code === "EACCES";
}

/** EINVAL: fib_create_info() and fib6_config_validate() on a source that is not a local address. */
function isSourceMissing({ step, error }: Failure): boolean {
  return step.kind === "route" && step.source !== undefined &&
    error.code === "EINVAL";
}

function sourceOf({ step }: Failure): string | undefined {
  return step.kind === "route" ? step.source?.toString() : undefined;
}

function withoutSource(step: Step): Step {
  if (step.kind !== "route") return step;
  const { source: _source, ...rest } = step;
  return rest;
}
