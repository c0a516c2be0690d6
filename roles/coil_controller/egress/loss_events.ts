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

/** What is remembered of an Egress. */
interface Known {
  /** By gateway: when the status ceased to name it, although no entry says that it is back. */
  readonly unsaid: ReadonlyMap<string, number>;
  /** The losses that entries with no nodes said were over, at the last call. */
  readonly ended: ReadonlySet<string>;
}

/**
 * The Events of each gateway that nodes lose, and of each that answers them
 * again; not of one whose pod is gone. The nodes' reports go when the gateway
 * that has them does, and come again within some minutes, to another one: then
 * the gateway is neither back, nor lost another time. Entries stay for an hour
 * after the end of a loss, so only one that did not say so before says that the
 * gateway is back.
 */
export class LossEvents {
  readonly #known = new Map<string, Known>();

  /** Returns the Events of an Egress. Call it for each change of its status or of the gateways' entries. */
  take(
    key: string,
    { before, after, gateways, nowMs }: LossChange,
  ): EventInfo[] {
    const was = new Set(before?.lostGateways);
    const is = new Set(after.lostGateways);
    const losses = new Map(
      gatewayLosses(gateways).map((loss) => [loss.name, loss]),
    );
    const known = this.#known.get(key);
    const unsaid = new Map<string, number>();
    const ended = new Set<string>();
    const lost: EventInfo[] = [];
    const back: EventInfo[] = [];
    for (const gateway of gateways) {
      const { name } = gateway;
      const endedNow = endedLosses(gateway, gateways);
      for (const each of endedNow) ended.add(each);
      const loss = losses.get(name);
      const unsaidMs = was.has(name) ? nowMs : known?.unsaid.get(name);
      if (is.has(name)) {
        // One that began before that is the same.
        const isKnown = was.has(name) || loss === undefined ||
          Date.parse(loss.since) <= (unsaidMs ?? -Infinity);
        if (!isKnown) lost.push(lostEvent(loss));
      } else if (unsaidMs !== undefined) {
        const isBack = endedNow.some((each) => !known?.ended.has(each));
        if (isBack) back.push(backEvent(gateway));
        else unsaid.set(name, unsaidMs);
      }
    }
    this.#known.set(key, { unsaid, ended });
    return [...lost, ...back];
  }

  /** Forgets an Egress that is gone. */
  forget(key: string): void {
    this.#known.delete(key);
  }
}

/** The losses of a gateway that other gateways say are over, each as text: who says so, the address and the time. */
function endedLosses(
  { name, addresses = [] }: EgressGatewayStatus,
  gateways: readonly EgressGatewayStatus[],
): string[] {
  return gateways.filter((other) => other.name !== name)
    .flatMap(({ name: by, losses = [] }) =>
      losses.filter(({ address, nodes }) =>
        nodes === 0 && addresses.includes(address)
      ).map(({ address, since }) => `${by} ${address} ${since}`)
    );
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
