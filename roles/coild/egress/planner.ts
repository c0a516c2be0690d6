import {
  type ClientGateway,
  type ClientPlan,
  egressRefsOf,
  type GatewaySelection,
  type IsTaken,
  planClient,
  problemOf,
  selectGateways,
} from "../../../lib/egress/mod.ts";
import { nameText } from "../../../lib/names/mod.ts";
import { InvalidAnnotationError } from "../base/errors.ts";
import { type Attachment, POD_INTERFACE } from "../calls/attachment.ts";
import type { CallOptions } from "../calls/attachments.ts";
import type { GatewayHealthView } from "../gateways/chosen_gateways.ts";
import type { NodePlace } from "../gateways/node_place.ts";
import type { EgressSource } from "../gateways/source.ts";

export interface ClientPlannerOptions {
  readonly source: Pick<EgressSource, "find" | "read">;
  /** UDP port of the tunnels. */
  readonly port: number;
  readonly originatingOnly: boolean;
  readonly health: GatewayHealthView;
  /** As far as this node knows. */
  readonly isTaken: IsTaken;
  /** By which gateways are preferred. */
  readonly place: Pick<NodePlace, "for">;
}

/** Plans pods' networks from annotations and what the API server has. */
export class ClientPlanner {
  readonly #with: ClientPlannerOptions;

  constructor(options: ClientPlannerOptions) {
    this.#with = options;
  }

  /**
   * The gateways that a pod's annotations ask for; undefined when they ask for none.
   * By what is cached, or by the API server itself.
   *
   * @throws {InvalidAnnotationError} when they name what no Egress can be, or too many
   */
  async select(
    annotations: Readonly<Record<string, string>>,
    options: CallOptions & { readonly isLive?: boolean },
  ): Promise<GatewaySelection | undefined> {
    const problem = problemOf(annotations);
    if (problem !== undefined) throw new InvalidAnnotationError(problem);
    const refs = egressRefsOf(annotations);
    if (refs.length === 0) return undefined;
    const { source, isTaken, place } = this.#with;
    const facts = options.isLive === true
      ? await source.read(refs, options)
      : await source.find(refs, options);
    return selectGateways(
      refs,
      (ref) =>
        facts.get(nameText(ref)) ??
          { egress: undefined, service: undefined, slices: [] },
      { isTaken, place: await place.for(facts.values(), options) },
    );
  }

  /** What a pod should have as a client of these gateways. New connections avoid those that are left, too. */
  plan(
    { addresses }: Attachment,
    gateways: readonly ClientGateway[],
    { left = new Set() }: { readonly left?: ReadonlySet<string> } = {},
  ): ClientPlan {
    const { health: { avoided, lost }, port, originatingOnly } = this.#with;
    return planClient({
      addresses,
      port,
      gateways,
      originatingOnly,
      avoided: avoided.union(left),
      lost,
      ifname: POD_INTERFACE,
      mtu: 0,
    });
  }
}
