import {
  abortable,
  jittered,
  sleep,
  waitWhile,
} from "../../../lib/async/mod.ts";
import { CommandError } from "../../../lib/command/mod.ts";
import { messageOf } from "../../../lib/errors/mod.ts";
import {
  KubeApiError,
  type KubeClient,
  NAMESPACES,
  unlessGone,
  type V1Namespace,
} from "../../../lib/kube/mod.ts";

/** Label of a namespace that this command has made; the admission of pods with a port of the host needs the other. */
const OWN_LABEL = "coil.cybozu.com/connectivity-test";
const LABELS: Readonly<Record<string, string>> = {
  "app.kubernetes.io/name": "coil-connectivity-test",
  [OWN_LABEL]: "true",
  "pod-security.kubernetes.io/enforce": "privileged",
};
/** Annotation that a running test changes again and again. */
const PULSE_ANNOTATION = "coil.cybozu.com/connectivity-test-pulse";

const PULSE_MS = 3_000;
/** A running test has changed its annotation by then. */
const LISTEN_MS = 12_000;
const LOOK_MS = 500;
const GONE_MS = 90_000;
const REQUEST_MS = 10_000;

export interface SpaceOptions {
  readonly client: KubeClient;
  readonly name: string;
  readonly signal: AbortSignal;
  /** Takes messages for the user. */
  readonly say: (text: string) => void;
}

/** A namespace of the test's own, which goes with all that is in it. */
export class Space {
  readonly name: string;
  readonly #client: KubeClient;
  readonly #uid: string;
  readonly #say: (text: string) => void;
  readonly #ended = new AbortController();
  readonly #pulse: Promise<void>;

  private constructor(
    { client, name, say }: SpaceOptions,
    { metadata }: V1Namespace,
  ) {
    this.name = name;
    this.#client = client;
    this.#uid = metadata?.uid ?? "";
    this.#say = say;
    this.#pulse = this.#beat();
  }

  /**
   * Makes the namespace, after that of an interrupted test is gone.
   *
   * @throws {CommandError} when there is one that is not the command's, or of a test that runs
   */
  static async create(options: SpaceOptions): Promise<Space> {
    const { client, name, signal } = options;
    const left = await client.tryGet(NAMESPACES, { name, signal });
    if (left !== undefined) await removeLeft(left, options);
    const metadata = {
      name,
      labels: LABELS,
      annotations: { [PULSE_ANNOTATION]: crypto.randomUUID() },
    };
    try {
      // Not to be interrupted: it may be there, and has to go again then.
      return new Space(options, await client.create(NAMESPACES, { metadata }));
    } catch (error) {
      if (error instanceof KubeApiError && error.isAlreadyExists) {
        throw isRunning(name);
      }
      throw error;
    }
  }

  /** Deletes it, and waits until it is gone. Never rejects: it says what it could not do. */
  async remove(): Promise<void> {
    this.#ended.abort();
    await this.#pulse;
    this.#say(`Removing Namespace ${this.name}`);
    try {
      await removeNamespace(this.#client, { name: this.name, uid: this.#uid });
    } catch (error) {
      this.#say(
        `Cannot remove Namespace ${this.name}: ${
          messageOf(error)
        }\nThe next test removes it, or: kubectl delete namespace ${this.name}`,
      );
    }
  }

  /** Leaves it there. */
  async keep(): Promise<void> {
    this.#ended.abort();
    await this.#pulse;
    this.#say(
      `Namespace ${this.name} is kept. The next test removes it, or: kubectl delete namespace ${this.name}`,
    );
  }

  async #beat(): Promise<void> {
    const { signal } = this.#ended;
    while (!signal.aborted) {
      await sleep(jittered(PULSE_MS), { signal }).catch(() => {});
      if (signal.aborted) return;
      const annotations = { [PULSE_ANNOTATION]: crypto.randomUUID() };
      const patch = { metadata: { uid: this.#uid, annotations } };
      // An API server that is away for a moment is found by the test itself.
      await this.#client.patch(NAMESPACES, { name: this.name, signal }, patch, {
        kind: "merge",
      }).catch(() => {});
    }
  }
}

function isRunning(name: string): CommandError {
  return new CommandError(
    `Cannot use Namespace "${name}": another connectivity test runs in it. Wait for its end, or give another one: --namespace`,
  );
}

async function removeLeft(
  left: V1Namespace,
  { client, name, signal, say }: SpaceOptions,
): Promise<void> {
  const { labels, deletionTimestamp, uid = "" } = left.metadata ?? {};
  if (labels?.[OWN_LABEL] !== "true") {
    throw new CommandError(
      `Cannot use Namespace "${name}": it exists, and no connectivity test made it. Give the name of one that does not exist: --namespace`,
    );
  }
  if (deletionTimestamp === undefined) {
    say(`Namespace ${name} exists: checking whether its test still runs`);
    if (await hasPulse(left, { client, name, signal })) throw isRunning(name);
  }
  say(`Removing Namespace ${name} of an interrupted test`);
  await abortable(removeNamespace(client, { name, uid }), signal);
}

/** Whether it changes: clocks of two machines are not compared. */
async function hasPulse(
  first: V1Namespace,
  { client, name, signal }: Pick<SpaceOptions, "client" | "name" | "signal">,
): Promise<boolean> {
  const pulseOf = ({ metadata }: V1Namespace) =>
    metadata?.annotations?.[PULSE_ANNOTATION];
  const endsAt = performance.now() + LISTEN_MS;
  while (performance.now() < endsAt) {
    await sleep(jittered(LOOK_MS), { signal });
    const now = await client.tryGet(NAMESPACES, { name, signal });
    if (now === undefined) return false;
    if (pulseOf(now) !== pulseOf(first)) return true;
  }
  return false;
}

/** @throws {CommandError} when it is still there after a while */
async function removeNamespace(
  client: KubeClient,
  { name, uid }: { readonly name: string; readonly uid: string },
): Promise<void> {
  const signal = () => AbortSignal.timeout(REQUEST_MS);
  await unlessGone(() =>
    client.delete(NAMESPACES, {
      name,
      preconditions: { uid },
      signal: signal(),
    })
  );
  await waitWhile(async () => {
    const found = await client.tryGet(NAMESPACES, { name, signal: signal() });
    return found?.metadata?.uid === uid ? found : undefined;
  }, {
    timeoutMs: GONE_MS,
    pollMs: LOOK_MS,
    late: () =>
      new CommandError(`it is still being deleted after ${GONE_MS / 1_000} s`),
  });
}
