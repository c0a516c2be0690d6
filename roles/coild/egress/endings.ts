import type {
  ClientGateway,
  EndedConnections,
} from "../../../lib/egress/mod.ts";
import { type AttachmentKey, keyText } from "../../../lib/cni/mod.ts";
import type { Address } from "../../../lib/inet/mod.ts";
import type { Netns } from "../../../lib/linux/mod.ts";
import { getLogger } from "../../../lib/telemetry/mod.ts";
import type { Attachment } from "../calls/attachment.ts";
import type { CallOptions } from "../calls/attachments.ts";
import { endingOf } from "../gateways/chosen_gateways.ts";
import type { EgressPlane } from "./plane.ts";
import type { SeenNamespaces } from "./seen_namespaces.ts";

const log = getLogger("egress");

export interface ConnectionEndingsOptions {
  readonly plane: Pick<EgressPlane, "endConnections">;
  /** Called when connections of a pod through gateways that are lost or gone were ended. */
  readonly onEnded: (
    ended: EndedConnections,
    gateways: readonly Address[],
  ) => void;
  /** Called when a pod no longer uses gateways that are lost, once for each loss. */
  readonly onSwitched: (lost: readonly Address[]) => void;
}

/** Ends the connections that pods have through gateways that are lost, once for each loss, or gone. */
export class ConnectionEndings {
  readonly #with: ConnectionEndingsOptions;
  readonly #namespaces: SeenNamespaces;
  /** Lost gateways that a client no longer uses. */
  readonly #left = new Map<string, ReadonlySet<string>>();
  /** Pods of which a program keeps the kernel, and a thread of coild, from ending a connection. */
  readonly #held = new Set<string>();

  constructor(options: ConnectionEndingsOptions, namespaces: SeenNamespaces) {
    this.#with = options;
    this.#namespaces = namespaces;
  }

  /** Leaves lost gateways, once for each loss, when new connections go elsewhere. */
  async leave(
    attachment: Attachment,
    { gateways, lost, isNew, signal }: CallOptions & {
      readonly gateways: readonly ClientGateway[];
      readonly lost: readonly Address[];
      /** Whether the pod had no gateways before. */
      readonly isNew: boolean;
    },
  ): Promise<"done" | "not found"> {
    const left = this.#left.get(keyText(attachment.key)) ?? new Set();
    const due = lost.filter((each) => !left.has(each.toString()));
    const ending = new Set(endingOf(gateways).map(String));
    const ended = due.filter((each) => ending.has(each.toString()));
    if (ended.length > 0) {
      using netns = await this.#namespaces.open(attachment);
      if (netns === undefined) return "not found";
      await this.end(attachment, ended, { netns, signal });
    }
    this.noteLeft(attachment, lost);
    if (due.length > 0 && !isNew) this.#with.onSwitched(due);
    return "done";
  }

  /** Takes note that a pod uses none of these. */
  noteLeft({ key }: Attachment, lost: readonly Address[]): void {
    // mutate: only frees memory.
    if (lost.length === 0) this.#left.delete(keyText(key));
    else this.#left.set(keyText(key), new Set(lost.map(String)));
  }

  /** Ends a pod's connections through these gateways; not while an earlier end of some is still under way. */
  async end(
    { key, pod }: Attachment,
    gateways: readonly Address[],
    { netns, signal }: CallOptions & { readonly netns: Netns },
  ): Promise<void> {
    const held = keyText(key);
    if (gateways.length === 0 || this.#held.has(held)) return;
    const { plane, onEnded } = this.#with;
    const done = await plane.endConnections(gateways, { netns, signal });
    onEnded(done, gateways);
    if (done.held !== undefined) {
      this.#held.add(held);
      void done.held.then(() => this.#held.delete(held)); // never rejects
      log.warn(
        "Cannot end a pod's connections: one of its programs keeps a socket locked",
        { ...pod, gateways: gateways.map(String) },
      );
      return;
    }
    if (done.forgotten === 0) return;
    log.info(
      "Ended a pod's connections through gateways that are lost or gone",
      {
        ...pod,
        ...done,
        gateways: gateways.map(String),
      },
    );
  }

  forget(key: AttachmentKey): void {
    this.#left.delete(keyText(key));
  }
}
