import assert from "node:assert/strict";
import {
  ANNOUNCE_PATH,
  AnnounceClient,
  parseRefusal,
  SOURCES_PATH,
} from "../../lib/announce/mod.ts";
import { Address } from "../../lib/inet/mod.ts";
import { eventually } from "../lab/mod.ts";
import {
  ADDRESSES,
  EGRESS,
  EgressLab,
  NAMESPACE,
  untilReady,
} from "./egress_gateway_lab.ts";

const TARGET = { namespace: NAMESPACE, name: EGRESS };
const SEEN_AS = "192.0.2.1";
const DESTINATION = "203.0.113.9";

Deno.test("coil-egress says in the Egress' status how its own node translates its sources, and takes no other node's word", async () => {
  await using lab = await EgressLab.start("egresssources");
  for (const node of ["node1", "node2"]) {
    await lab.createPod(`coild-${node}`, {
      namespace: "kube-system",
      node,
      serviceAccount: "coild",
    });
  }
  await using gateway = await lab.startGateway({ node: "node1" });
  await untilReady(gateway);
  const { hostname, port } = new URL(gateway.announceUrl);
  const report = async (
    node: string,
  ): ReturnType<AnnounceClient["reportSources"]> => {
    const token = await lab.token({ pod: `coild-${node}` });
    using client = new AnnounceClient({
      tokens: { token: () => Promise.resolve(token), refused: () => {} },
      port: Number(port),
      timeoutMs: 30_000,
    });
    return await client.reportSources(
      { egress: TARGET, address: Address.parse(hostname) },
      {
        translated: [ADDRESSES.ipv4, Address.parse("10.99.0.7")]
          .flatMap((source) => source ?? []).map((source) => ({
            source,
            seenAs: Address.parse(SEEN_AS),
            destination: Address.parse(DESTINATION),
          })),
        signal: new AbortController().signal,
      },
    );
  };
  const { result, reason } = await report("node2");
  assert.deepEqual([result, reason], [
    "refused",
    "403 only the node of this gateway may report",
  ]);
  const nothing = await fetch(
    gateway.announceUrl.replace(ANNOUNCE_PATH, SOURCES_PATH),
    {
      method: "POST",
      headers: {
        authorization: `Bearer ${await lab.token({ pod: "coild-node1" })}`,
      },
      body: JSON.stringify({ egress: TARGET, translated: [{ source: "x" }] }),
    },
  );
  assert.equal(nothing.status, 400);
  assert.match(parseRefusal(await nothing.text()), /"source" has "x"/);
  assert.equal((await report("node1")).result, "accepted");
  await eventually("the report in the status", async () => {
    const [entry] = await lab.gateways();
    assert.equal(entry?.node, "node1");
    assert.deepEqual(entry?.translated, [{
      address: `${ADDRESSES.ipv4}`,
      seenAs: SEEN_AS,
      destination: DESTINATION,
    }]);
    return true;
  });
});
