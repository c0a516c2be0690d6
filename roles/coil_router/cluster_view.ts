import {
  ADDRESS_BLOCKS,
  type AddressBlock,
  internalAddresses,
  nodeAddressesOf,
  tryBlockOf,
} from "../../lib/api/mod.ts";
import {
  abortable,
  BoundedMap,
  Gate,
  type Loops,
} from "../../lib/async/mod.ts";
import {
  Informer,
  keepFields,
  type KubeClient,
  NODES,
  type StoreChange,
  type V1Node,
} from "../../lib/kube/mod.ts";
import { mapDualStack } from "../../lib/inet/mod.ts";
import {
  GROUP_VERSION,
  NODE_ADDRESSES_ANNOTATION,
} from "../../lib/names/mod.ts";
import { getLogger } from "../../lib/telemetry/mod.ts";
import type { RouteBook, RoutedBlock } from "./route_book.ts";

const log = getLogger("router");

const BLOCK_TYPE = { apiVersion: GROUP_VERSION, kind: "AddressBlock" } as const;

/** More nodes than a cluster has. */
const MAX_NODES = 20_000;

/**
 * Follows the blocks of all nodes, parsed once, when they change, into a
 * {@linkcode RouteBook}. The addresses of their nodes are in an annotation.
 * Nodes are watched only while there is a block without it, made by an earlier
 * version or by upstream's controller: their heartbeats are costly to read.
 */
export class ClusterView {
  readonly #book: RouteBook;
  #blocksChanged = new Gate();
  readonly #nodes: Informer<V1Node>;
  readonly #blocks: Informer<KnownBlock>;

  constructor(
    client: KubeClient,
    { book, onChange, onRead }: {
      readonly book: RouteBook;
      /** Called when routes may have to change; must only take note. */
      readonly onChange: () => void;
      /** Called for each object that was read. */
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
    const readBlock = blockReader();
    this.#blocks = new Informer<KnownBlock>(client, ADDRESS_BLOCKS, {
      transform: (block) => {
        onRead();
        if (isRouted(block)) return block;
        const known = this.#blocks.store.get(block.metadata.name ?? "");
        return readBlock(block, known);
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
    this.#blocks.subscribe((change) => {
      this.#noteBlock(change);
      onChange();
    });
  }

  /** The loops to run; each ends only by its signal. */
  get loops(): Loops {
    return {
      "node informer": (signal) => this.#runNodes(signal),
      "block informer": (signal) => this.#blocks.run(signal),
    };
  }

  /** Resolves when all blocks have been listed, and the nodes if they are needed. */
  async synced(): Promise<void> {
    await this.#blocks.synced;
    if (this.#book.needsNodes) await this.#nodes.synced;
  }

  async #runNodes(signal: AbortSignal): Promise<void> {
    await abortable(this.#blocks.synced, signal);
    while (!signal.aborted) {
      const stop = new AbortController();
      const either = AbortSignal.any([signal, stop.signal]);
      const running = this.#book.needsNodes
        ? this.#nodes.run(either)
        : Promise.resolve();
      const isNeeded = this.#book.needsNodes;
      while (isNeeded === this.#book.needsNodes && !signal.aborted) {
        this.#blocksChanged = new Gate();
        await this.#blocksChanged.wait({ signal }).catch(() => {});
      }
      stop.abort();
      await running;
    }
  }

  #noteBlock({ type, object, before, key }: StoreChange<KnownBlock>): void {
    const isGone = type === "deleted";
    this.#book.setBlock(isGone ? undefined : routedOf(object), {
      before: routedOf(isGone ? object : before),
    });
    this.#blocksChanged.open();
    if (!isGone && !isRouted(object)) {
      log.error("Cannot read an AddressBlock; it gets no route", {
        block: key,
      });
    }
  }
}

/** Has neither version nor UID: two blocks are the same if their routes are. */
interface KeptBlock extends RoutedBlock {
  readonly metadata?: never;
}

/** A block that is kept, or one that cannot be read. */
type KnownBlock = AddressBlock | KeptBlock;

function isRouted(block: KnownBlock): block is KeptBlock {
  return "node" in block;
}

function routedOf(block: KnownBlock | undefined): RoutedBlock | undefined {
  return block !== undefined && isRouted(block) ? block : undefined;
}

/**
 * Makes the function that reads blocks, given what is known of the same one: that itself if its routes are the same.
 * Blocks of one node share its name and addresses.
 */
function blockReader(): (
  object: AddressBlock,
  known: KnownBlock | undefined,
) => KnownBlock {
  const nodes = new BoundedMap<string, Pick<RoutedBlock, "node" | "gateways">>(
    MAX_NODES,
  );
  const ofNode = (object: AddressBlock, node: string) => {
    const text = object.metadata.annotations?.[NODE_ADDRESSES_ANNOTATION];
    const key = `${node} ${text}`;
    const known = nodes.get(key) ?? { node, gateways: nodeAddressesOf(object) };
    nodes.set(key, known);
    return known;
  };
  return (object, known) => {
    const block = tryBlockOf(object);
    if (block === undefined) {
      const { resourceVersion } = object.metadata;
      const metadata = resourceVersion === undefined ? {} : { resourceVersion };
      return { ...BLOCK_TYPE, index: object.index, metadata };
    }
    const { name, prefixes } = block;
    const { node, gateways } = ofNode(object, block.node);
    // Of equal texts the object's own: V8 keeps one that was put together twice, in parts and as a whole.
    const { ipv4, ipv6 } = mapDualStack(prefixes, (prefix, family) => {
      const text = prefix.toString();
      return text === object[family] ? object[family] : text;
    });
    const before = routedOf(known);
    const isSame = before?.node === node && before.gateways === gateways &&
      before.ipv4 === ipv4 && before.ipv6 === ipv6;
    return isSame ? before : { name, node, gateways, ipv4, ipv6 };
  };
}

function transformNode(node: V1Node): V1Node {
  return {
    metadata: keepFields(node.metadata, "name", "uid", "resourceVersion"),
    status: { addresses: node.status?.addresses ?? [] },
  };
}
