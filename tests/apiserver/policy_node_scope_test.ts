// dra#1317: node A's token cannot touch what is node B's. Tokens are real ones,
// bound to pods on nodes; what is refused is refused by the API server.
import assert from "node:assert/strict";
import {
  blockRequestName,
  newVpcNode,
  type VpcNode,
} from "../../lib/api/mod.ts";
import {
  type Attempt,
  blockRequest,
  type Caller,
  NAMESPACE,
  PolicyLab,
} from "./policy_lab.ts";

const NODE1: Caller = { account: "coild", pod: "coild-node1" };
const NODE2: Caller = { account: "coild", pod: "coild-node2" };
const UNBOUND: Caller = { account: "coild" };
const GATEWAY1: Caller = { account: "coil-egress", pod: "coil-egress-node1" };

interface Case {
  readonly name: string;
  readonly caller: Caller;
  readonly attempt: Attempt;
  /** Part of the refusal; absent: it is done. */
  readonly refused?: string;
}

let lab: PolicyLab;

Deno.test.beforeAll(async () => {
  lab = await PolicyLab.start("policies");
});

Deno.test.afterAll(async () => {
  await lab[Symbol.asyncDispose]();
});

async function check(t: Deno.TestContext, cases: readonly Case[]) {
  for (const { name, caller, attempt, refused } of cases) {
    await t.step(name, async () => {
      const { status, message } = await lab.attempt(caller, attempt);
      if (refused === undefined) {
        assert.ok(status < 300, `${status} ${message}`);
        return;
      }
      assert.equal(status, 403, message);
      assert.ok(message.includes(refused), message);
    });
  }
}

const remove = (path: string): Attempt => ({ method: "DELETE", path });
const create = (path: string, body: unknown): Attempt => ({
  method: "POST",
  path,
  body,
});
const patch = (path: string, body: unknown): Attempt => ({
  method: "PATCH",
  path,
  body,
});
const release = (name: string): Attempt =>
  patch(`/addressblocks/${name}`, { metadata: { finalizers: [] } });
const relabel = (name: string, labels: Record<string, string>): Attempt =>
  patch(`/addressblocks/${name}`, { metadata: { labels } });

const OTHERS = 'the block belongs to node "node2", and the token to node';
const POLICY = "ValidatingAdmissionPolicy 'coil-node";

Deno.test("a node's coild reaches its own node's blocks alone", async (t) => {
  await lab.block("default-1", "node1");
  await lab.block("default-2", "node2");
  await check(t, [
    {
      name: "it cannot delete another node's block",
      caller: NODE1,
      attempt: remove("/addressblocks/default-2"),
      refused: OTHERS,
    },
    {
      name: "it cannot take the finalizer off another node's block",
      caller: NODE1,
      attempt: release("default-2"),
      refused: OTHERS,
    },
    {
      name: "it cannot make another node's block its own",
      caller: NODE1,
      attempt: relabel("default-2", { "coil.cybozu.com/node": "node1" }),
      refused: OTHERS,
    },
    {
      name: "it cannot give its block to another node",
      caller: NODE1,
      attempt: relabel("default-1", { "coil.cybozu.com/node": "node2" }),
      refused: "changes nothing else",
    },
    {
      name: "it cannot move its block to another pool",
      caller: NODE1,
      attempt: relabel("default-1", { "coil.cybozu.com/pool": "other" }),
      refused: "changes nothing else",
    },
    {
      name: "it cannot keep its block from being freed",
      caller: NODE1,
      attempt: patch("/addressblocks/default-1", {
        metadata: { finalizers: ["coil.cybozu.com", "example.com/forever"] },
      }),
      refused: "changes nothing else",
    },
    {
      name: "a token without a node changes nothing",
      caller: UNBOUND,
      attempt: remove("/addressblocks/default-1"),
      refused: "the token of coild is not bound to a node",
    },
    {
      name: "it can give back its own block: delete,",
      caller: NODE1,
      attempt: remove("/addressblocks/default-1"),
    },
    {
      name: "and take the finalizer off",
      caller: NODE1,
      attempt: release("default-1"),
    },
    {
      name: "the other node still has its block, and can give it back",
      caller: NODE2,
      attempt: remove("/addressblocks/default-2"),
    },
  ]);
});

Deno.test("a node's coild asks for blocks in its own name alone", async (t) => {
  const long = `pool-${"x".repeat(58)}`;
  const dashed = blockRequestName("a-b", "node1");
  const digits = "0123456789abcdef";
  await check(t, [
    {
      name: "it cannot ask for another node",
      caller: NODE1,
      attempt: create(
        "/blockrequests",
        blockRequest("req-default-node2", "node2"),
      ),
      refused:
        'the request is for node "node2", but the token belongs to node "node1"',
    },
    {
      name: "it cannot take the name of another node's request",
      caller: NODE1,
      attempt: create(
        "/blockrequests",
        blockRequest("req-default-node2", "node1"),
      ),
      refused: 'is named "req-default-node1"',
    },
    {
      name: "not by a pool whose name is too long for any check either",
      caller: NODE1,
      attempt: create(
        "/blockrequests",
        blockRequest("req-default-node2", "node1", { pool: "x".repeat(253) }),
      ),
      refused: "the pool name in the request is invalid",
    },
    {
      name: "not by a pool that ends with a dash",
      caller: NODE1,
      attempt: create(
        "/blockrequests",
        blockRequest("req-default---node1", "node1", { pool: "default-" }),
      ),
      refused: "the pool name in the request is invalid",
    },
    {
      name: "nor that of a node whose name ends with its own: big-node1",
      caller: NODE1,
      attempt: create(
        "/blockrequests",
        blockRequest("req-default-big-node1", "node1", { pool: "default-big" }),
      ),
      refused: 'is named "req-default--big-node1"',
    },
    {
      name: "nor that of a node whose name is longer by 17: node1-<16 digits>",
      caller: NODE1,
      attempt: create(
        "/blockrequests",
        blockRequest(`req-default-node1-${digits}`, "node1"),
      ),
      refused: 'is named "req-default-node1"',
    },
    {
      name: "it cannot make its request one that another node watches",
      caller: NODE1,
      attempt: create(
        "/blockrequests",
        blockRequest("req-default-node1", "node1", { label: "node2" }),
      ),
      refused:
        "the label coil.cybozu.com/node of a request must be the node that creates it",
    },
    {
      name: "it cannot hang its request on another Node",
      caller: NODE1,
      attempt: create(
        "/blockrequests",
        blockRequest("req-default-node1", "node1", { owner: "node2" }),
      ),
      refused: "the owner of a request must be the Node that creates it",
    },
    {
      name: "it cannot make a request that nobody can delete",
      caller: NODE1,
      attempt: create(
        "/blockrequests",
        blockRequest("req-default-node1", "node1", {
          finalizer: "example.com/forever",
        }),
      ),
      refused: "a node may not create requests with finalizers",
    },
    {
      name: "a token without a node asks for nothing",
      caller: UNBOUND,
      attempt: create(
        "/blockrequests",
        blockRequest("req-default-node1", "node1"),
      ),
      refused: "the token of coild is not bound to a node",
    },
    {
      name: "it can ask for itself",
      caller: NODE1,
      attempt: create(
        "/blockrequests",
        blockRequest("req-default-node1", "node1", {
          owner: "node1",
          label: "node1",
        }),
      ),
    },
    {
      name: "it can ask by the name that a pool with a dash leads to",
      caller: NODE1,
      attempt: create(
        "/blockrequests",
        blockRequest(dashed, "node1", { pool: "a-b" }),
      ),
    },
    {
      name: "it can ask by another name of its own when its first is taken",
      caller: NODE1,
      attempt: create(
        "/blockrequests",
        blockRequest("req2-default-node1", "node1"),
      ),
    },
    {
      name: "not by another node's other name",
      caller: NODE1,
      attempt: create(
        "/blockrequests",
        blockRequest("req2-default-node2", "node1"),
      ),
      refused: 'is named "req-default-node1"',
    },
    {
      name: "it can ask for a block of a pool with a long name",
      caller: NODE1,
      attempt: create(
        "/blockrequests",
        blockRequest(blockRequestName(long, "node1"), "node1", { pool: long }),
      ),
    },
    {
      name: "another node cannot delete the request",
      caller: NODE2,
      attempt: remove("/blockrequests/req-default-node1"),
      refused:
        'the request is for node "node1", but the token belongs to node "node2"',
    },
    {
      name: "the node itself can",
      caller: NODE1,
      attempt: remove("/blockrequests/req-default-node1"),
    },
  ]);
});

const vpcNode = (
  name: string,
  change: { readonly owner?: string; readonly finalizers?: string[] } = {},
): VpcNode => {
  const { metadata, ...rest } = newVpcNode({
    name: change.owner ?? name,
    uid: "u",
  });
  const finalizers = change.finalizers ?? [];
  return { ...rest, metadata: { ...metadata, name, finalizers } };
};
const writeStatus = (name: string): Attempt => ({
  method: "PATCH",
  path: `/vpcnodes/${name}/status?fieldManager=coild&force=true`,
  contentType: "application/apply-patch+yaml",
  body: {
    apiVersion: "coil.cybozu.com/v2",
    kind: "VPCNode",
    metadata: { name },
    status: { eniCount: 1 },
  },
});

Deno.test("a node's coild writes the VPCNode of its own node alone", async (t) => {
  await check(t, [
    {
      name: "it cannot make another node's",
      caller: NODE1,
      attempt: create("/vpcnodes", vpcNode("node2")),
      refused:
        'the VPCNode is of node "node2", but the token belongs to node "node1"',
    },
    {
      name: "it cannot hang its own on another Node",
      caller: NODE1,
      attempt: create("/vpcnodes", vpcNode("node1", { owner: "node2" })),
      refused: "the owner of a VPCNode must be the Node that creates it",
    },
    {
      name: "it cannot make one that none can delete",
      caller: NODE1,
      attempt: create(
        "/vpcnodes",
        vpcNode("node1", { finalizers: ["example.com/forever"] }),
      ),
      refused: "a node may not create a VPCNode with finalizers",
    },
    {
      name: "a token without a node makes none",
      caller: UNBOUND,
      attempt: create("/vpcnodes", vpcNode("node1")),
      refused: "the token of coild is not bound to a node",
    },
    {
      name: "it can make its own",
      caller: NODE1,
      attempt: create("/vpcnodes", vpcNode("node1")),
    },
    {
      name: "and write its status",
      caller: NODE1,
      attempt: writeStatus("node1"),
    },
    {
      name: "another node cannot",
      caller: NODE2,
      attempt: writeStatus("node1"),
      refused:
        'the VPCNode is of node "node1", but the token belongs to node "node2"',
    },
  ]);
});

Deno.test("webhook-deadlock (cozystack#3125): with all of Coil's objects and none of its programs pods, nodes and pools can be made and changed", async () => {
  const { plane } = lab;
  for (const kind of ["Validating", "Mutating"]) {
    const list = await plane.request(
      "GET",
      `/apis/admissionregistration.k8s.io/v1/${kind.toLowerCase()}webhookconfigurations`,
    ) as { items: unknown[] };
    assert.deepEqual(list.items, [], kind);
  }
  const name = "first-again";
  await plane.apply(
    { apiVersion: "v1", kind: "Node", metadata: { name } },
    {
      apiVersion: "coil.cybozu.com/v2",
      kind: "AddressPool",
      metadata: { name },
      spec: { blockSizeBits: 0, subnets: [{ ipv4: "10.199.0.0/28" }] },
    },
    {
      apiVersion: "v1",
      kind: "Pod",
      metadata: { namespace: "kube-system", name },
      spec: {
        hostNetwork: true,
        containers: [{ name: "main", image: "none" }],
      },
    },
  );
  await plane.kubectl("label", "node", name, "checked=true");
  await plane.kubectl("-n", "kube-system", "delete", "pod", name, "--now");
});

Deno.test("policies hold even where RBAC would allow everything", async (t) => {
  await lab.block("default-22", "node2");
  await lab.plane.apply(blockRequest("req-default-node2", "node2"));
  await lab.plane.apply(vpcNode("node1"));
  await lab.grantAll(NODE1);
  await check(t, [
    {
      name: "coild makes no blocks",
      caller: NODE1,
      attempt: create("/addressblocks", {
        apiVersion: "coil.cybozu.com/v2",
        kind: "AddressBlock",
        metadata: {
          name: "default-9",
          labels: {
            "coil.cybozu.com/pool": "default",
            "coil.cybozu.com/node": "node1",
          },
        },
        index: 9,
        ipv4: "10.2.9.0/27",
      }),
      refused: "blocks are made by coil-controller",
    },
    {
      name: "coild deletes no blocks by the dozen",
      caller: NODE1,
      attempt: remove("/addressblocks"),
      refused: POLICY,
    },
    {
      name: "coild answers no requests",
      caller: NODE1,
      attempt: patch("/blockrequests/req-default-node2/status", {
        status: { addressBlockName: "default-22" },
      }),
      refused: 'the request is for node "node2"',
    },
    {
      name: "coild deletes not even its own VPCNode",
      caller: NODE1,
      attempt: remove("/vpcnodes/node1"),
      refused: "a node may only create its VPCNode and write its status",
    },
    {
      name: "coild hangs its VPCNode on no other Node",
      caller: NODE1,
      attempt: patch("/vpcnodes/node1", { metadata: { ownerReferences: [] } }),
      refused: "a node may only create its VPCNode and write its status",
    },
    {
      name: "coild deletes no requests by the dozen",
      caller: NODE1,
      attempt: remove("/blockrequests"),
      refused: POLICY,
    },
  ]);
});

Deno.test("a gateway writes its own line in the status of its Egress", async (t) => {
  const egress = `/namespaces/${NAMESPACE}/egresses/internet`;
  const entry = (name: string, clients: number): Attempt => ({
    method: "PATCH",
    path: `${egress}/status?fieldManager=${name}&force=true`,
    contentType: "application/apply-patch+yaml",
    body: {
      apiVersion: "coil.cybozu.com/v2",
      kind: "Egress",
      metadata: { name: "internet", namespace: NAMESPACE },
      status: { gateways: [{ name, clients }] },
    },
  });
  const other: Caller = { account: "coil-egress", pod: "coil-egress-node2" };
  await check(t, [
    {
      name: "its own",
      caller: GATEWAY1,
      attempt: entry("coil-egress-node1", 3),
    },
    {
      name: "another its own",
      caller: other,
      attempt: entry("coil-egress-node2", 5),
    },
    {
      name: "its own again",
      caller: GATEWAY1,
      attempt: entry("coil-egress-node1", 4),
    },
    {
      name: "not the other's",
      caller: GATEWAY1,
      attempt: entry("coil-egress-node2", 0),
      refused: 'the entry of its own pod, "coil-egress-node1"',
    },
    {
      name: "not by taking all entries away",
      caller: GATEWAY1,
      attempt: patch(`${egress}/status`, { status: { gateways: [] } }),
      refused: 'the entry of its own pod, "coil-egress-node1"',
    },
    {
      name: "not the controller's part",
      caller: GATEWAY1,
      attempt: patch(`${egress}/status`, { status: { replicas: 9 } }),
      refused: "the rest of the status is coil-controller's",
    },
    {
      name: "not the sources of them all",
      caller: GATEWAY1,
      attempt: patch(`${egress}/status`, {
        status: { sources: ["192.0.2.1"] },
      }),
      refused: "the rest of the status is coil-controller's",
    },
    {
      name: "not which of them are lost",
      caller: GATEWAY1,
      attempt: patch(`${egress}/status`, {
        status: { lostGateways: ["coil-egress-node2"] },
      }),
      refused: "the rest of the status is coil-controller's",
    },
    {
      name: "not what the Egress is to be",
      caller: GATEWAY1,
      attempt: patch(egress, { spec: { destinations: ["10.0.0.0/8"] } }),
      refused: "writes the status of its Egress and nothing else",
    },
    {
      name: "not without a pod",
      caller: { account: "coil-egress" },
      attempt: entry("coil-egress-node1", 1),
      refused: "the token of coil-egress is not bound to a pod",
    },
  ]);
  await t.step("and both lines are there", async () => {
    const { status } = await lab.plane.request(
      "GET",
      `/apis/coil.cybozu.com/v2${egress}`,
    ) as { status: { gateways: { name: string; clients: number }[] } };
    assert.deepEqual(
      status.gateways.map(({ name, clients }) => `${name} ${clients}`),
      ["coil-egress-node1 4", "coil-egress-node2 5"],
    );
  });
});
