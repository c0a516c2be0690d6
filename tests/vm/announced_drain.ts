// A gateway says in the Egress' status that it ends, and what clients that
// choose their gateways make of it.
import { EGRESSES } from "../../lib/api/mod.ts";
import { eventually } from "../lab/wait.ts";
import type { Client, EgressCluster } from "./e2e_cluster.ts";
import type { Gateway } from "./e2e_kubelet.ts";
import { GATEWAYS } from "./e2e_objects.ts";
import { tableOf } from "./nft_tables.ts";

/** The Egress, with two gateways, and a client of it. */
export interface DrainOptions {
  readonly egress: string;
  readonly client: Client;
  /** The gateway that ends. */
  readonly gateway: Gateway;
}

/**
 * Says for a gateway that it ends. Returns how long it takes until new
 * connections of the client leave it, the call to the API server included, and
 * what takes it back.
 */
export async function announceDrain(
  { access: { client: api } }: EgressCluster,
  { egress, client, gateway: { pod: { name } } }: DrainOptions,
): Promise<{ readonly ms: number; readonly undo: () => Promise<void> }> {
  const awaitReady = (count: number) =>
    eventually(
      `${count} gateways of new connections`,
      async () => (await readyMarks(client)).length === count,
      { intervalMs: 1 },
    );
  const say = (gateways: readonly object[]) =>
    api.patch(EGRESSES, { namespace: GATEWAYS, name: egress }, {
      status: { gateways },
    }, {
      kind: "apply",
      subresource: "status",
      fieldManager: "test",
      force: true,
    });
  await awaitReady(2);
  const startMs = performance.now();
  await say([{ name, draining: true }]);
  await awaitReady(1);
  return {
    ms: performance.now() - startMs,
    undo: async () => {
      await say([]);
      await awaitReady(2);
    },
  };
}

/** The marks of the gateways that new connections of the client go to. */
async function readyMarks(client: Client): Promise<readonly string[]> {
  const table = await tableOf(client);
  const [, elements = ""] =
    /set ready_fou4_\S+ \{\s+type mark\s+elements = \{([^}]*)\}/.exec(table) ??
      [];
  return elements.match(/0x\w+/g) ?? [];
}
