import {
  SPIDER_COORDINATOR_NAME,
  SPIDER_COORDINATORS,
  type SpiderCoordinator,
} from "../../../lib/api/mod.ts";
import {
  CoalescedRunner,
  everyAbout,
  type Loops,
} from "../../../lib/async/mod.ts";
import {
  documentOf,
  NOTHING_SHARED,
  readDefaults,
  readShared,
  type Shared,
  type SharedDocument,
  writeDefaults,
} from "../../../lib/coordinator/mod.ts";
import { Informer, type KubeClient } from "../../../lib/kube/mod.ts";
import { describeError, getLogger } from "../../../lib/telemetry/mod.ts";

const log = getLogger("coordinator");

/** The least time between two writes, and about how often the file is looked at. */
const WRITE_INTERVAL_MS = 1_000;
const LOOK_INTERVAL_MS = 60_000;

export interface DefaultsKeeperOptions {
  /** Of the file. */
  readonly path: string;
  /** Default 1 s. */
  readonly writeMs?: number;
  /** Default about a minute. */
  readonly lookMs?: number;
}

/**
 * What is configured for all pods: by SpiderCoordinator "default", else as an
 * earlier coild has written it down. Keeps the file with it, for calls that
 * coild does not answer.
 */
export class DefaultsKeeper {
  readonly #path: string;
  readonly #lookMs: number;
  readonly #informer: Informer<SpiderCoordinator>;
  readonly #writer: CoalescedRunner;
  #document: SharedDocument;
  #shared: Shared;

  constructor(client: KubeClient, options: DefaultsKeeperOptions) {
    this.#path = options.path;
    this.#lookMs = options.lookMs ?? LOOK_INTERVAL_MS;
    this.#document = readDefaults(options.path);
    this.#shared = readShared(this.#document);
    this.#informer = new Informer(client, SPIDER_COORDINATORS, {
      fieldSelector: `metadata.name=${SPIDER_COORDINATOR_NAME}`,
      onChange: ({ type, object }) => {
        if (type !== "deleted") this.#take(object);
      },
    });
    this.#writer = new CoalescedRunner(() => this.#write(), {
      // mutate: only tests want another.
      minIntervalMs: options.writeMs ?? WRITE_INTERVAL_MS,
    });
  }

  /** What is in force. */
  get shared(): Shared {
    return this.#shared;
  }

  /** Seconds since the API server last said that this is so; undefined before it did. */
  get ageSeconds(): number | undefined {
    const { hasSynced, lastSyncAgeMs } = this.#informer;
    return hasSynced ? lastSyncAgeMs / 1_000 : undefined;
  }

  /** Whether calls can be answered as the cluster wants it. */
  get isSettled(): boolean {
    return this.#informer.hasSynced || this.#isKnown;
  }

  /** Whether a resource was ever seen, by this process or the one that wrote the file. */
  get #isKnown(): boolean {
    return this.#document.config !== NOTHING_SHARED.config;
  }

  get loops(): Loops {
    return {
      "coordinator informer": (signal) => this.#informer.run(signal),
      "coordinator defaults": (signal) => this.#writer.run(signal),
      // Writes the file again when it was removed.
      "coordinator file": (signal) =>
        everyAbout(this.#lookMs, () => this.#writer.trigger(), { signal }),
    };
  }

  #take(resource: SpiderCoordinator): void {
    const { document, refused } = documentOf(resource, this.#document);
    this.#document = document;
    this.#shared = readShared(document);
    if (refused !== undefined) {
      const { message, details } = refused;
      log.warn("Cannot use SpiderCoordinator; the former defaults stay", {
        reason: `${message}: ${details}`,
      });
    }
    this.#writer.trigger();
  }

  async #write(): Promise<void> {
    if (!this.#isKnown) return;
    try {
      if (!await writeDefaults(this.#path, this.#document)) return;
      log.info("Wrote the defaults of coordinator", { path: this.#path });
    } catch (error) {
      log.warn("Cannot write the defaults of coordinator; trying again later", {
        path: this.#path,
        reason: describeError(error),
      });
    }
  }
}
