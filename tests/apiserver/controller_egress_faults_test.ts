import assert from "node:assert/strict";
import { awaitedLater, eventually } from "../lab/mod.ts";
import { EgressLab, IMAGE } from "./controller_egress_lab.ts";

const KEY = "internet/nat";

Deno.test("coil-controller's gateways get over a change of the leader and a dead API server", async (t) => {
  await using lab = await EgressLab.start("ctlfaults", ["corp", "internet"]);
  const start = () => lab.startController(`--egress-image=${IMAGE}`);
  await using stack = new AsyncDisposableStack();
  const first = stack.use(start());

  await t.step(
    "Egresses that come while the leader changes are all served",
    async () => {
      await lab.create(KEY);
      await lab.awaitDeployment(KEY, "exists");
      stack.use(start());
      const names = Array.from({ length: 10 }, (_, i) => `corp/nat${i}`);
      const created = awaitedLater((async () => {
        for (const name of names) await lab.create(name);
      })());
      await first[Symbol.asyncDispose]();
      await created;
      for (const name of names) {
        await lab.awaitDeployment(name, "exists");
        await eventually(`Service ${name}`, () => lab.service(name));
        await lab.awaitCondition(name, "Progressing", "True RollingOut");
        // Made once, by one of the two.
        const { metadata } = await lab.deployment(name);
        assert.equal(metadata.generation, 1, name);
      }
      await eventually(
        "both subjects",
        async () =>
          (await lab.subjectsOf("coil-egress")).join() === "corp,internet",
      );
    },
  );

  await t.step(
    "what changed while the API server was dead is put right",
    async () => {
      const before = await lab.service(KEY);
      await lab.restartApiServer();
      await lab.change(KEY, { replicas: 4 });
      await lab.awaitDeployment(
        KEY,
        "4 replicas",
        ({ spec }) => spec.replicas === 4,
      );
      await lab.delete("corp/nat0");
      await lab.plane.kubectl("-n", "internet", "delete", "service/nat");
      await eventually("the new Service", async () => {
        const { metadata } = await lab.service(KEY);
        return metadata?.uid !== before.metadata?.uid;
      });
      for (let i = 1; i < 10; i++) await lab.delete(`corp/nat${i}`);
      await eventually(
        "one subject",
        async () => (await lab.subjectsOf("coil-egress")).join() === "internet",
      );
    },
  );
});
