import { internalAddresses } from "../../../lib/api/mod.ts";
import type { Address, DualStack } from "../../../lib/inet/mod.ts";
import {
  Informer,
  type KubeClient,
  NODES,
  type V1Node,
} from "../../../lib/kube/mod.ts";
import { NODE_NAME_ENV } from "../../../lib/names/mod.ts";
import { NotReadyError } from "../base/errors.ts";
import { transformNode } from "./transform.ts";

/** Facts about coild's own Node. */
export interface NodeFacts {
  readonly name: string;
  /** Changes when the Node object is deleted and made again. */
  readonly uid: string;
  /** InternalIPs; the last one listed of each family counts, as upstream. */
  readonly addresses: DualStack<Address>;
}

/** Which pods the node is to have. */
export interface NodeScheduling {
  /** Whether it gets no new ones, but for those of DaemonSets. */
  readonly isCordoned: boolean;
  /** The most that the kubelet runs; undefined where it does not say. */
  readonly maxPods: number | undefined;
}

/** Reads that from a Node object. */
export function schedulingOf({ spec, status }: V1Node): NodeScheduling {
  const pods = status?.capacity?.["pods"] ?? "";
  return {
    isCordoned: spec?.unschedulable === true,
    maxPods: /^[1-9]\d{0,5}$/.test(pods) ? Number(pods) : undefined,
  };
}

/** Reads the facts from a Node object; addresses that do not parse are left out. */
export function parseNode(node: V1Node): NodeFacts {
  const { name = "", uid = "" } = node.metadata ?? {};
  return { name, uid, addresses: internalAddresses(node) };
}

/**
 * Watches the own Node, so that a changed address or a re-created Node is seen
 * without a restart.
 */
export class NodeSource {
  /** The Node's name. */
  readonly name: string;
  readonly #client: KubeClient;
  readonly #informer: Informer<V1Node>;
  #lastSeen: NodeFacts | undefined;

  constructor(client: KubeClient, name: string) {
    this.name = name;
    this.#client = client;
    this.#informer = new Informer(client, NODES, {
      fieldSelector: `metadata.name=${name}`,
      transform: transformNode,
    });
    this.#informer.subscribe(({ type, object }) => {
      if (type !== "deleted") this.#lastSeen = parseNode(object);
    });
  }

  /** Watches until the signal. */
  run(signal: AbortSignal): Promise<void> {
    return this.#informer.run(signal);
  }

  /** Resolves after the first list. */
  get synced(): Promise<void> {
    return this.#informer.synced;
  }

  /**
   * The addresses for pod routes: of the Node as it is, or as it was last seen
   * while it is gone (its pods still run).
   */
  get addresses(): DualStack<Address> {
    return this.#lastSeen?.addresses ?? {};
  }

  /** The Node as it is now; undefined while there is none. */
  get current(): NodeFacts | undefined {
    const node = this.#informer.store.get(this.name);
    return node === undefined ? undefined : parseNode(node);
  }

  /** Which pods the Node is to have now; undefined while there is none. */
  get scheduling(): NodeScheduling | undefined {
    const node = this.#informer.store.get(this.name);
    return node === undefined ? undefined : schedulingOf(node);
  }

  /** Whether the Node was there, and is not as far as the watch has come. */
  get seenDeleted(): boolean {
    return this.#lastSeen !== undefined && this.current === undefined;
  }

  /**
   * The Node, asked for live when the cache does not have it.
   *
   * @throws {NotReadyError} when there is no such Node.
   */
  async get({ signal }: { signal: AbortSignal }): Promise<NodeFacts> {
    if (this.current !== undefined) return this.current;
    const { name } = this;
    const node = await this.#client.tryGet(NODES, { name, signal });
    if (node !== undefined) return parseNode(node);
    throw new NotReadyError(
      `Cannot find Node "${name}": it does not exist; ${NODE_NAME_ENV} must be the name that the kubelet registered`,
    );
  }

  /** Calls back on every change. */
  subscribe(listener: () => void): Disposable {
    return this.#informer.subscribe(listener);
  }
}
