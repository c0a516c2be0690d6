import assert from "node:assert/strict";
import {
  type Announcement,
  type Caller,
  parseAnnouncement,
} from "../../../lib/announce/mod.ts";
import { Address } from "../../../lib/inet/mod.ts";
import { KubeClient, type V1Pod } from "../../../lib/kube/mod.ts";
import { FakeTransport } from "../../../lib/kube/testing.ts";
import { Admission, type AdmissionOptions } from "./admission.ts";
import type { ClientPod } from "../clients/client_pod.ts";
import type { NodeClaim } from "./node_blocks.ts";

const COILD: Caller = {
  username: "system:serviceaccount:kube-system:coild",
  nodeName: "node1",
};
const signal = new AbortController().signal;

function announcement(
  more: {
    readonly egress?: string;
    readonly uid?: string;
    readonly address?: string;
  } = {},
): Announcement {
  const { egress = "internet", uid = "u1", address = "10.1.1.2" } = more;
  return parseAnnouncement(JSON.stringify({
    egress: { namespace: "nat", name: egress },
    pod: { namespace: "team", name: "client", uid },
    addresses: [address],
    block: "default-3",
  }));
}

function livePod(more: Partial<NonNullable<V1Pod["spec"]>> = {}): V1Pod {
  return {
    metadata: {
      namespace: "team",
      name: "client",
      uid: "u1",
      annotations: { "egress.coil.cybozu.com/nat": "internet" },
    },
    spec: { nodeName: "node1", containers: [], ...more },
  };
}

const KNOWN: ClientPod = {
  namespace: "team",
  name: "client",
  uid: "u1",
  nodeName: "node1",
  addresses: [],
};

function fixture(
  { known, live, ...more }:
    & { readonly known?: ClientPod; readonly live?: V1Pod }
    & Partial<AdmissionOptions> = {},
) {
  const seen: string[] = [];
  const transport = new FakeTransport(() =>
    live === undefined
      ? { status: 404, body: { kind: "Status", reason: "NotFound" } }
      : { body: live }
  );
  const admission = new Admission({
    client: new KubeClient(transport),
    egress: { namespace: "nat", name: "internet" },
    user: COILD.username,
    ownAddresses: [Address.parse("10.1.9.9")],
    pods: new Map(known && [["team/client", known]]),
    blocks: { problemOf: () => Promise.resolve(undefined) },
    announced: {
      add: ({ uid }, addresses) => {
        seen.push(`add ${uid} ${addresses}`);
        return true;
      },
    },
    sync: {
      flushed: () => {
        seen.push("flushed");
        return Promise.resolve();
      },
    },
    closedBecause: () => undefined,
    ...more,
  });
  return { admission, seen, gets: transport.requests };
}

Deno.test("Admission lets a known client in without asking the API server", async () => {
  const { admission, seen, gets } = fixture({ known: KNOWN });
  const verdict = await admission.admit(announcement(), {
    caller: COILD,
    signal,
  });
  assert.deepEqual(verdict, { status: 204 });
  assert.deepEqual(seen, ["add u1 10.1.1.2", "flushed"]);
  assert.equal(gets.length, 0);
});

Deno.test("Admission asks the API server once for a pod that it does not know", async () => {
  for (const known of [undefined, { ...KNOWN, uid: "u0" }]) {
    const { admission, seen, gets } = fixture({
      live: livePod(),
      ...(known && { known }),
    });
    const verdict = await admission.admit(announcement(), {
      caller: COILD,
      signal,
    });
    assert.deepEqual(verdict, { status: 204 });
    assert.deepEqual(seen, ["add u1 10.1.1.2", "flushed"]);
    assert.deepEqual(gets.map(({ path }) => path), [
      "/api/v1/namespaces/team/pods/client",
    ]);
  }
});

Deno.test("Admission rejects when the kernel does", async () => {
  const { admission } = fixture({
    known: KNOWN,
    sync: { flushed: () => Promise.reject(new Error("no memory")) },
  });
  await assert.rejects(
    admission.admit(announcement(), { caller: COILD, signal }),
    /no memory/,
  );
});

const { nodeName: _none, ...UNBOUND } = COILD;
const { nodeName: _no, ...UNSCHEDULED } = KNOWN;

for (
  const [what, parts, message, caller, status, reason] of [
    [
      "while it is closed",
      {
        known: KNOWN,
        closedBecause: () => "not ready yet",
      },
      {},
      COILD,
      503,
      /not ready yet/,
    ],
    [
      "from another user",
      { known: KNOWN },
      {},
      {
        ...COILD,
        username: "system:serviceaccount:team:default",
      },
      403,
      /nobody else/,
    ],
    [
      "for another Egress",
      { known: KNOWN },
      { egress: "dmz" },
      COILD,
      403,
      /"nat\/internet"/,
    ],
    [
      "with a token of another node",
      { known: KNOWN },
      {},
      {
        ...COILD,
        nodeName: "node2",
      },
      403,
      /not on the node/,
    ],
    [
      "with a token of no node",
      { known: KNOWN },
      {},
      UNBOUND,
      403,
      /does not contain its pod's node/,
    ],
    [
      "of a pod on no node",
      { known: UNSCHEDULED },
      {},
      COILD,
      403,
      /not on the node/,
    ],
    ["of a pod that is gone", {}, {}, COILD, 404, /the pod does not exist/],
    [
      "of a pod that went while the API server was asked",
      { live: livePod(), announced: { add: () => false } },
      {},
      COILD,
      404,
      /no longer a client/,
    ],
    [
      "of an address that its node does not have",
      {
        known: KNOWN,
        blocks: {
          problemOf: ({ node, block, addresses }: NodeClaim) =>
            Promise.resolve(`not of ${node}: ${addresses} of ${block}`),
        },
      },
      {},
      COILD,
      403,
      /not of node1: 10\.1\.1\.2 of default-3/,
    ],
    [
      "of a pod's predecessor",
      { live: livePod() },
      { uid: "u0" },
      COILD,
      404,
      /the pod does not exist/,
    ],
    [
      "of a pod on the host's network",
      {
        live: livePod({ hostNetwork: true }),
      },
      {},
      COILD,
      403,
      /annotations/,
    ],
    [
      "of a pod without the annotation",
      {
        live: { metadata: { uid: "u1" } },
      },
      {},
      COILD,
      403,
      /annotations/,
    ],
    [
      "of the loopback address",
      { known: KNOWN },
      { address: "127.0.0.1" },
      COILD,
      403,
      /no client has/,
    ],
    [
      "of a multicast group",
      { known: KNOWN },
      { address: "ff02::1" },
      COILD,
      403,
      /no client has/,
    ],
    [
      "of a mapped address",
      { known: KNOWN },
      { address: "::ffff:10.1.1.2" },
      COILD,
      403,
      /no client has/,
    ],
    [
      "of the gateway's own address",
      { known: KNOWN },
      { address: "10.1.9.9" },
      COILD,
      403,
      /no client has/,
    ],
  ] as const
) {
  Deno.test(`Admission answers ${status} to an announcement ${what}`, async () => {
    const { admission, seen } = fixture(parts);
    const verdict = await admission.admit(announcement(message), {
      caller,
      signal,
    });
    assert.equal(verdict.status, status);
    assert.match("reason" in verdict ? verdict.reason : "", reason);
    assert.deepEqual(seen, []);
  });
}
