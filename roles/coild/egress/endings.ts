import type { EndedConnections } from "../../../lib/egress/mod.ts";
import { type AttachmentKey, keyText } from "../../../lib/cni/mod.ts";
import type { Address } from "../../../lib/inet/mod.ts";
import type { Netns } from "../../../lib/linux/mod.ts";
import { getLogger } from "../../../lib/telemetry/mod.ts";
import type { Attachment } from "../calls/attachment.ts";
import type { EgressPlane } from "./plane.ts";

const log = getLogger("egress");

export interface ConnectionEndingsOptions {
  readonly plane: Pick<EgressPlane, "endConnections">;
  /** Called when connections of a pod through lost gateways were ended. */
  readonly onEnded: (ended: EndedConnections) => void;
}

/** Ends the connections that pods have through lost gateways, once for each loss. */
export class ConnectionEndings {
  readonly #with: ConnectionEndingsOptions;
  /** Lost gateways through which a client's connections have been ended. */
  readonly #ended = new Map<string, ReadonlySet<string>>();

  constructor(options: ConnectionEndingsOptions) {
    this.#with = options;
  }

  /** Those of the lost gateways through which a pod's connections are still to be ended. Of one that is not lost now the next loss counts again. */
  due({ key }: Attachment, lost: readonly Address[]): readonly Address[] {
    const name = keyText(key);
    const ended = this.#ended.get(name) ?? new Set();
    const lasting = lost.filter((each) => ended.has(each.toString()));
    if (lasting.length === 0) this.#ended.delete(name);
    else this.#ended.set(name, new Set(lasting.map(String)));
    return lost.filter((each) => !ended.has(each.toString()));
  }

  /** Ends what is due. */
  async endDue(
    attachment: Attachment,
    lost: readonly Address[],
  ): Promise<"done" | "not found"> {
    const due = this.due(attachment, lost);
    if (due.length === 0) return "done";
    using netns = await attachment.openNetns();
    if (netns === undefined) return "not found";
    await this.end(attachment, due, { netns });
    this.#ended.set(keyText(attachment.key), new Set(lost.map(String)));
    return "done";
  }

  /** Ends a pod's connections through these gateways. */
  async end(
    { pod }: Attachment,
    gateways: readonly Address[],
    { netns }: { readonly netns: Netns },
  ): Promise<void> {
    if (gateways.length === 0) return;
    const { plane, onEnded } = this.#with;
    const done = await plane.endConnections(gateways, { netns });
    onEnded(done);
    if (done.forgotten === 0) return;
    log.info("Ended a pod's connections through lost gateways", {
      ...pod,
      ...done,
      gateways: gateways.map(String),
    });
  }

  forget(key: AttachmentKey): void {
    this.#ended.delete(keyText(key));
  }
}
