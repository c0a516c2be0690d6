import assert from "node:assert/strict";
import { eventually } from "../lab/mod.ts";
import { CoildLab, inPod, type Sandbox } from "./coild_lab.ts";

const ARGS = ["--cooldown=0s", "--addressblock-gc-interval=1s"];
/** So that the first step sees what the start does, not the comparison. */
const SLOW = ["--cooldown=0s", "--addressblock-gc-interval=1h"];

Deno.test("coild makes good an emptied pod table", async (t) => {
  await using lab = await CoildLab.start({ name: "coildrepair" });
  const node = lab.node();
  await lab.createPool("default", [{
    ipv4: "10.120.0.0/24",
    ipv6: "fd02::120:0/120",
  }], 3);
  lab.granter.start();
  let coild = await lab.startCoild(node, SLOW);
  const pods: Sandbox[] = [];
  const living = new Set<string>();
  for (const name of ["r0", "r1", "r2"]) {
    const pod = await lab.createPod(name);
    for (const address of await coild.addresses(pod)) living.add(address);
    pods.push(pod);
  }
  const before = await podTable();

  async function podTable(): Promise<string[]> {
    const tables = await Promise.all(
      ["-4", "-6"].map((family) =>
        node.run("ip", family, "route", "show", "table", "116")
      ),
    );
    return tables.join("\n").split("\n").map((line) => line.trim())
      .filter((line) => line !== "").sort();
  }

  async function flush(...families: string[]): Promise<void> {
    for (const family of families) {
      await node.run("ip", family, "route", "flush", "table", "116");
    }
  }

  async function assertWhole(): Promise<void> {
    assert.deepEqual(await podTable(), before);
    for (const pod of pods) await coild.check(pod);
    for (const address of living) {
      await node.run("ping", "-c1", "-w20", address);
    }
  }

  await t.step(
    "emptied while coild is away: no address is given out again, and the routes come back",
    async () => {
      await coild.process.kill9();
      await flush("-4", "-6");
      coild = await lab.startCoild(node, SLOW);
      const late: Sandbox[] = [];
      for (const name of ["n0", "n1", "n2", "n3", "n4"]) {
        const pod = await lab.createPod(name);
        for (const address of await coild.addresses(pod)) {
          assert.ok(!living.has(address), `${address} is given out twice`);
        }
        late.push(pod);
      }
      for (const pod of late) await coild.del(pod);
      await eventually("the routes of the others to be gone", async () => {
        return (await podTable()).length === before.length;
      });
      await assertWhole();
    },
  );

  for (const families of [["-4"], ["-6"]]) {
    await t.step(
      `one family (${families}) emptied while coild is away: its routes come back`,
      async () => {
        await coild.process.kill9();
        await flush(...families);
        coild = await lab.startCoild(node, SLOW);
        await assertWhole();
      },
    );
  }

  await t.step(
    "emptied while coild runs: the next comparison restores the routes",
    async () => {
      await coild.stop();
      coild = await lab.startCoild(node, ARGS);
      await flush("-4", "-6");
      await eventually(
        "the routes to come back",
        async () => (await podTable()).length === before.length,
      );
      await assertWhole();
      // What watches the kernel may have been quicker.
      const compared = 'coil_coild_reconciliations_total{result="ok"}';
      await eventually(
        "a comparison",
        async () => (await coild.metric(compared) ?? 0) > 0,
      );
    },
  );

  await t.step(
    "an address that a pod claims beside its own is not believed",
    async () => {
      const [first, second] = pods;
      assert.ok(first && second);
      const stolen = [...living][2] ?? "";
      await inPod(first, "ip", "addr", "add", `${stolen}/32`, "dev", "eth0");
      await coild.process.kill9();
      await flush("-4", "-6");
      coild = await lab.startCoild(node, ARGS);
      await assertWhole();
    },
  );

  await coild.stop();
});
