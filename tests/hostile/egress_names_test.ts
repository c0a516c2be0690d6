// A tenant annotates pods with 200 KB of Egress names, new pods and running
// ones. coild says what is wrong in a few words, and serves the others.
import assert from "node:assert/strict";
import { eventually } from "../lab/mod.ts";
import { EgressLab } from "../apiserver/coild_egress_lab.ts";

/** The longest that a record may be: a tenant must not fill the node's disk with a few pods. */
const MAX_LINE = 20_000;
/** A pod's annotations have room for 256 KiB. */
const BYTES = 200_000;

const MANY = Array.from({ length: 20_000 }, (_, n) => `egress-${n}`).join();
const ATTACKS = {
  "one name of 200 KB": "a".repeat(BYTES),
  "20,000 names": MANY,
  "200 KB of control characters": "\u0001".repeat(BYTES),
  "a path": "../../../../api/v1/secrets",
};

Deno.test("a pod annotated with 200 KB of Egress names fills no log and stops nobody", async (t) => {
  await using egress = await EgressLab.start("egressnames");
  await egress.createEgress("good", { destinations: ["0.0.0.0/0"] });
  await using coild = await egress.coild();
  const running = await egress.createClient("running", "good");
  await coild.add(running);
  const pods = Object.entries(ATTACKS);
  for (const [n, [what, value]] of pods.entries()) {
    await t.step(`${what}, on a new pod`, async () => {
      const pod = await egress.createClient(`new-${n}`, value);
      const error = await coild.refused(coild.add(pod));
      assert.match(error.message, /Cannot make the pod an egress client/);
      assert.ok(error.message.length < 800, `${error.message.length}`);
      assert.equal(error.status, "FailedPrecondition");
      const event = await egress.event(pod, "EgressInvalid");
      assert.ok(event.length < 800);
    });
    await t.step(`${what}, on a client that runs`, async () => {
      const pod = await egress.createClient(`old-${n}`, "good");
      await coild.add(pod);
      await egress.annotate(pod, value);
      const event = await egress.event(pod, "EgressInvalid");
      assert.match(event, /correct the pod's annotation/);
      assert.ok(event.length < 800);
      assert.ok(await egress.plane.of(pod), "it stays the client that it was");
      await egress.annotate(pod, null);
      await egress.until("no client", pod, (client) => client === undefined);
    });
  }
  await t.step("the others are served, and the log is short", async () => {
    await coild.check(running);
    await coild.add(await egress.createClient("later", "good"));
    const lines = (await coild.process.logs()).split("\n");
    const longest = Math.max(...lines.map((line) => line.length));
    assert.ok(longest < MAX_LINE, `a line of ${longest} characters`);
    const bytes = lines.join("\n").length;
    assert.ok(bytes < 200_000, `${bytes} bytes of log`);
    await eventually("few failures", async () => {
      const failed = 'coil_coild_egress_updates_total{result="error"}';
      return (await coild.metric(failed) ?? 0) < 10;
    });
  });
});
