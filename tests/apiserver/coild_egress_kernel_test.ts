// coild as it is shipped, on this machine's kernel: with tunnels or without.
import assert from "node:assert/strict";
import { prepareKernel } from "../../lib/egress/mod.ts";
import { openLibc } from "../../lib/linux/mod.ts";
import { FouUnsupportedError } from "../../lib/netlink/mod.ts";
import { pathOf } from "../executable/testing.ts";
import { eventually } from "../lab/mod.ts";
import { assertRefused, EgressLab } from "./coild_egress_lab.ts";
import { inPod } from "./coild_lab.ts";

openLibc(); // stays open, so it must not be counted as the test's leak

async function kernelProblem(): Promise<string | undefined> {
  try {
    await prepareKernel(["ipv4", "ipv6"]);
    return undefined;
  } catch (error) {
    if (error instanceof FouUnsupportedError) return error.message;
    throw error;
  }
}

Deno.test("the shipped coild serves pods on this kernel, and clients if it can make tunnels", async () => {
  const problem = await kernelProblem();
  await using egress = await EgressLab.start("coildkernel");
  const { lab } = egress;
  const executable = await pathOf("coild");
  const coild = await lab.startCoild(lab.node(), [], { command: [executable] });
  await egress.createEgress("nat", { destinations: ["0.0.0.0/0", "::/0"] });
  const plain = await egress.createClient("plain", undefined);
  await coild.add(plain);
  await inPod(plain, "ping", "-c1", "-w20", lab.node().addresses[0] ?? "");
  await coild.del(plain);
  const pod = await egress.createClient("client", "nat");
  const said = async () =>
    (await coild.process.logs()).split("\n").filter((line) =>
      line.includes("This kernel does not support egress clients")
    );
  if (problem === undefined) {
    await coild.add(pod);
    assert.match(await inPod(pod, "ip", "-br", "link"), /fou4_[0-9a-f]{8}/);
    await coild.check(pod);
    await coild.del(pod);
    assert.deepEqual(await said(), []);
  } else {
    await eventually("the record", async () => (await said()).length > 0);
    await assertRefused(egress, {
      coild,
      pod,
      message: /Foo-over-UDP.*kernel/,
    });
    assert.equal((await inPod(pod, "ip", "rule")).includes("117"), false);
    const message = await egress.event(pod, "EgressUnsupported");
    assert.match(message, /modules-load/);
    assert.equal((await said()).length, 1);
  }
  await coild[Symbol.asyncDispose]();
});
