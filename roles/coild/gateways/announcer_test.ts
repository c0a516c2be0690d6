import assert from "node:assert/strict";
import type {
  AnnounceClient,
  AnnounceTarget,
} from "../../../lib/announce/mod.ts";
import { Address } from "../../../lib/inet/mod.ts";
import type { Addressed } from "../calls/attachment.ts";
import { Announcer } from "./announcer.ts";

const TARGETS: readonly AnnounceTarget[] = [{
  egress: { namespace: "nat", name: "internet" },
  address: Address.parse("10.64.0.9"),
}];

const POD: Addressed = {
  pod: { namespace: "team", name: "web" },
  uid: "u1",
  block: "default-0",
  addresses: {
    ipv4: Address.parse("10.64.0.1"),
    ipv6: Address.parse("fd02::1"),
  },
};

/** Announces the pod; returns what was sent and what was counted. */
async function announce(pod: Addressed, stop = new AbortController()) {
  const sent: unknown[] = [];
  const counted: string[] = [];
  const client = {
    announce: (what: unknown) => {
      sent.push(what);
      const outcomes = ["accepted", "refused"].map((result) => ({
        ...TARGETS[0],
        result,
        reason: "",
      }));
      return Promise.resolve(outcomes);
    },
  } as unknown as AnnounceClient;
  const metrics = { announced: (result: string) => void counted.push(result) };
  const { signal } = stop;
  await new Announcer(client, metrics).announce(pod, TARGETS, { signal });
  return { sent, counted };
}

Deno.test("a new pod's addresses go to its gateways, and what came of it is counted", async () => {
  const { sent, counted } = await announce(POD);
  assert.deepEqual(sent, [{
    pod: { namespace: "team", name: "web", uid: "u1" },
    addresses: [POD.addresses.ipv4, POD.addresses.ipv6],
    block: "default-0",
    targets: TARGETS,
  }]);
  assert.deepEqual(counted, ["accepted", "refused"]);
});

Deno.test("what no gateway would believe is not announced", async () => {
  const { uid: _uid, ...anonymous } = POD;
  const { block: _block, ...foreign } = POD;
  for (const pod of [anonymous, foreign, { ...POD, addresses: {} }]) {
    assert.deepEqual((await announce(pod)).sent, []);
  }
});

Deno.test("an announcement that was given up counts for nothing", async () => {
  const stop = new AbortController();
  stop.abort();
  assert.deepEqual((await announce(POD, stop)).counted, []);
});
