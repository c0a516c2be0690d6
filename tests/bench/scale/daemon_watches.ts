// Runs as a worker: the watches of many nodes' coilds, each with a connection of
// its own, and when each coild is in step with an API server that came back.
import { EGRESS_SELECTOR, EGRESSES } from "../../../lib/api/mod.ts";
import {
  type ConnectionSource,
  Informer,
  keepFields,
  KubeClient,
  type KubeObject,
  NAMESPACES,
  type RequestInfo,
  type ResourceType,
} from "../../../lib/kube/mod.ts";
import { sleep } from "../../lab/mod.ts";
import { PATTERNS, type WatchKind } from "../../scale/patterns.ts";

/** A node whose coild watches. */
export interface WatchingNode {
  readonly name: string;
  readonly token: string;
  /** Those with Egresses that its pods name. */
  readonly egressNamespaces: readonly string[];
}

/** An object that is changed after the restart, by kind and key. */
export type ChangedKey = readonly [plural: string, key: string];

/** What the worker is asked. */
export type Question =
  | {
    readonly ask: "open";
    readonly server: string;
    readonly ca: string;
    readonly nodes: readonly WatchingNode[];
  }
  | {
    readonly ask: "step";
    /** No store has this version before the restart, and each has it after it. */
    readonly version: number;
    /** Changed after the restart, beside each node's own Node. */
    readonly changed: readonly ChangedKey[];
  };

/** What it answers: when its coilds were in step, in ms since 1970, and what they asked since the question. */
export interface Answer {
  readonly atMs: readonly number[];
  /** By verb and code. */
  readonly requests: Readonly<Record<string, number>>;
}

const LOOK_MS = 50;

class DaemonWatches {
  readonly name: string;
  readonly #informers: (readonly [WatchKind, Informer<KubeObject>])[];

  constructor(client: KubeClient, { name, egressNamespaces }: WatchingNode) {
    this.name = name;
    const open = (kind: WatchKind, namespace?: string) => {
      const type = kind.type as ResourceType<KubeObject>;
      const informer = new Informer(client, type, {
        namespace,
        ...selectorsOf(kind, name),
        transform: ({ metadata = {} }) => ({
          metadata: keepFields(
            metadata,
            ...["name", "namespace", "uid", "resourceVersion"] as const,
          ),
        }),
      });
      return [kind, informer] as const;
    };
    const { coild, egress } = PATTERNS.now;
    this.#informers = [
      ...coild.map((kind) => open(kind)),
      ...egressNamespaces.flatMap((namespace) =>
        egress.map((kind) => open(kind, namespace))
      ),
    ];
  }

  run(signal: AbortSignal): void {
    for (const [, informer] of this.#informers) void informer.run(signal);
  }

  async synced(): Promise<void> {
    await Promise.all(this.#informers.map(([, { synced }]) => synced));
  }

  /** Whether all of its stores are of this version at least, and of the changed objects have a later one. */
  isInStep(version: number, changed: readonly ChangedKey[]): boolean {
    const keys: ChangedKey[] = [...changed, ["nodes", this.name]];
    return this.#informers.every(([{ type }, informer]) =>
      Number(informer.version ?? 0) >= version &&
      keys.every(([plural, key]) =>
        plural !== type.plural ||
        Number(informer.store.get(key)?.metadata?.resourceVersion) > version
      )
    );
  }
}

/** As coild's informers have them. */
function selectorsOf({ type, by }: WatchKind, node: string) {
  if (by === "name") return { fieldSelector: `metadata.name=${node}` };
  if (by === "node") return { fieldSelector: `spec.nodeName=${node}` };
  if (by === "all") return { metadataOnly: type === NAMESPACES };
  return type === EGRESSES ? {} : { labelSelector: EGRESS_SELECTOR };
}

const daemons: DaemonWatches[] = [];
let requests: Record<string, number> = {};

function onRequest({ verb, code }: RequestInfo): void {
  const name = `${verb}.${code}`;
  requests[name] = (requests[name] ?? 0) + 1;
}

async function open(
  { server, ca, nodes }: Question & { readonly ask: "open" },
): Promise<Answer> {
  const { signal } = new AbortController();
  for (const node of nodes) {
    const connection = {
      server,
      tls: { caCerts: [ca] },
      headers: { authorization: `Bearer ${node.token}` },
    };
    const source: ConnectionSource = {
      server,
      current: () => Promise.resolve(connection),
      refresh: () => Promise.resolve(),
    };
    const client = KubeClient.from(source, { onRequest });
    const daemon = new DaemonWatches(client, node);
    daemons.push(daemon);
    daemon.run(signal);
    await daemon.synced();
  }
  return { atMs: [], requests };
}

async function awaitStep(
  { version, changed }: Question & { readonly ask: "step" },
): Promise<Answer> {
  requests = {};
  const atMs: number[] = [];
  let left = daemons;
  while (left.length > 0) {
    await sleep(LOOK_MS);
    const behind = left.filter((d) => !d.isInStep(version, changed));
    const nowMs = Date.now();
    for (let i = behind.length; i < left.length; i++) atMs.push(nowMs);
    left = behind;
  }
  return { atMs, requests };
}

const worker = self as unknown as {
  onmessage: (event: MessageEvent<Question>) => void;
  postMessage(answer: Answer): void;
};
worker.onmessage = async ({ data }) => {
  worker.postMessage(
    data.ask === "open" ? await open(data) : await awaitStep(data),
  );
};
