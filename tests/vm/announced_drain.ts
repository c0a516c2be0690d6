// A gateway says in the Egress' status that it ends, and what clients that
// choose their gateways make of it.
import { EGRESSES } from "../../lib/api/mod.ts";
import { Netns } from "../../lib/linux/mod.ts";
import { EGRESS_NFT_TABLE } from "../../lib/names/mod.ts";
import { NetfilterSocket } from "../../lib/netlink/mod.ts";
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

/** How new connections left a gateway. */
export interface Drained {
  /** Until the last of them was chosen, the call to the API server included. */
  readonly ms: number;
  /** What that call took. */
  readonly callMs: number;
  /** Takes back that the gateway ends. */
  readonly undo: () => Promise<void>;
}

/** Says for a gateway that it ends, and waits until new connections of the client leave it. */
export async function announceDrain(
  { access: { client: api } }: EgressCluster,
  { egress, client, gateway: { pod: { name } } }: DrainOptions,
): Promise<Drained> {
  const say = (gateways: readonly object[]) =>
    api.patch(EGRESSES, { namespace: GATEWAYS, name: egress }, {
      status: { gateways },
    }, {
      kind: "apply",
      subresource: "status",
      fieldManager: "test",
      force: true,
    });
  await awaitReady(client, 2);
  const startMs = performance.now();
  const left = awaitReady(client, 1);
  await say([{ name, draining: true }]);
  const callMs = performance.now() - startMs;
  return {
    ms: await left - startMs,
    callMs,
    undo: async () => {
      await say([]);
      await awaitReady(client, 2);
    },
  };
}

/** Waits until new connections of the client go to so many gateways, of each family; returns when. By this process: one of `nft` each time would take longer than what is measured. */
export async function awaitReady(
  client: Client,
  count: number,
): Promise<number> {
  const table = await tableOf(client);
  const sets = [...table.matchAll(/set (ready_\w+)/g)].map(([, set = ""]) =>
    set
  );
  if (sets.length === 0) throw new Error(`no set of gateways in ${table}`);
  using netns = Netns.open(`/run/netns/${client.pod.sandbox.netns}`);
  using nft = NetfilterSocket.open({ netns });
  for (const set of sets) {
    await eventually(
      `${count} gateways of new connections`,
      async () => (await nft.listSet(EGRESS_NFT_TABLE, set)).length === count,
      { intervalMs: 1 },
    );
  }
  return performance.now();
}
