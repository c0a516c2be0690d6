import assert from "node:assert/strict";
import {
  type Coild,
  CoildLab,
  inPod,
  type Sandbox,
} from "../apiserver/coild_lab.ts";
import { eventually } from "../lab/mod.ts";

const ANNOTATION = "coil.cybozu.com/any-source";
const LABEL = "coil.cybozu.com/allow-any-source";
const ASKING = { [ANNOTATION]: "true" };
const POLICY =
  new URL("../../docs/examples/any_source_policy.yaml", import.meta.url)
    .pathname;

/** Source that the pod sends from; the node has no route to it. */
const FORGED = "203.0.113.9";

Deno.test("only pods of namespaces that an administrator labelled may send from any source", async (t) => {
  await using lab = await CoildLab.start({ name: "hostileanysource" });
  const node = lab.node();
  await lab.createPool("default", [{ ipv4: "10.141.0.0/24" }]);
  for (const name of ["plain", "routers"]) await lab.createNamespace(name);
  await label("routers", "true");
  lab.granter.start();
  let coild = await lab.startCoild(node);

  async function label(namespace: string, value: string | null): Promise<void> {
    await lab.plane.kubectl(
      ...["label", "--overwrite", "namespace", namespace],
      value === null ? `${LABEL}-` : `${LABEL}=${value}`,
    );
  }

  async function annotate(
    { namespace, name }: Sandbox,
    value: string | null,
  ): Promise<void> {
    await lab.plane.kubectl(
      ...["-n", namespace, "annotate", "--overwrite", "pod", name],
      value === null ? `${ANNOTATION}-` : `${ANNOTATION}=${value}`,
    );
  }

  /** As a kubelet reports it: by the addresses coild knows the pod of a link. */
  async function report(pod: Sandbox, podIP: string): Promise<void> {
    const status = { phase: "Running", podIP, podIPs: [{ ip: podIP }] };
    await lab.plane.kubectl(
      ...["-n", pod.namespace, "patch", "pod", pod.name],
      ...["--subresource=status", "--type=merge"],
      ...["-p", JSON.stringify({ status })],
    );
  }

  async function addPod(
    namespace: string,
    name: string,
    annotations: Record<string, string>,
  ): Promise<Sandbox> {
    const pod = await lab.createPod(name, { namespace, annotations });
    const [address = ""] = await coild.addresses(pod);
    await report(pod, address);
    await inPod(pod, "ip", "addr", "add", `${FORGED}/32`, "dev", "lo");
    return pod;
  }

  /** Whether the node's own server sees the pod's forged packet: one of these counters counts it. */
  async function canForge(pod: Sandbox): Promise<boolean> {
    await node.run("nft", "reset", "counters", "table", "inet", "seen");
    await inPod(pod, "ping", "-c1", "-w20", "169.254.1.1");
    await inPod(pod, "sh", "-c", `ping -c1 -W1 -I ${FORGED} 169.254.1.1; true`);
    const text = await node.run("nft", "list", "table", "inet", "seen");
    return !/packets 0 /.test(text);
  }

  async function eventuallyForges(
    pod: Sandbox,
    expected: boolean,
  ): Promise<void> {
    await eventually(
      `pod ${pod.name} ${expected ? "to" : "not to"} forge`,
      async () => await canForge(pod) === expected,
    );
  }

  async function eventsOf({ name }: Sandbox): Promise<string> {
    return await lab.plane.kubectl(
      ...["get", "events", "-A", "--field-selector"],
      `involvedObject.name=${name},reason=AnySourceRefused`,
      ...["-o", "jsonpath={.items[*].message}"],
    );
  }

  await node.run(
    "nft",
    [
      "table inet seen { counter seen { };",
      "chain input { type filter hook input priority 0;",
      `ip saddr ${FORGED} counter name seen; }; }`,
    ].join(" "),
  );

  let tenant: Sandbox;
  await t.step(
    "a tenant's annotation has no effect, and an Event says so",
    async () => {
      tenant = await addPod("plain", "tenant", ASKING);
      assert.equal(await canForge(tenant), false);
      const text = await eventually(
        "the Event",
        async () => await eventsOf(tenant) || undefined,
      );
      assert.match(text, /kubectl label namespace plain .*=true/);
      const other = await addPod("plain", "quiet", {});
      await annotate(other, "true");
      await eventually("the Event", async () => await eventsOf(other) !== "");
      assert.equal(await canForge(other), false);
    },
  );

  let router: Sandbox;
  await t.step(
    "where it is allowed it holds from ADD on, and for that pod alone",
    async () => {
      router = await addPod("routers", "router", ASKING);
      assert.equal(await canForge(router), true);
      assert.equal(await canForge(await addPod("routers", "none", {})), false);
      assert.equal(await eventsOf(router), "");
      await coild.check(router);
    },
  );

  await t.step("permission comes and goes while pods run", async () => {
    await label("routers", null);
    await eventuallyForges(router, false);
    await label("routers", "true");
    await eventuallyForges(router, true);
    await annotate(router, null);
    await eventuallyForges(router, false);
    await annotate(router, "true");
    await eventuallyForges(router, true);
    await eventually("the count", async () => await metricOf(coild) === 1);
    assert.equal(await canForge(tenant), false);
  });

  await t.step(
    "what changes while coild is away holds afterwards",
    async () => {
      await coild.process.kill9();
      assert.equal(await canForge(router), true);
      await label("routers", null);
      await label("plain", "true");
      coild = await lab.startCoild(node);
      await eventuallyForges(router, false);
      await eventuallyForges(tenant, true);
    },
  );

  await t.step("the example of a policy refuses the annotation", async () => {
    await lab.plane.kubectl("apply", "-f", POLICY);
    const create = (namespace: string, name: string) =>
      lab.createPod(name, { namespace, annotations: ASKING });
    await eventually("the policy", async () => {
      const name = `p${crypto.randomUUID().slice(0, 8)}`;
      const refused = await create("routers", name)
        .then(() => "", (error: Error) => error.message);
      return /does not have label coil.cybozu.com\/allow-any-source=true/
        .test(refused);
    });
    await create("plain", "allowed");
    await assert.rejects(() => annotate(router, "yes"), /does not have label/);
    await annotate(router, null);
  });

  await coild.process.stop({ graceMs: 25_000 });
});

function metricOf(coild: Coild): Promise<number | undefined> {
  return coild.metric("coil_coild_any_source_pods");
}
