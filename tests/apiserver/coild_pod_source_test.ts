// What coild knows of a pod while its cache is behind the API server.
import assert from "node:assert/strict";
import {
  type PodQuery,
  PodSource,
} from "../../roles/coild/cluster/pod_source.ts";
import { NotReadyError } from "../../roles/coild/base/errors.ts";
import { GATEWAY_LABELS } from "../../lib/api/mod.ts";
import { KubeClient } from "../../lib/kube/mod.ts";
import { ControlPlane, eventually } from "../lab/mod.ts";
import { GatedTransport } from "./gated_transport.ts";

const NODE = "node1";
const ASKING = { "egress.coil.cybozu.com/nat": "wide" };

interface NewPod {
  readonly labels?: Readonly<Record<string, string>>;
  readonly annotations?: Readonly<Record<string, string>>;
  readonly node?: string;
}

/** Makes a pod in place of one of that name; returns what a runtime knows of it. */
async function renewPod(
  plane: ControlPlane,
  name: string,
  { labels = {}, annotations = ASKING, node = NODE }: NewPod = {},
): Promise<PodQuery & { readonly uid: string }> {
  const uri = "/api/v1/namespaces/default/pods";
  const now = { gracePeriodSeconds: 0 };
  await plane.request("DELETE", `${uri}/${name}`, now).catch(() => {
    // The first of that name.
  });
  const made = await plane.request("POST", uri, {
    apiVersion: "v1",
    kind: "Pod",
    metadata: { name, labels, annotations },
    spec: {
      nodeName: node,
      containers: [{ name: "main", image: "none" }],
    },
  }) as { readonly metadata: { readonly uid: string } };
  const { uid } = made.metadata;
  return { namespace: "default", name, uid, annotations };
}

Deno.test("coild serves pods of its own node alone, and does not take a client for the gateway that had its name before, nor a gateway for a client", async (t) => {
  await using plane = await ControlPlane.start({ name: "coildpods" });
  const transport = await GatedTransport.open(plane.kubeconfig);
  using client = new KubeClient(transport);
  const source = new PodSource(client, {
    nodeName: NODE,
    pools: false,
    defaultEgresses: false,
  });
  const gateway = await renewPod(plane, "reused", { labels: GATEWAY_LABELS });
  const pod = await renewPod(plane, "other");
  const { signal } = new AbortController();
  {
    const watching = new AbortController();
    const loops = Object.values(source.loops).map((run) =>
      run(watching.signal)
    );
    await source.synced();
    watching.abort();
    await Promise.allSettled(loops);
  }

  await t.step("what the cache has is not asked for", async () => {
    transport.isOpen = false;
    assert.equal((await source.find(gateway, { signal })).isGateway, true);
    assert.equal((await source.find(pod, { signal })).isGateway, false);
    transport.isOpen = true;
  });

  await t.step("a client has a former gateway's name", async () => {
    const later = await renewPod(plane, "reused");
    const { isGateway, uid, from } = await source.find(later, { signal });
    assert.deepEqual(
      { isGateway, uid, from },
      { isGateway: false, uid: later.uid, from: "runtime" },
    );
  });

  await t.step("a gateway has a former client's name", async () => {
    const later = await renewPod(plane, "other", { labels: GATEWAY_LABELS });
    assert.equal((await source.find(later, { signal })).isGateway, true);
  });

  await t.step("a gateway is so new that no cache has it", async () => {
    const later = await renewPod(plane, "new", { labels: GATEWAY_LABELS });
    assert.equal((await source.find(later, { signal })).isGateway, true);
  });

  await t.step(
    "the API server does not answer: what the runtime told is enough for who asks for no egress",
    async () => {
      const later = await renewPod(plane, "plain", { annotations: {} });
      transport.isOpen = false;
      const { isGateway, from } = await source.find(later, { signal });
      assert.deepEqual({ isGateway, from }, {
        isGateway: false,
        from: "runtime",
      });
      transport.isOpen = true;
    },
  );

  await t.step(
    "the API server takes the question and does not answer: what the runtime told is enough after a while",
    async () => {
      const later = await renewPod(plane, "unanswered", { annotations: {} });
      transport.isHeld = true;
      const { from } = await source.find(later, { signal });
      assert.equal(from, "runtime");
      const call = new AbortController();
      const asked = source.find(later, { signal: call.signal });
      call.abort(new Error("called off"));
      await assert.rejects(asked, /called off/);
      transport.isHeld = false;
    },
  );

  await t.step(
    "a static pod, whose object has another UID than the runtime knows",
    async () => {
      const mirror = await renewPod(plane, "static", { annotations: {} });
      const query = { ...mirror, uid: "0123456789abcdef" };
      const { from, uid } = await source.find(query, { signal });
      assert.deepEqual({ from, uid }, { from: "runtime", uid: undefined });
    },
  );

  await t.step(
    "a pod of another node is not served, with or without annotations from the runtime",
    async () => {
      const renewed = { node: "renamed", annotations: {} };
      const told = await renewPod(plane, "moved", renewed);
      const { annotations: _untold, ...untold } = told;
      for (const query of [told, untold]) {
        // One who has given all else is not kept waiting for an API server that takes more than a second.
        await eventually("the refusal", async () => {
          await assert.rejects(
            source.find(query, { signal }),
            (error) =>
              error instanceof NotReadyError &&
              /is scheduled to node "renamed", but this coild serves node "node1"/
                .test(error.message),
          );
          return true;
        });
      }
    },
  );
});
