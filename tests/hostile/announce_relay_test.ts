// A tenant's gateway keeps the token that coild shows it and tries it at
// another tenant's gateway and at the API server; a thief of one node's token
// announces addresses of others, and asks for other nodes' tokens.
import assert from "node:assert/strict";
import {
  type AnnouncedClient,
  postAnnouncement,
} from "../apiserver/announcing.ts";
import { ANNOUNCE_PATH } from "../../lib/announce/mod.ts";
import { ANNOUNCE_PORT } from "../../lib/names/mod.ts";
import { eventually } from "../lab/mod.ts";
import { MACHINE_HOST } from "../lab/network.ts";
import { EgressLab } from "../apiserver/coild_egress_lab.ts";
import type { Coild } from "../apiserver/coild_lab.ts";
import {
  CLIENT,
  EgressLab as GatewayLab,
  type RunningGateway,
  untilReady,
} from "../apiserver/egress_gateway_lab.ts";

const ACCOUNTS = "/api/v1/namespaces/kube-system/serviceaccounts";

let tenant: EgressLab;
let gateways: GatewayLab;
let http: Deno.HttpClient;
let coild: Coild;
/** The pod that coild on node 1 runs in. */
let own: { readonly name: string; readonly uid: string };

async function request(
  path: string,
  token: string,
  body?: unknown,
): Promise<{ readonly status: number; readonly message: string }> {
  const response = await fetch(`${tenant.lab.plane.url}${path}`, {
    method: body === undefined ? "GET" : "POST",
    client: http,
    headers: {
      authorization: `Bearer ${token}`,
      "content-type": "application/json",
    },
    ...(body !== undefined && { body: JSON.stringify(body) }),
  });
  const text = await response.text();
  return { status: response.status, message: response.ok ? "" : text };
}

/** Sends an announcement, again while the gateway has had no time to learn of the client or to ask whose token it is; status and body of the answer. */
async function announced(
  gateway: RunningGateway,
  client: AnnouncedClient,
): Promise<string> {
  return await eventually("an answer of the gateway", async () => {
    const response = await postAnnouncement(gateway.announceUrl, client);
    const text = await response.text();
    const isEarly = [404, 503].includes(response.status);
    return !isEarly && `${response.status} ${text}`;
  });
}

/** Announces an address of a real client on node 1. */
async function announce(
  gateway: RunningGateway,
  client: Omit<AnnouncedClient, "name">,
): Promise<string> {
  return await announced(gateway, { name: "victim", ...client });
}

async function relayTheToken(): Promise<void> {
  const { lab } = tenant;
  const machine = lab.plane.subnet.address("ipv4", MACHINE_HOST);
  const caught: { token: string; block?: string; address: string }[] = [];
  const rogue = Deno.serve(
    { hostname: machine, port: ANNOUNCE_PORT, onListen: () => {} },
    async (request) => {
      const { pathname } = new URL(request.url);
      assert.equal(pathname, ANNOUNCE_PATH);
      const { block, addresses } = await request.json();
      const token = request.headers.get("authorization")?.slice(7) ?? "";
      caught.push({ token, block, address: addresses[0] });
      return new Response(null, { status: 204 });
    },
  );
  await tenant.createEgress("trap", { destinations: ["0.0.0.0/0"] }, [
    { address: machine, pod: "rogue" },
  ]);
  await coild.add(await tenant.createClient("bait", "trap"));
  // A busy machine may read it when coild no longer waits for the answer.
  const loot = await eventually(
    "coild to tell the rogue gateway of its client",
    () => caught.at(0),
  );
  await rogue.shutdown();

  await using gateway = await gateways.startGateway();
  await untilReady(gateway);
  const uid = await gateways.createPod("victim", {
    annotations: CLIENT,
    node: lab.node().name,
  });
  for (const address of [loot.address, "10.66.6.6", "8.8.8.8"]) {
    const message = { ...loot, uid, address };
    assert.match(await announce(gateway, message), /^401/);
  }
  assert.equal(gateway.kernel.clients.size, 0);
  const asApi = await request("/api/v1/namespaces", loot.token);
  assert.equal(asApi.status, 401, asApi.message);
}

async function announceStrangeAddresses(): Promise<void> {
  const { lab } = tenant;
  await using gateway = await gateways.startGateway({
    pod: "internet-1",
    confirmMs: 3_600_000,
  });
  await untilReady(gateway);
  const uid = await gateways.createPod("victim-2", {
    annotations: CLIENT,
    node: lab.node().name,
  }).then(async (uid) => {
    await eventually("the client", async () => {
      const [line] = await gateway.metrics("coil_egress_client_pod_count");
      return !line?.endsWith(" 0");
    });
    return uid;
  });
  await gateways.createBlock("default-66", "node2");
  const [block] = await lab.blocks("default");
  const token = await gateways.token({ pod: own.name });
  const attempts = [
    ["8.8.8.8", block],
    ["10.66.6.6", block],
    ["10.66.6.6", "default-66"],
    ["10.66.6.6", "none-1"],
    ["10.150.0.9", undefined],
  ] as const;
  const send = (address: string, block: string | undefined) =>
    announced(gateway, { token, name: "victim-2", uid, address, block });
  for (const [address, block] of attempts) {
    assert.match(await send(address, block), /^403 /);
  }
  assert.equal(gateway.kernel.clients.size, 0);
  assert.match(await send("10.150.0.9", block), /^204 /);
  assert.deepEqual([...gateway.kernel.clients], ["10.150.0.9"]);
}

async function askForTokens(t: Deno.TestContext): Promise<void> {
  const { lab } = tenant;
  const other = await lab.coildPod("node2");
  const stolen = await lab.plane.serviceAccountToken({
    namespace: "kube-system",
    name: "coild",
    pod: own,
  });
  const unbound = await lab.plane.serviceAccountToken({
    namespace: "kube-system",
    name: "coild",
  });
  const bound = (
    { name, uid }: { readonly name: string; readonly uid?: string },
  ) => ({
    audiences: ["coil-egress/nat/internet"],
    boundObjectRef: { apiVersion: "v1", kind: "Pod", name, uid },
  });
  const good = bound(own);
  const ask = (spec: unknown, { token = stolen, account = "coild" } = {}) =>
    request(`${ACCOUNTS}/${account}/token`, token, {
      apiVersion: "authentication.k8s.io/v1",
      kind: "TokenRequest",
      spec,
    });
  await eventually("the policy to be in force", async () => {
    const { message } = await ask(bound(other));
    return message.includes("ValidatingAdmissionPolicy");
  });
  // What RBAC refuses already: the policy must do it without its help.
  await lab.plane.apply({
    apiVersion: "rbac.authorization.k8s.io/v1",
    kind: "ClusterRoleBinding",
    metadata: { name: "far-too-much" },
    roleRef: {
      apiGroup: "rbac.authorization.k8s.io",
      kind: "ClusterRole",
      name: "cluster-admin",
    },
    subjects: [
      { kind: "ServiceAccount", namespace: "kube-system", name: "coild" },
    ],
  });
  await eventually("the role to be in force", async () => {
    const { message } = await ask(good, { account: "coil-controller" });
    return message.includes("ValidatingAdmissionPolicy");
  });
  const POD = /bound to its own pod/;
  const GATEWAYS = /gateways of one Egress/;
  const wrong: readonly [
    string,
    unknown,
    RegExp,
    Parameters<typeof ask>[1]?,
  ][] = [
    ["bound to another node's coild", bound(other), POD],
    ["bound to its own pod by name alone", bound({ name: own.name }), POD],
    ["bound to nothing", { ...good, boundObjectRef: undefined }, POD],
    ["bound to a node", {
      ...good,
      boundObjectRef: { apiVersion: "v1", kind: "Node", name: "node2" },
    }, POD],
    ["for the API server", { ...good, audiences: undefined }, GATEWAYS],
    [
      "for the gateways of all",
      { ...good, audiences: ["coil-egress"] },
      GATEWAYS,
    ],
    ["for others beside a gateway", {
      ...good,
      audiences: ["coil-egress/nat/internet", "vault"],
    }, GATEWAYS],
    ["for a year", { ...good, expirationSeconds: 31_536_000 }, /one hour/],
    ["of another account", good, /own service account/, {
      account: "coil-controller",
    }],
    ["with a token of no pod", good, /not bound to a pod/, { token: unbound }],
  ];
  for (const [what, spec, reason, options] of wrong) {
    await t.step(what, async () => {
      const { status, message } = await ask(spec, options);
      assert.ok(status >= 400, what);
      assert.match(message, reason);
      assert.match(message, /coil-announce-tokens/);
    });
  }
  await t.step("its own it gets", async () => {
    const { status, message } = await ask(good);
    assert.equal(status, 201, message);
  });
}

Deno.test("an announcement gives neither gateways nor thieves of a node's token more than that node has", async (t) => {
  await using egress = await EgressLab.start("announcerelay");
  tenant = egress;
  const { plane } = egress.lab;
  gateways = await GatewayLab.on(plane);
  using client = Deno.createHttpClient({ caCerts: [plane.ca] });
  http = client;
  await using daemon = await egress.coild([], { ownPod: true });
  coild = daemon;
  const path = "/api/v1/namespaces/kube-system/pods/coild-node1";
  own = (await plane.request("GET", path) as { metadata: typeof own }).metadata;
  await t.step(
    "a gateway cannot use coild's token at another tenant's gateway, nor at the API server",
    relayTheToken,
  );
  await t.step(
    "anyone who has a node's token cannot make clients of addresses that the node does not have",
    announceStrangeAddresses,
  );
  await t.step(
    "a stolen token of one coild gets no token of another node, pod, account or server",
    askForTokens,
  );
});
