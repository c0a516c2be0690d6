import type { AttachmentKey, Result } from "../../../lib/cni/mod.ts";
import type { CniRequest } from "../../../lib/plugin/mod.ts";
import type { V1Pod } from "../../../lib/kube/mod.ts";
import type { Attachment } from "./attachment.ts";
import type { AddRequest } from "./cni_request.ts";
import type { PodFacts } from "../cluster/pod_source.ts";
import type { PodAnnouncement } from "./announcement.ts";
import type { NamespacedName } from "../../../lib/names/mod.ts";

export interface Connected extends Attachment {
  readonly result: Result;
  /** The interface's MTU, where this call made it and nothing was there before; absent where that is not known. */
  readonly freshMtu?: number;
  /** Takes everything back, after its announcement has ended. Never throws; `held`, with the locks, is disposed of when all is done. */
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
  /** Begins when the pod's addresses are known, long before it is connected; ends before they are given up. Undefined when there is nothing to announce. */
  readonly announcement: PodAnnouncement | undefined;
}

/** How a GC is served. */
export interface GcOptions extends CallOptions {
  /** Called with the key of each attachment that was released. */
  readonly onReleased: (key: AttachmentKey) => void;
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

  /** Takes a pod off the network. Ignores what is already gone. Returns by which key it was known. */
  disconnect(
    key: AttachmentKey,
    options: LockedOptions & { readonly pod?: NamespacedName },
  ): Promise<AttachmentKey>;

  /** Compares a pod's network with what ADD made. Returns by which key it is known. */
  check(args: CniRequest, options: CallOptions): Promise<AttachmentKey>;

  /** Releases what the runtime does not have. */
  gc(args: CniRequest, options: GcOptions): Promise<void>;

  /** Finds attachments that an earlier process made, by `<namespace>/<name>` of the pod. */
  find(pods: readonly V1Pod[]): Promise<ReadonlyMap<string, Attachment>>;
}
