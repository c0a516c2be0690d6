import {
  type EgressGatewayStatus,
  type EgressStatus,
  gatewayLosses,
  gatewayText,
  lossText,
} from "../../../lib/api/mod.ts";
import type { EventInfo } from "../../../lib/kube/mod.ts";

export interface LossChange {
  readonly before: EgressStatus | undefined;
  readonly after: EgressStatus;
  /** The entries of existing pods. */
  readonly gateways: readonly EgressGatewayStatus[];
  /** By the machine's date, as the times in entries. */
  readonly nowMs: number;
}

/**
 * The Events of each gateway that nodes lose, and of each that answers them
 * again; not of one whose pod is gone. The nodes' reports go when the gateway
 * that has them does, and come again within some minutes, to another one: then
 * the gateway is neither back, nor lost another time.
 */
export class LossEvents {
  /** By Egress and gateway: when the status ceased to name the gateway, although no entry says that it is back. */
  readonly #unsaid = new Map<string, ReadonlyMap<string, number>>();

  /** Returns the Events of a change of an Egress' status. */
  take(
    key: string,
    { before, after, gateways, nowMs }: LossChange,
  ): EventInfo[] {
    const was = new Set(before?.lostGateways);
    const is = new Set(after.lostGateways);
    const losses = new Map(
      gatewayLosses(gateways).map((loss) => [loss.name, loss]),
    );
    const unsaid = this.#unsaid.get(key);
    const next = new Map<string, number>();
    const lost: EventInfo[] = [];
    const back: EventInfo[] = [];
    for (const gateway of gateways) {
      const { name } = gateway;
      const loss = losses.get(name);
      const unsaidMs = was.has(name) ? nowMs : unsaid?.get(name);
      if (is.has(name)) {
        // One that began before that is the same.
        const isKnown = was.has(name) || loss === undefined ||
          Date.parse(loss.since) <= (unsaidMs ?? -Infinity);
        if (!isKnown) lost.push(lostEvent(loss));
      } else if (unsaidMs !== undefined) {
        if (loss?.nodes === 0) back.push(backEvent(gateway));
        else next.set(name, unsaidMs);
      }
    }
    this.#unsaid.set(key, next);
    return [...lost, ...back];
  }

  /** Forgets an Egress that is gone. */
  forget(key: string): void {
    this.#unsaid.delete(key);
  }
}

function lostEvent(loss: Parameters<typeof lossText>[0]): EventInfo {
  return { type: "Warning", reason: "GatewayLost", message: lossText(loss) };
}

/** The times are those for which a node holds it off, in lib/egress/probing. */
function backEvent(gateway: EgressGatewayStatus): EventInfo {
  return {
    type: "Normal",
    reason: "GatewayBack",
    message: `${
      gatewayText(gateway)
    } answers all nodes again; each gives it new connections 5 s to 5 min after its first answer`,
  };
}
