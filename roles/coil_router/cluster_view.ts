import {
  ADDRESS_BLOCKS,
  type AddressBlock,
  internalAddresses,
  nodeAddressesOf,
  tryBlockOf,
} from "../../lib/api/mod.ts";
import { abortable, Gate } from "../../lib/async/mod.ts";
import {
  Informer,
  type KubeClient,
  NODES,
  type V1Node,
} from "../../lib/kube/mod.ts";
import {
  NODE_ADDRESSES_ANNOTATION,
  NODE_LABEL,
  POOL_LABEL,
} from "../../lib/names/mod.ts";
import { getLogger } from "../../lib/telemetry/mod.ts";
import type { RouteBook } from "./route_book.ts";

const log = getLogger("router");

/**
 * Follows the blocks of all nodes, parsed once, when they change, into a
 * {@linkcode RouteBook}. The addresses of their nodes are in an annotation.
 * Nodes are watched only while there is a block without it, made by an earlier
 * version or by upstream's controller: their heartbeats are much to read.
 */
export class ClusterView {
  readonly #book: RouteBook;
  /** Names of blocks that do not say their node's addresses. */
  readonly #bare = new Set<string>();
  #bareChanged = new Gate();
  readonly #nodes: Informer<V1Node>;
  readonly #blocks: Informer<AddressBlock>;

  constructor(
    client: KubeClient,
    { book, onChange, onRead }: {
      readonly book: RouteBook;
      /** Is called when routes may have to change; must only take note. */
      readonly onChange: () => void;
      /** Is called for each object that was read. */
      readonly onRead: () => void;
    },
  ) {
    this.#book = book;
    this.#nodes = new Informer(client, NODES, {
      transform: (node) => {
        onRead();
        return transformNode(node);
      },
    });
    this.#blocks = new Informer(client, ADDRESS_BLOCKS, {
      transform: (block) => {
        onRead();
        return transformBlock(block);
      },
    });
    this.#nodes.subscribe(({ type, object, key }) => {
      // A node's heartbeat changes it every few minutes; its addresses hardly ever change.
      book.setNode(
        key,
        type === "deleted" ? undefined : internalAddresses(object),
      );
      onChange();
    });
    this.#blocks.subscribe(({ type, object, key }) => {
      this.#noteBlock(key, type === "deleted" ? undefined : object);
      onChange();
    });
  }

  /** The loops to run; each ends only by its signal. */
  get loops(): Record<string, (signal: AbortSignal) => Promise<void>> {
    return {
      "node informer": (signal) => this.#runNodes(signal),
      "block informer": (signal) => this.#blocks.run(signal),
    };
  }

  /** Resolves when all blocks have been listed, and the nodes if they are needed. */
  async synced(): Promise<void> {
    await this.#blocks.synced;
    if (this.#bare.size > 0) await this.#nodes.synced;
  }

  async #runNodes(signal: AbortSignal): Promise<void> {
    await abortable(this.#blocks.synced, signal);
    while (!signal.aborted) {
      const stop = new AbortController();
      const either = AbortSignal.any([signal, stop.signal]);
      const running = this.#bare.size > 0
        ? this.#nodes.run(either)
        : Promise.resolve();
      const isNeeded = this.#bare.size > 0;
      while (isNeeded === this.#bare.size > 0 && !signal.aborted) {
        this.#bareChanged = new Gate();
        await this.#bareChanged.wait({ signal }).catch(() => {});
      }
      stop.abort();
      await running;
    }
  }

  #noteBlock(name: string, object: AddressBlock | undefined): void {
    const block = object && tryBlockOf(object);
    const gateways = object && nodeAddressesOf(object);
    this.#book.setBlock(name, block && { ...block, name, gateways });
    if (block !== undefined && gateways === undefined) this.#bare.add(name);
    else this.#bare.delete(name);
    this.#bareChanged.open();
    if (object !== undefined && block === undefined) {
      log.error("Cannot read an AddressBlock; it gets no route", {
        block: name,
      });
    }
  }
}

function transformNode(node: V1Node): V1Node {
  return {
    metadata: identityOf(node.metadata),
    status: { addresses: node.status?.addresses ?? [] },
  };
}

function transformBlock(block: AddressBlock): AddressBlock {
  const { apiVersion, kind, index, ipv4, ipv6, metadata } = block;
  const labels: Record<string, string> = {};
  for (const key of [POOL_LABEL, NODE_LABEL]) {
    const value = metadata.labels?.[key];
    if (value !== undefined) labels[key] = value;
  }
  const addresses = metadata.annotations?.[NODE_ADDRESSES_ANNOTATION];
  return {
    apiVersion,
    kind,
    index,
    ...(ipv4 === undefined ? {} : { ipv4 }),
    ...(ipv6 === undefined ? {} : { ipv6 }),
    metadata: {
      ...identityOf(metadata),
      labels,
      ...(addresses !== undefined &&
        { annotations: { [NODE_ADDRESSES_ANNOTATION]: addresses } }),
    },
  };
}

function identityOf(
  metadata: { name?: string; uid?: string; resourceVersion?: string } = {},
): { name?: string; uid?: string; resourceVersion?: string } {
  const { name, uid, resourceVersion } = metadata;
  return {
    ...(name === undefined ? {} : { name }),
    ...(uid === undefined ? {} : { uid }),
    ...(resourceVersion === undefined ? {} : { resourceVersion }),
  };
}
