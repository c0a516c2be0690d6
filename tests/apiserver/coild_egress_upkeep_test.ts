// What coild finds out by itself about its clients: damage that nobody tells of,
// and gateways that are annotated as clients.
import assert from "node:assert/strict";
import type { Sandbox } from "./coild_lab.ts";
import { ANNOTATION, EgressLab } from "./coild_egress_lab.ts";

const WIDE = { destinations: ["0.0.0.0/0", "::/0"] };

async function label(
  { lab }: EgressLab,
  { namespace, name }: Sandbox,
): Promise<void> {
  const labels = {
    "app.kubernetes.io/name": "coil",
    "app.kubernetes.io/component": "egress",
    "app.kubernetes.io/instance": "wide",
  };
  await lab.plane.request(
    "PATCH",
    `/api/v1/namespaces/${namespace}/pods/${name}`,
    { metadata: { labels } },
    { contentType: "application/merge-patch+json" },
  );
}

Deno.test("coild looks after its egress clients by itself", async (t) => {
  await using egress = await EgressLab.start("coildupkeep");
  const { lab, plane } = egress;
  const coild = await egress.coild(["--addressblock-gc-interval=1s"]);
  await egress.createEgress("wide", WIDE);

  await t.step(
    "a client that a program in its pod has damaged is mended, though nothing changed and nobody asked",
    async () => {
      const { pod } = await egress.runServed(coild, "damaged", "wide");
      const { ino } = await Deno.stat(`/run/netns/${pod.netns}`);
      const file = `${plane.dir}/${ino}.json`;
      const before = await Deno.readTextFile(file);
      await Deno.writeTextFile(
        file,
        before.replaceAll("0.0.0.0/0", "9.9.9.0/24"),
      );
      await egress.until(
        "its routes again",
        pod,
        (now) =>
          now?.routes.some((route) => route.includes("0.0.0.0/0")) === true,
      );
      assert.equal(await Deno.readTextFile(file), before);
      await coild.del(pod);
      await lab.deletePod(pod);
    },
  );

  await t.step(
    "a running gateway that is annotated as a client is refused with an Event, and stays as it is",
    async () => {
      const gateway = await lab.createPod("gateway");
      await label(egress, gateway);
      const ips = await coild.addresses(gateway);
      await egress.setStatus(gateway, { ips });
      await egress.annotate(gateway, "wide");
      const message = await egress.event(gateway, "EgressRefused");
      assert.match(
        message,
        /is a gateway of an Egress, which cannot be a client/,
      );
      assert.ok(message.includes(`"${ANNOTATION}"`), message);
      // Who comes later is a client by now.
      const { pod: client } = await egress.runClient(coild, "client", "wide");
      assert.equal(await plane.changes(client), 1);
      assert.equal(await plane.changes(gateway), 0);
      await egress.annotate(gateway, null);
      await coild.check(gateway);
      await coild.del(client);
      await coild.del(gateway);
      await lab.deletePod(client);
      await lab.deletePod(gateway);
    },
  );

  await t.step(
    "a gateway that is annotated before it starts does start, and is no client",
    async () => {
      const gateway = await egress.createClient("early", "wide");
      await label(egress, gateway);
      await egress.event(gateway, "EgressRefused");
      const ips = await coild.addresses(gateway);
      await egress.setStatus(gateway, { ips });
      await coild.check(gateway);
      assert.equal(await plane.changes(gateway), 0);
      await coild.del(gateway);
      await lab.deletePod(gateway);
    },
  );

  await t.step(
    "a container that is added again without the annotation keeps nothing of the client that it was",
    async () => {
      const { pod } = await egress.runClient(coild, "again", "wide");
      await coild.del(pod);
      await egress.annotate(pod, null);
      // It knows neither the annotation that was there nor what it had made.
      await coild.process.kill9();
      const next = await egress.coild(["--addressblock-gc-interval=1s"]);
      await egress.setStatus(pod, { ips: await next.addresses(pod) });
      await egress.until("no tunnels", pod, (now) => now === undefined);
      assert.equal(await plane.changes(pod), 2);
      await next.del(pod);
      await lab.deletePod(pod);
    },
  );
});
