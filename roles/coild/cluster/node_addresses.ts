import { abortable, CoalescedRunner } from "../../../lib/async/mod.ts";
import type { PodNetwork } from "../../../lib/podnet/mod.ts";
import { getLogger } from "../../../lib/telemetry/mod.ts";
import type { NodeSource } from "./node_source.ts";

const log = getLogger("pod-network");

/** The least time between two attempts. */
const RETRY_MS = 1_000;

/** Carries the Node's InternalIPs into the routes of its pods, whenever they change. */
export class NodeAddressFollower {
  readonly #node: NodeSource;
  readonly #network: PodNetwork;
  readonly #runner: CoalescedRunner;
  #last = "";

  constructor(
    node: NodeSource,
    network: PodNetwork,
    { retryMs = RETRY_MS }: { readonly retryMs?: number } = {},
  ) {
    this.#node = node;
    this.#network = network;
    this.#runner = new CoalescedRunner(() => this.#apply(), {
      minIntervalMs: retryMs,
    });
  }

  /** Follows the Node until the signal. */
  async run(signal: AbortSignal): Promise<void> {
    using _subscription = this.#node.subscribe(() => this.#runner.trigger());
    await abortable(this.#node.synced, signal);
    this.#runner.trigger();
    await this.#runner.run(signal);
  }

  /** Gives the addresses to the pod network at once, for pods from now on. */
  publish(): void {
    this.#network.setNodeAddresses(this.#node.addresses);
  }

  async #apply(): Promise<void> {
    this.publish();
    const { ipv4, ipv6 } = this.#node.addresses;
    const text = `${ipv4} ${ipv6}`;
    if (text === this.#last) return;
    if (ipv4 === undefined && ipv6 === undefined) {
      log.warn(
        "The Node has no InternalIP: the kernel selects the source address of packets from the node to its pods",
        { node: this.#node.name },
      );
    }
    try {
      const routes = await this.#network.refreshRoutes();
      this.#last = text;
      log.info("Set the Node's addresses as sources of pod routes", {
        ipv4: ipv4?.toString(),
        ipv6: ipv6?.toString(),
        routes,
      });
    } catch (error) {
      log.warn(
        "Cannot set the Node's addresses as sources of pod routes; retrying",
        { err: error },
      );
      this.#runner.trigger();
    }
  }
}
