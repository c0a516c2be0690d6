import {
  ADDRESS_BLOCKS,
  type AddressBlock,
  tryBlockOf,
} from "../../lib/api/mod.ts";
import { Address, type DualStack, type Family } from "../../lib/inet/mod.ts";
import {
  Informer,
  type KubeClient,
  NODES,
  type V1Node,
} from "../../lib/kube/mod.ts";
import { NODE_LABEL, POOL_LABEL } from "../../lib/names/mod.ts";
import { getLogger } from "../../lib/telemetry/mod.ts";
import type { RouteBook } from "./route_book.ts";

const log = getLogger("router");

/** Follows the nodes' addresses and the blocks that they hold, parsed once, when they change, into a {@linkcode RouteBook}. */
export class ClusterView {
  readonly #book: RouteBook;
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
      book.setNode(key, type === "deleted" ? undefined : addressesOf(object));
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
      "node informer": (signal) => this.#nodes.run(signal),
      "block informer": (signal) => this.#blocks.run(signal),
    };
  }

  /** Resolves when all nodes and blocks have been listed. */
  async synced(): Promise<void> {
    await Promise.all([this.#nodes.synced, this.#blocks.synced]);
  }

  #noteBlock(name: string, object: AddressBlock | undefined): void {
    const block = object && tryBlockOf(object);
    this.#book.setBlock(name, block && { ...block, name });
    if (object !== undefined && block === undefined) {
      log.error("Cannot read an AddressBlock; it gets no route", {
        block: name,
      });
    }
  }
}

/** InternalIPs of a node; the last one listed of each family counts, as upstream. */
export function addressesOf(node: V1Node): DualStack<Address> {
  const addresses: Partial<Record<Family, Address>> = {};
  for (const { type, address: text } of node.status?.addresses ?? []) {
    const address = type === "InternalIP" ? Address.tryParse(text) : undefined;
    if (address !== undefined) addresses[address.family] = address;
  }
  return addresses;
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
  return {
    apiVersion,
    kind,
    index,
    ...(ipv4 === undefined ? {} : { ipv4 }),
    ...(ipv6 === undefined ? {} : { ipv6 }),
    metadata: { ...identityOf(metadata), labels },
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
