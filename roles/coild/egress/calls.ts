import type { KeyedMutex } from "../../../lib/async/mod.ts";
import { Netns } from "../../../lib/linux/mod.ts";
import { nameText } from "../../../lib/names/mod.ts";
import { PodCheckError } from "../../../lib/podnet/mod.ts";
import { getLogger } from "../../../lib/telemetry/mod.ts";
import type { AttachmentBook } from "../calls/attachment_book.ts";
import type { CallOptions, Connected } from "../calls/attachments.ts";
import type { AddRequest } from "../calls/cni_request.ts";
import {
  egressRefsOf,
  type GatewaySelection,
} from "../../../lib/egress/mod.ts";
import type { EgressReconciler } from "./reconciler.ts";
import type { EgressSetup } from "./setup.ts";
import type { CoildMetrics } from "../observe/metrics.ts";
import type { PodFacts } from "../cluster/pod_source.ts";
import { PodAnnouncement } from "../calls/announcement.ts";
import { type AttachmentKey, keyText } from "../../../lib/cni/mod.ts";
import { type Attachment, POD_INTERFACE } from "../calls/attachment.ts";

const log = getLogger("egress");

/** The end of an ADD, as egress sees it. */
export interface SetUpOptions extends CallOptions {
  readonly request: AddRequest;
  /** What `wanted()` came to. */
  readonly wanted: GatewaySelection | undefined;
  /** What `announcement()` gave; begun already. */
  readonly announcement: PodAnnouncement | undefined;
}

/** The egress part of CNI calls. */
export interface EgressCalls {
  /** The gateways that a new pod asks for; undefined when it asks for none. @throws as `EgressSetup.wanted()` */
  wanted(
    request: AddRequest,
    pod: PodFacts,
    options: CallOptions,
  ): Promise<GatewaySelection | undefined>;

  /** Announces a new pod to its gateways; undefined when it has none. */
  announcement(
    request: AddRequest,
    options: CallOptions & Pick<SetUpOptions, "wanted">,
  ): PodAnnouncement | undefined;

  /** Makes a new pod a client; returns when its gateways know of it, too. @throws as `EgressSetup.setUp()` */
  setUp(connected: Connected, options: SetUpOptions): Promise<void>;

  /** Compares a pod with what was made of it. @throws {PodCheckError} when it is no longer a client */
  check(key: AttachmentKey, options: CallOptions): Promise<void>;

  /** Forgets an attachment that is gone. */
  forget(key: AttachmentKey): void;
}

/** Without egress: what pods ask for is ignored, as upstream does. */
export const NO_EGRESS: EgressCalls = {
  wanted(_request, pod) {
    const [asked] = egressRefsOf(pod.annotations);
    if (asked !== undefined) {
      log.warn("Ignored a pod's egress annotations: --enable-egress is false", {
        egress: nameText(asked),
      });
    }
    return Promise.resolve(undefined);
  },
  announcement: () => undefined,
  setUp: () => Promise.resolve(),
  check: () => Promise.resolve(),
  forget: () => {},
};

export interface WithEgressOptions {
  readonly setup: EgressSetup;
  readonly book: AttachmentBook;
  readonly reconciler: Pick<EgressReconciler, "enqueue">;
  readonly metrics: CoildMetrics;
  readonly locks: KeyedMutex;
}

/** With egress. Only a pod's main interface has to do with it. */
export class WithEgress implements EgressCalls {
  readonly #with: WithEgressOptions;

  constructor(options: WithEgressOptions) {
    this.#with = options;
  }

  async wanted(
    { ifname }: AddRequest,
    pod: PodFacts,
    options: CallOptions,
  ): Promise<GatewaySelection | undefined> {
    if (ifname !== POD_INTERFACE) return undefined;
    // The reconciler reports it; the gateway itself has to start.
    if (pod.isGateway) return undefined;
    return await this.#with.setup.wanted(pod, options);
  }

  announcement(
    { ifname }: AddRequest,
    { wanted, signal }: CallOptions & Pick<SetUpOptions, "wanted">,
  ): PodAnnouncement | undefined {
    if (ifname !== POD_INTERFACE || wanted === undefined) return undefined;
    const { setup } = this.#with;
    return new PodAnnouncement(
      signal,
      (attachment, options) => setup.announce(attachment, wanted, options),
    );
  }

  async setUp(
    connected: Connected,
    { request, wanted, announcement, signal }: SetUpOptions,
  ): Promise<void> {
    if (request.ifname !== POD_INTERFACE) return;
    const { book, metrics, reconciler, setup } = this.#with;
    if (wanted === undefined) {
      setup.skip(connected);
      book.add(attachmentOf(connected));
      // Its annotation went while it had its addresses.
      if (!setup.isNone(connected)) reconciler.enqueue(connected.pod);
      return;
    }
    await metrics.phase("egress", async () => {
      using netns = Netns.open(request.netns);
      await setup.setUp(connected, wanted, { netns, signal });
      await announcement?.done();
    });
    book.add(attachmentOf(connected));
    // For what has changed since the gateways were looked up.
    reconciler.enqueue(connected.pod);
  }

  async check(key: AttachmentKey, { signal }: CallOptions): Promise<void> {
    const { book, locks, reconciler, setup } = this.#with;
    using _lock = await locks.lock(keyText(key), { signal });
    const attachment = book.at(key);
    if (attachment === undefined) return;
    const problems = await setup.findDamage(attachment);
    if (problems.length === 0) return;
    reconciler.enqueue(attachment.pod);
    throw new PodCheckError(key.containerId, [
      ...problems,
      "its egress is being repaired",
    ]);
  }

  forget(key: AttachmentKey): void {
    this.#with.book.forget(key);
    this.#with.setup.forget(key);
  }
}

/** What is kept of an ADD: not its result, nor what its undo holds. */
function attachmentOf(
  { key, pod: { namespace, name }, uid, addresses, openNetns }: Connected,
): Attachment {
  return { key, pod: { namespace, name }, uid, addresses, openNetns };
}
