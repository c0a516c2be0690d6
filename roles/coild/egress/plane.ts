import {
  applyChoices,
  applyClient,
  BACKSTOP_METRIC,
  clearClient,
  type ClientPlan,
  type ClientReport,
  endConnections,
  type EndedConnections,
  inspectClient,
  type KnownChoices,
  listChoices,
  prepareKernel,
} from "../../../lib/egress/mod.ts";
import { type Address, type Family, Prefix } from "../../../lib/inet/mod.ts";
import type { Netns } from "../../../lib/linux/mod.ts";
import {
  EGRESS_NARROW_TABLE,
  EGRESS_WIDE_TABLE,
} from "../../../lib/names/mod.ts";
import { RouteSocket } from "../../../lib/netlink/mod.ts";

/** Where to work. */
export interface PlaneOptions {
  /** A pod's network namespace. */
  readonly netns: Netns;
  readonly signal?: AbortSignal;
}

/** What is left to do of a plan that was applied. */
export type AppliedPlan = Pick<ClientReport, "awaitsAddress">;

/** The network inside pods, as far as egress is concerned. */
export interface EgressPlane {
  /**
   * Makes the kernel ready for tunnels.
   *
   * @throws {FouUnsupportedError} with what it lacks and what to do
   */
  prepare(families: readonly Family[]): Promise<void>;

  /**
   * Makes a pod's network what the plan says. Idempotent, and whole: what the
   * plan lacks is removed. With `freshMtu` it may take it that nothing is there.
   */
  apply(
    plan: ClientPlan,
    options: PlaneOptions & { readonly freshMtu?: number | undefined },
  ): Promise<AppliedPlan>;

  /** As `apply()`, where only the gateways that are ready or lost differ from the plan that the pod's network matches. */
  choose(plan: ClientPlan, options: PlaneOptions): Promise<void>;

  /** Removes everything that makes a client of a pod. False when there was nothing. */
  clear(options: PlaneOptions): Promise<boolean>;

  /** How a pod's network differs from the plan, one phrase each; nothing when it is as planned. Changes nothing. */
  inspect(plan: ClientPlan, options: PlaneOptions): Promise<readonly string[]>;

  /** The destinations that the pod is refused when they have no other way. */
  refused(options: PlaneOptions): Promise<readonly Prefix[]>;

  /** Ends the pod's connections through these gateways, and no others. */
  endConnections(
    gateways: readonly Address[],
    options: PlaneOptions,
  ): Promise<EndedConnections>;

  /** What the pod's network has of gateways that it chooses from, behind the plan's tunnels. */
  choices(plan: ClientPlan, options: PlaneOptions): Promise<KnownChoices>;
}

export const KERNEL_PLANE: EgressPlane = {
  prepare: prepareKernel,
  apply: applyClient,
  choose: applyChoices,
  clear: clearClient,
  inspect: inspectClient,
  choices: ({ tunnels }, options) => listChoices(tunnels, options),
  endConnections,
  async refused({ netns }) {
    using socket = RouteSocket.open({ netns });
    const destinations: Prefix[] = [];
    for (const table of [EGRESS_NARROW_TABLE, EGRESS_WIDE_TABLE]) {
      for (const route of await socket.listRoutes({ table })) {
        // It may be one of two types, but nothing else has this metric.
        if (route.metric !== BACKSTOP_METRIC) continue;
        destinations.push(route.destination ?? DEFAULTS[route.family]);
      }
    }
    return destinations;
  },
};

/** Of a default route the kernel gives no destination. */
const DEFAULTS: Readonly<Record<Family, Prefix>> = {
  ipv4: Prefix.parse("0.0.0.0/0"),
  ipv6: Prefix.parse("::/0"),
};
