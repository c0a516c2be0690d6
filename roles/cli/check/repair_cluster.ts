import {
  blockFinder,
  type Books,
  type Finding,
  type PodAddresses,
  readableBlocks,
} from "../../../lib/ipam/audit/mod.ts";
import {
  ADDRESS_BLOCKS,
  type AddressBlock,
  BLOCK_REQUESTS,
  type BlockRequest,
  blockRequestResult,
  tryBlockOf,
} from "../../../lib/api/mod.ts";
import { forEachConcurrently } from "../../../lib/async/mod.ts";
import { formatDuration } from "../../../lib/flags/mod.ts";
import { valuesOf } from "../../../lib/inet/mod.ts";
import {
  deleteFinalized,
  type EventRecorder,
  KubeApiError,
  type KubeClient,
  KubeUnreachableError,
  LIVE_PODS,
  NODES,
  type ObjectReference,
  POD_HEADS,
  PODS,
} from "../../../lib/kube/mod.ts";
import {
  FINALIZER,
  GROUP_VERSION,
  nameText,
  NODE_LABEL,
} from "../../../lib/names/mod.ts";
import type { Looker } from "../base/looker.ts";
import { addressesOf } from "../ipam/cluster_reader.ts";
import { type Mended, type Repair, unrepaired } from "./repair.ts";

export interface ClusterRepairOptions {
  readonly client: Pick<KubeClient, "delete" | "list" | "patch" | "tryGet">;
  readonly looker: Looker;
  /** The last look, in which all of it was found. */
  readonly books: Books;
  readonly recorder: Pick<EventRecorder, "event">;
  readonly dryRun: boolean;
  /** Requests younger than this are left alone. */
  readonly minAgeMs: number;
  readonly now: Date;
}

/**
 * Releases blocks of nodes that are gone, and deletes old requests. Each object
 * is read again right before; it must still be the one that was found.
 * Everything else remains a problem.
 */
export async function repairCluster(
  findings: readonly Finding[],
  options: ClusterRepairOptions,
): Promise<Mended<Finding>> {
  const mend = new ClusterRepair(options);
  await mend.prepare(findings);
  const outcomes = new Map<Finding, Outcome>();
  await forEachConcurrently(findings, AT_ONCE, async (finding) => {
    outcomes.set(finding, await mend.outcomeOf(finding));
  });
  // By object: a block without node and pool is one repair.
  const repairs = new Map<string, Repair>();
  const problems: Finding[] = [];
  for (const [finding, outcome] of outcomes) {
    const { object, code } = finding;
    if (outcome.kind === "done") {
      repairs.set(object, { object, code, message: outcome.message });
    } else if (outcome.kind === "kept") {
      problems.push(unrepaired(finding, outcome.why));
    }
  }
  return { repairs: [...repairs.values()], problems };
}

/** Result for an object; `over`: it was gone before the repair. */
type Outcome =
  | { readonly kind: "done"; readonly message: string }
  /** Without a reason: that of the finding's kind. */
  | { readonly kind: "kept"; readonly why?: string | undefined }
  | { readonly kind: "over" };

/** Objects that are worked on at a time. */
const AT_ONCE = 8;

const BLOCK_CODES = new Set(["block-without-node", "block-without-pool"]);

class ClusterRepair {
  readonly #with: ClusterRepairOptions;
  /** Blocks have two findings at times. */
  readonly #blocks = new Map<string, Promise<Outcome>>();
  /** The pods with addresses of a block, by its name; undefined: they may not be listed. */
  #holders: ReadonlyMap<string, readonly string[]> | undefined;

  constructor(options: ClusterRepairOptions) {
    this.#with = options;
  }

  /** Reads what all blocks have in common: which pods have addresses. */
  async prepare(findings: readonly Finding[]): Promise<void> {
    const named = new Set(
      findings.filter(({ code }) => BLOCK_CODES.has(code)).map(nameOf),
    );
    if (named.size === 0) return;
    const pods = await this.#with.looker.list(PODS, addressesOf, {
      fieldSelector: LIVE_PODS,
      format: POD_HEADS,
    });
    const blocks = (this.#with.books.blocks ?? []).filter(({ metadata }) =>
      named.has(metadata.name ?? "")
    );
    this.#holders = pods && holdersOf(blocks, pods.flatMap((p) => p ?? []));
  }

  async outcomeOf(finding: Finding): Promise<Outcome> {
    const name = nameOf(finding);
    const { blocks = [], requests = [] } = this.#with.books;
    if (BLOCK_CODES.has(finding.code)) {
      const block = blocks.find(({ metadata }) => metadata.name === name);
      if (block === undefined) return { kind: "kept" };
      const known = this.#blocks.get(name) ??
        orRefusal(() => this.#block(block));
      this.#blocks.set(name, known);
      return await known;
    }
    if (finding.code !== "request-unanswered") return { kind: "kept" };
    const request = requests.find(({ metadata }) => metadata.name === name);
    return request === undefined
      ? { kind: "kept" }
      : await orRefusal(() => this.#request(request));
  }

  async #block({ metadata }: AddressBlock): Promise<Outcome> {
    const { client, dryRun } = this.#with;
    const { name = "", uid = "" } = metadata;
    const object = await client.tryGet(ADDRESS_BLOCKS, { name });
    if (object?.metadata.uid !== uid) return { kind: "over" };
    const why = await this.#whyKept(object);
    if (why !== undefined) return { kind: "kept", why };
    const node = object.metadata.labels?.[NODE_LABEL] ?? "";
    const message =
      `released: Node ${node} does not exist, no pod is bound to it, and no pod has an address of the block`;
    if (dryRun) return { kind: "done", message };
    await deleteFinalized(client, ADDRESS_BLOCKS, {
      object,
      finalizer: FINALIZER,
    });
    this.#record("AddressBlock", { name, uid }, message);
    return { kind: "done", message };
  }

  /** Why a block must stay; undefined when its node is gone and nothing has its addresses. */
  async #whyKept(object: AddressBlock): Promise<string | undefined> {
    const { name = "", labels = {} } = object.metadata;
    const node = labels[NODE_LABEL] ?? "";
    if (node === "") return "without a label of its node, any node may use it";
    const block = tryBlockOf(object);
    if (block === undefined) return "its addresses cannot be read";
    if (block.reserved) return "it is reserved for a migration from Coil v1";
    if (this.#holders === undefined) return "you may not list pods";
    const holders = this.#holders.get(name) ?? [];
    if (holders.length > 0) {
      return `${listed(holders)} ${
        holders.length === 1 ? "has an address" : "have addresses"
      } of it`;
    }
    if (await this.#hasNode(node)) {
      return `Node ${node} exists, and its coild returns the block when it is empty`;
    }
    const bound = await this.#podOn(node);
    return bound &&
      `Pod ${bound} is bound to Node ${node}, so the machine may still run`;
  }

  async #request(request: BlockRequest): Promise<Outcome> {
    const { client, dryRun, minAgeMs, now } = this.#with;
    const { name = "", uid, resourceVersion, creationTimestamp } =
      request.metadata;
    const ageMs = now.getTime() - Date.parse(String(creationTimestamp ?? ""));
    if (!(ageMs >= minAgeMs)) {
      return {
        kind: "kept",
        why: `it is younger than ${
          formatDuration(minAgeMs)
        }, and its coild may wait for it`,
      };
    }
    const { nodeName } = request.spec;
    const isRefused = blockRequestResult(request).state === "failed";
    if (!isRefused && await this.#hasNode(nodeName)) return { kind: "kept" };
    const message = isRefused
      ? "deleted: it was refused long ago; a coild that needs a block asks again"
      : `deleted: Node ${nodeName} does not exist`;
    if (dryRun) return { kind: "done", message };
    await client.delete(BLOCK_REQUESTS, {
      name,
      preconditions: { uid, resourceVersion },
    });
    const known = { name, ...(uid !== undefined && { uid }) };
    this.#record("BlockRequest", known, message);
    return { kind: "done", message };
  }

  #record(
    kind: keyof typeof REASONS,
    object: Pick<ObjectReference, "name" | "uid">,
    message: string,
  ): void {
    this.#with.recorder.event({ apiVersion: GROUP_VERSION, kind, ...object }, {
      type: "Normal",
      reason: REASONS[kind],
      message: `By coil ipam check --repair: ${message}`,
    });
  }

  async #hasNode(name: string): Promise<boolean> {
    const options = { name, metadataOnly: true };
    return await this.#with.client.tryGet(NODES, options) !== undefined;
  }

  /** A pod that is bound to a node, of any phase: Kubernetes deletes them some time after the Node. */
  async #podOn(node: string): Promise<string | undefined> {
    const { items } = await this.#with.client.list(PODS, {
      fieldSelector: `spec.nodeName=${node}`,
      limit: 1,
    });
    const [pod] = items;
    return pod && `${pod.metadata?.namespace}/${pod.metadata?.name}`;
  }
}

const REASONS = {
  AddressBlock: "OrphanedBlockReleased",
  BlockRequest: "OldRequestDeleted",
} as const;

/** Turns what the API server refuses into the reason why nothing was done. */
async function orRefusal(call: () => Promise<Outcome>): Promise<Outcome> {
  try {
    return await call();
  } catch (error) {
    const isApi = error instanceof KubeApiError;
    if (isApi && error.isNotFound) return { kind: "over" };
    if (!isApi && !(error instanceof KubeUnreachableError)) throw error;
    return { kind: "kept", why: error.message };
  }
}

/** The name of the object of a finding. */
function nameOf({ object }: Finding): string {
  return object.slice(object.indexOf(" ") + 1);
}

/** The pods that have addresses of each block. */
function holdersOf(
  blocks: readonly AddressBlock[],
  pods: readonly PodAddresses[],
): Map<string, string[]> {
  // A finder has one block for an address, and pools may overlap.
  const byPool = Map.groupBy(readableBlocks(blocks), ({ pool }) => pool);
  const finders = [...byPool.values()].map(blockFinder);
  const holders = new Map<string, string[]>();
  for (const pod of pods) {
    const names = new Set(
      valuesOf(pod.addresses).flatMap((address) =>
        finders.flatMap((find) => find(address)?.name ?? [])
      ),
    );
    for (const block of names) {
      holders.getOrInsert(block, []).push(nameText(pod));
    }
  }
  return holders;
}

/** The most pods named in a message. */
const NAMED_PODS = 3;

function listed(pods: readonly string[]): string {
  const more = pods.length - NAMED_PODS;
  const names = pods.slice(0, NAMED_PODS).join(", ");
  const text = more > 0 ? `${names} and ${more} more` : names;
  return `Pod${pods.length === 1 ? "" : "s"} ${text}`;
}
