import assert from "node:assert/strict";
import { ANNOTATION, EgressLab, isServed } from "./coild_egress_lab.ts";

const TEAM = "team";

Deno.test("a namespace's annotation is the default Egress of its pods", async (t) => {
  await using egress = await EgressLab.start("nsegress");
  const { lab, plane } = egress;
  await egress.createEgress("nat", { destinations: ["0.0.0.0/0", "::/0"] });
  await lab.createNamespace(TEAM, { [ANNOTATION]: "nat" });
  let coild = await egress.coild();
  const create = (name: string, annotation?: string) =>
    egress.createClient(name, annotation, { namespace: TEAM });
  const annotate = (value: string | null) =>
    lab.plane.kubectl(
      ...["annotate", "--overwrite", "namespace", TEAM],
      value === null ? `${ANNOTATION}-` : `${ANNOTATION}=${value}`,
    );
  const client = await create("client");
  const out = await create("out", "");

  await t.step(
    "a new pod is a client when its ADD ends, one that opts out is not",
    async () => {
      for (const pod of [client, out]) {
        const ips = await coild.addresses(pod);
        const now = await plane.of(pod);
        assert.equal(now === undefined, pod === out, JSON.stringify(now));
        await egress.setStatus(pod, { ips });
      }
      // Gateways come by a watch, which may be behind the ADD.
      await egress.until("its gateways", client, isServed);
    },
  );

  await t.step(
    "a coild that is killed and starts again leaves both as they are",
    async () => {
      const changes = () =>
        Promise.all([client, out].map((pod) => plane.changes(pod)));
      const before = await changes();
      await coild.process.kill9();
      coild = await egress.coild();
      // Made after the start, so that the others have been looked at when it is done.
      const { pod: later } = await egress.runClient(coild, "later", "nat");
      await egress.annotate(later, null);
      await egress.until("no client", later, (now) => now === undefined);
      assert.notEqual(await plane.of(client), undefined);
      assert.equal(await plane.of(out), undefined);
      const [ofClient = 0, ofOut = 0] = await changes();
      assert.ok(ofClient <= (before[0] ?? 0) + 1, `${before} ${ofClient}`);
      assert.ok(ofOut <= (before[1] ?? 0) + 1, `${before} ${ofOut}`);
    },
  );

  await t.step(
    "pods that run follow the annotation as it goes, comes and names another Egress",
    async () => {
      await annotate(null);
      await egress.until("no client", client, (now) => now === undefined);
      await annotate("nat");
      await egress.until("a client", client, (now) => now !== undefined);
      const [service] = await egress.createEgress("other", {
        destinations: ["192.0.2.0/24"],
      });
      assert.ok(service);
      await annotate("other");
      await egress.until(
        "a client of the other",
        client,
        (now) =>
          now?.routes.some((route) => route.includes("192.0.2.0/24")) === true,
      );
      assert.equal(await plane.of(out), undefined);
    },
  );

  await t.step(
    "a pod does not start without an Egress that its namespace names and that does not exist",
    async () => {
      await annotate("none");
      const late = await create("late");
      await egress.until(
        "what the former Egress took is refused",
        client,
        (now) => now?.routes.includes("118 192.0.2.0/24 refused") === true,
      );
      const error = await coild.refused(coild.add(late));
      assert.match(
        error.message,
        /Egress "[^"]+\/none" does not exist; .*of the pod or of its namespace/,
      );
      await annotate("nat");
      await egress.until(
        "a client",
        client,
        (now) => now?.routes.some((route) => route.endsWith("tunnel")) === true,
      );
      await coild.add(late);
      assert.notEqual(await plane.of(late), undefined);
    },
  );

  await t.step("--enable-namespace-egress=false ends it", async () => {
    await coild.process.kill9();
    coild = await egress.coild(["--enable-namespace-egress=false"]);
    await egress.until("no client", client, (now) => now === undefined);
    const plain = await create("plain");
    await coild.add(plain);
    assert.equal(await plane.of(plain), undefined);
  });
});
