import type { ClientGateway, GatewayGroup } from "../../../lib/egress/mod.ts";
import { type AttachmentKey, keyText } from "../../../lib/cni/mod.ts";
import { chosenGroups, readyOf } from "../gateways/chosen_gateways.ts";
import { type ClientState, gatewaysOf } from "./client_state.ts";

/** Known state of each pod's network. */
export class ClientStates {
  readonly #states = new Map<string, ClientState>();
  /** Undefined after a change. Probes ask some times in a second. */
  #groups: readonly GatewayGroup[] | undefined;

  /** How many pods are clients. */
  get clients(): number {
    const states = [...this.#states.values()];
    return states.filter((state) => gatewaysOf(state).size > 0).length;
  }

  /** The gateways that clients choose from; the same list until something changes. */
  get chosenFrom(): readonly GatewayGroup[] {
    return this.#groups ??= chosenGroups(this.#gateways());
  }

  /** Those of them that new connections may use, as text. */
  get ready(): ReadonlySet<string> {
    return new Set(readyOf(this.#gateways()).map(String));
  }

  #gateways(): ClientGateway[] {
    return [...this.#states.values()].flatMap((state) => [
      ...gatewaysOf(state).values(),
    ]);
  }

  get(key: AttachmentKey): ClientState | undefined {
    return this.#states.get(keyText(key));
  }

  set(key: AttachmentKey, state: ClientState): void {
    this.#states.set(keyText(key), state);
    this.#groups = undefined;
  }

  delete(key: AttachmentKey): void {
    this.#states.delete(keyText(key));
    this.#groups = undefined;
  }
}
