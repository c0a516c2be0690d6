import { abortable, Backoff, retry } from "../../../lib/async/mod.ts";
import type { EgressRef } from "../../../lib/announce/mod.ts";
import {
  Informer,
  KubeApiError,
  type KubeClient,
  PODS,
  type StoreChange,
  type V1Pod,
} from "../../../lib/kube/mod.ts";
import { getLogger } from "../../../lib/telemetry/mod.ts";
import {
  type ClientPod,
  clientPodOf,
  isClientPod,
  transformClientPod,
} from "./client_pod.ts";

const log = getLogger("pod-watcher");

/** A pod that has ended leaves the selection, which the API server reports as its deletion. */
const NOT_ENDED = "status.phase!=Succeeded,status.phase!=Failed";
const OWN_NETWORK = "spec.hostNetwork=false";

/** The longest pause when the API server is away: new clients wait for the end of it. */
const RETRY_MS = 10_000;

/** What became of a client. */
export interface ClientChange {
  /** Undefined when it is a client no longer. */
  readonly pod: ClientPod | undefined;
  /** The pod that was known by that name; another one when its UID is another. */
  readonly before: ClientPod | undefined;
}

export interface ClientWatcherOptions {
  readonly client: KubeClient;
  readonly egress: EgressRef;
  /** Is told of each change; must only take note. */
  readonly onChange: (change: ClientChange) => void;
  /** Is told of each pod that was read, of which most are dropped at once. */
  readonly onRead: () => void;
}

/**
 * Follows the pods that are clients of an Egress. Which they are is in an
 * annotation, so all pods of the cluster with an address of their own come by;
 * none but the clients is kept, and of those the few fields that count.
 */
export class ClientWatcher {
  readonly #options: ClientWatcherOptions;
  readonly #pods = new Map<string, ClientPod>();

  constructor(options: ClientWatcherOptions) {
    this.#options = options;
  }

  /** The Egress whose clients are followed. */
  get egress(): EgressRef {
    return this.#options.egress;
  }

  /** The clients, by `namespace/name`. */
  get pods(): ReadonlyMap<string, ClientPod> {
    return this.#pods;
  }

  /** Follows the clients until the signal; `onSynced` is called when all have been reported once. */
  async run(signal: AbortSignal, onSynced: () => void): Promise<void> {
    const { client, egress, onRead } = this.#options;
    const informer = new Informer(client, PODS, {
      fieldSelector: await podSelector(client, { egress, signal }),
      keep: (pod) => {
        onRead();
        return isClientPod(pod, egress);
      },
      transform: transformClientPod,
      onChange: (change) => this.#note(change),
      backoff: new Backoff({ initialMs: 200, maxMs: RETRY_MS }),
    });
    const tell = async () => {
      await abortable(informer.synced, signal);
      onSynced();
    };
    await Promise.all([informer.run(signal), tell()]);
  }

  #note({ type, object, key }: StoreChange<V1Pod>): void {
    const before = this.#pods.get(key);
    const pod = type === "deleted" ? undefined : clientPodOf(object);
    if (pod === undefined) this.#pods.delete(key);
    else this.#pods.set(key, pod);
    this.#options.onChange({ pod, before });
  }
}

/** Which pods to ask for. Servers before 1.28 cannot select by spec.hostNetwork. */
async function podSelector(
  client: KubeClient,
  { egress, signal }: {
    readonly egress: EgressRef;
    readonly signal: AbortSignal;
  },
): Promise<string> {
  // Nothing matches: whether the server takes it is all that is asked.
  const fieldSelector = `metadata.name=-,${OWN_NETWORK}`;
  const { namespace } = egress;
  return await retry(async (attempt) => {
    try {
      await client.list(PODS, { namespace, fieldSelector, signal, limit: 1 });
      return `${NOT_ENDED},${OWN_NETWORK}`;
    } catch (err) {
      if (err instanceof KubeApiError && err.status === 400) {
        log.info("The API server does not support filtering by hostNetwork", {
          err,
        });
        return NOT_ENDED;
      }
      if (attempt === 1) log.warn("Cannot list pods; retrying", { err });
      throw err;
    }
  }, { signal });
}
