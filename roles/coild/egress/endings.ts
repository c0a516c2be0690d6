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
import {
  chosenFrom,
  endingOf,
  type GatewayHealthView,
  lostOf,
} from "../gateways/chosen_gateways.ts";
import type { EgressPlane } from "./plane.ts";
import type { SeenNamespaces } from "./seen_namespaces.ts";

const log = getLogger("egress");

/** For so long it is tried to end a pod's connections through a gateway. */
const OWED_MS = 60_000;

/** A gateway through which a pod may have connections that were to be ended. */
interface Owed {
  readonly gateway: Address;
  readonly untilMs: number;
}

export interface ConnectionEndingsOptions {
  readonly plane: Pick<EgressPlane, "endConnections">;
  readonly health: Pick<GatewayHealthView, "lost">;
  /** Called when connections of a pod through gateways that are lost or gone were ended. */
  readonly onEnded: (
    ended: EndedConnections,
    gateways: readonly Address[],
  ) => void;
  /** Called when a pod no longer uses gateways that are lost, once for each loss. */
  readonly onSwitched: (lost: readonly Address[]) => void;
  /** Milliseconds that never go back. */
  readonly nowMs?: () => number;
}

/** Ends the connections that pods have through gateways that are lost, once for each loss, or gone. */
export class ConnectionEndings {
  readonly #with: ConnectionEndingsOptions;
  readonly #namespaces: SeenNamespaces;
  /** Lost gateways that a client no longer uses. */
  readonly #left = new Map<string, ReadonlySet<string>>();
  /** Gateways that are lost or gone, by pods whose connections through them could not be ended. */
  readonly #owed = new Map<string, readonly Owed[]>();
  /** Pods of which a program keeps the kernel, and a thread of coild, from ending a connection. */
  readonly #held = new Set<string>();

  constructor(options: ConnectionEndingsOptions, namespaces: SeenNamespaces) {
    this.#with = options;
    this.#namespaces = namespaces;
  }

  /** Leaves lost gateways, once for each loss, when new connections go elsewhere. "later" while the pod owes an end of connections. */
  async leave(
    attachment: Attachment,
    { gateways, isNew, signal }: CallOptions & {
      readonly gateways: readonly ClientGateway[];
      /** Whether the pod had no gateways before. */
      readonly isNew: boolean;
    },
  ): Promise<"done" | "later" | "not found"> {
    const lost = lostOf(gateways, this.#with.health);
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
    return this.owed(attachment, gateways).length > 0 ? "later" : "done";
  }

  /** Takes note that a pod uses none of these. */
  noteLeft({ key }: Attachment, lost: readonly Address[]): void {
    // mutate: only frees memory.
    if (lost.length === 0) this.#left.delete(keyText(key));
    else this.#left.set(keyText(key), new Set(lost.map(String)));
  }

  /** The gateways of earlier {@linkcode end} calls that failed. One that the pod has is forgotten unless it is lost: it may have new connections, or keep them. */
  owed(
    { key }: Attachment,
    gateways: readonly ClientGateway[],
  ): Address[] {
    const owed = this.#owed.get(keyText(key)) ?? [];
    const had = new Set(chosenFrom(gateways).map(String));
    const lost = new Set(endingOf(gateways).map(String))
      .intersection(this.#with.health.lost);
    const left = owed.filter(({ gateway }) =>
      !had.has(`${gateway}`) || lost.has(`${gateway}`)
    );
    this.#noteOwed(keyText(key), left);
    return left.map(({ gateway }) => gateway);
  }

  #noteOwed(key: string, owed: readonly Owed[]): void {
    // mutate: only frees memory.
    if (owed.length === 0) this.#owed.delete(key);
    else this.#owed.set(key, owed);
  }

  /**
   * Ends a pod's connections through these gateways. While the kernel refuses,
   * or a program holds it up, they are {@linkcode owed} for a minute.
   */
  async end(
    attachment: Attachment,
    gateways: readonly Address[],
    options: CallOptions & { readonly netns: Netns },
  ): Promise<void> {
    const key = keyText(attachment.key);
    const due = new Map(gateways.map((each) => [`${each}`, each]));
    const before = this.#owed.get(key) ?? [];
    const known = new Map(before.map((each) => [`${each.gateway}`, each]));
    const others = before.filter(({ gateway }) => !due.has(`${gateway}`));
    this.#noteOwed(key, others);
    let err: unknown;
    try {
      if (await this.#endNow(attachment, [...due.values()], options)) return;
    } catch (error) {
      options.signal.throwIfAborted();
      err = error;
    }
    const { pod } = attachment;
    if (before.length === 0 && err !== undefined) {
      log.warn(
        "Cannot end a pod's connections through gateways that are lost or gone; trying again",
        { ...pod, gateways: [...due.keys()], err },
      );
    }
    const nowMs = this.#with.nowMs?.() ?? performance.now();
    const owed = [...due].map(([name, gateway]) =>
      known.get(name) ?? { gateway, untilMs: nowMs + OWED_MS }
    );
    const { left = [], over = [] } = Object.groupBy(
      owed,
      ({ untilMs }) => untilMs > nowMs ? "left" : "over",
    );
    this.#noteOwed(key, [...others, ...left]);
    if (over.length === 0) return;
    log.warn(
      "Gave up ending a pod's connections through gateways that are lost or gone; programs that wait for an answer go on waiting",
      {
        ...pod,
        gateways: over.map(({ gateway }) => `${gateway}`),
        err,
      },
    );
  }

  /** Not while an earlier end of some is still under way. Returns whether all were ended. */
  async #endNow(
    { key, pod }: Attachment,
    gateways: readonly Address[],
    { netns, signal }: CallOptions & { readonly netns: Netns },
  ): Promise<boolean> {
    const held = keyText(key);
    if (gateways.length === 0) return true;
    if (this.#held.has(held)) return false;
    const { plane, onEnded } = this.#with;
    const done = await plane.endConnections(gateways, { netns, signal });
    onEnded(done, gateways);
    const fields = { ...pod, gateways: gateways.map(String) };
    if (done.held !== undefined) {
      this.#held.add(held);
      void done.held.then(() => this.#held.delete(held)); // never rejects
      log.warn(
        "Cannot end a pod's connections: one of its programs keeps a socket locked",
        fields,
      );
      return false;
    }
    if (done.forgotten === 0) return true;
    log.info(
      "Ended a pod's connections through gateways that are lost or gone",
      { ...fields, ...done },
    );
    return true;
  }

  forget(key: AttachmentKey): void {
    this.#left.delete(keyText(key));
    this.#owed.delete(keyText(key));
  }
}
