import type { Result } from "../../../lib/cni/mod.ts";
import type { CNIArgs } from "../../../lib/cnirpc/mod.ts";
import type { Address, DualStack } from "../../../lib/inet/mod.ts";
import type { V1Pod } from "../../../lib/kube/mod.ts";
import type { Netns } from "../../../lib/linux/mod.ts";
import type { PodKey, PodName } from "../../../lib/podnet/mod.ts";
import type { AddRequest } from "./cni_request.ts";
import type { PodFacts } from "../cluster/pod_source.ts";
import type { Telling } from "./telling.ts";

/**
 * The interface of a pod that egress is about: the one whose addresses are in
 * the pod's status, as the runtimes of Kubernetes name it.
 */
export const POD_INTERFACE = "eth0";

/** A pod's interface as coild finds it again. */
export interface Attachment {
  /** By which it is locked; see {@linkcode Attachments.connect}. */
  readonly key: PodKey;
  readonly pod: PodName;
  /** The pod's UID in the API, where it is known. */
  readonly uid?: string;
  readonly addresses: DualStack<Address>;
  /** Found by an address of the pod's status, which is true only as long as the pod has it. Absent: known by more than that. */
  readonly byAddress?: true;
  /** Opens the pod's network namespace; undefined when there is none. */
  openNetns(): Promise<Netns | undefined>;
}

/** What ADD made. */
export interface Connected extends Attachment {
  readonly result: Result;
  /** The interface's MTU, where this call made it and nothing was there before; absent where that is not known. */
  readonly freshMtu?: number;
  /** Takes everything back, after what was told of it has ended. Never throws; `held`, with the locks, is disposed of when all is done. */
  undo(held: DisposableStack): Promise<void>;
}

/** How a call is served. */
export interface CallOptions {
  readonly signal: AbortSignal;
}

/** How an ADD or DEL is served. */
export interface LockedOptions extends CallOptions {
  /** Holds the lock of the call's key; what is needed longer moves it away. */
  readonly held: DisposableStack;
}

/** How an ADD is served. */
export interface ConnectOptions extends LockedOptions {
  /** Begins when the pod's addresses are known, long before it is connected; ends before they are given up. */
  readonly telling: Telling;
}

/** The two ways to have pods: connected by coild itself, or by another plugin before it. */
export interface Attachments {
  /** @throws {InvalidNetworkError} when coil has the wrong place in the list of plugins. */
  accept(request: AddRequest): void;

  /**
   * Connects a pod. When the attachment is known by another key than the
   * call's, that one is locked too.
   */
  connect(
    request: AddRequest,
    pod: PodFacts,
    options: ConnectOptions,
  ): Promise<Connected>;

  /** Takes a pod off the network. Whatever is already gone is no error. Returns by which key it was known. */
  disconnect(
    key: PodKey,
    options: LockedOptions & { readonly pod?: PodName },
  ): Promise<PodKey>;

  /** Compares a pod's network with what ADD made. Returns by which key it is known. */
  check(args: CNIArgs, options: CallOptions): Promise<PodKey>;

  /** Releases what the runtime does not have; calls back with the key of each. */
  gc(
    args: CNIArgs,
    options: CallOptions & { readonly onReleased: (key: PodKey) => void },
  ): Promise<void>;

  /** Finds attachments that an earlier process made, by `<namespace>/<name>` of the pod. */
  find(pods: readonly V1Pod[]): Promise<ReadonlyMap<string, Attachment>>;
}
