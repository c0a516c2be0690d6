import assert from "node:assert/strict";
import {
  type Announcement,
  type Caller,
  parseAnnouncement,
} from "../../../lib/announce/mod.ts";
import { Address } from "../../../lib/inet/mod.ts";
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

const KNOWN: ClientPod = {
  namespace: "team",
  name: "client",
  uid: "u1",
  nodeName: "node1",
  addresses: [],
};

function fixture(
  { known, later, away = false, ...more }:
    & {
      readonly known?: ClientPod;
      /** What a slice brings while the announcement waits. */
      readonly later?: ClientPod;
      readonly away?: boolean;
    }
    & Partial<AdmissionOptions> = {},
) {
  const seen: string[] = [];
  const pods = new Map(known && [[known.uid, known]]);
  const admission = new Admission({
    egress: { namespace: "nat", name: "internet" },
    user: COILD.username,
    ownAddresses: [Address.parse("10.1.9.9")],
    clients: {
      pods,
      find: (uid) =>
        Promise.resolve(
          pods.get(uid) ?? (later?.uid === uid ? later : undefined),
        ),
    },
    controller: { isAway: () => Promise.resolve(away) },
    blocks: { problemOf: () => Promise.resolve(undefined) },
    announced: {
      add: ({ uid, nodeName }, addresses) => {
        seen.push(`add ${uid} on ${nodeName} ${addresses}`);
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
  return { admission, seen };
}

for (
  const [what, parts] of [
    ["that a slice has", { known: KNOWN }],
    [
      "that a slice has, without asking whether coil-controller is there",
      {
        known: KNOWN,
        controller: { isAway: () => Promise.reject(new Error("asked")) },
      },
    ],
    ["that a slice has a moment later", { later: KNOWN }],
    ["that replaces one of its name", {
      known: { ...KNOWN, uid: "u0" },
      later: KNOWN,
    }],
    ["that no slice has while coil-controller is away", { away: true }],
  ] as const
) {
  Deno.test(`Admission lets in a client ${what}`, async () => {
    const { admission, seen } = fixture(parts);
    const verdict = await admission.admit(announcement(), {
      caller: COILD,
      signal,
    });
    assert.deepEqual(verdict, { status: 204 });
    assert.deepEqual(seen, ["add u1 on node1 10.1.1.2", "flushed"]);
  });
}

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
      /^only "/,
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
    ["of a pod that is gone", {}, {}, COILD, 404, /the pod does not exist/],
    [
      "of a pod that went in the meantime",
      { known: KNOWN, announced: { add: () => false } },
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
      { known: KNOWN },
      { uid: "u0" },
      COILD,
      404,
      /the pod does not exist, or its annotations do not name this Egress/,
    ],
    [
      "of a client by another name",
      { known: { ...KNOWN, name: "other" } },
      {},
      COILD,
      404,
      /the pod does not exist/,
    ],
    [
      "of an address that its node does not have, while coil-controller is away",
      {
        away: true,
        blocks: { problemOf: () => Promise.resolve("not of the node") },
      },
      {},
      COILD,
      403,
      /not of the node/,
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
