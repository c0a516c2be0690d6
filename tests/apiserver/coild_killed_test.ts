// coild is killed at each message to and from the kernel and the API server in an ADD and in a DEL: strace does it at the
// n-th one of a thread. Then the runtime ends the pod, or tries again, or only coild's own start is left.
import assert from "node:assert/strict";
import { LINK_ALIAS_PREFIX, POD_TABLE } from "../../lib/names/mod.ts";
import { eventually } from "../lab/mod.ts";
import { spawnProcess } from "../lab/process.ts";
import { type Coild, CoildLab, type Sandbox } from "./coild_lab.ts";
import { addressesInside, assertNoDuplicates } from "./pod_addresses.ts";

const ARGS = ["--cooldown=0s"];
/** What the daemon asks of kernel and API server, and hears of them. */
const STEPS = "sendto,sendmsg,recvfrom,recvmsg,setns";
/** More than an ADD has. */
const MOST = 80;

/** Kills the daemon at the n-th message from now on, unless what is returned is disposed before. */
async function killAt(
  lab: CoildLab,
  coild: Coild,
  n: number,
): Promise<AsyncDisposable> {
  const { pid } = coild.process;
  const tracer = await spawnProcess({
    id: `strace-${pid}`,
    runDir: lab.plane.runDir,
    command: "strace",
    args: [
      ...["-f", "-p", `${pid}`, "-e", `trace=${STEPS}`, "-e"],
      `inject=${STEPS}:signal=KILL:when=${n}`,
    ],
  });
  await eventually("strace to be attached", async () => {
    // It may have had something of its own to say.
    if (!coild.process.isRunning) return true;
    const text = await Deno.readTextFile(`/proc/${pid}/status`);
    return !/^TracerPid:\s*0$/m.test(text);
  });
  return { [Symbol.asyncDispose]: () => tracer.stop().then(() => {}) };
}

/** A DEL is answered before the link goes, which waits for the kernel. */
async function expectGone(pod: Sandbox): Promise<void> {
  const what = `the addresses of ${pod.name} to be gone`;
  await eventually(what, async () => (await addressesInside(pod)).length === 0);
}

/** What the node has of pods: links by alias, and routes to addresses. */
async function traces(coild: Coild): Promise<readonly string[]> {
  const links = JSON.parse(await coild.node.run("ip", "-j", "link")) as {
    ifalias?: string;
  }[];
  const routes = await Promise.all(
    ["-4", "-6"].map((family) =>
      coild.node.run(
        "ip",
        "-j",
        family,
        "route",
        "show",
        "table",
        `${POD_TABLE}`,
      )
        .then((text) => JSON.parse(text) as { dst: string }[], () => [])
    ),
  );
  return [
    ...links.flatMap(({ ifalias = "" }) =>
      ifalias.startsWith(LINK_ALIAS_PREFIX) ? [ifalias] : []
    ),
    ...routes.flat().map(({ dst }) => dst),
  ];
}

/** Runs a call while the daemon is killed at its n-th message; false when it came to its end before. */
async function isCut(
  lab: CoildLab,
  { coild, n, call }: {
    readonly coild: Coild;
    readonly n: number;
    readonly call: () => Promise<unknown>;
  },
): Promise<boolean> {
  await using _killer = await killAt(lab, coild, n);
  return await call().then(() => false, () => true);
}

Deno.test("coild is killed at each message of ADD and DEL: nothing is lost, doubled or left over", async (t) => {
  await using lab = await CoildLab.start({ name: "coildkilled" });
  const node = lab.node();
  await lab.createPool("default", [{
    ipv4: "10.111.0.0/24",
    ipv6: "fd02::111:0/120",
  }], 5);
  await using _controller = await lab.startController();
  let coild = await lab.startCoild(node, ARGS);
  const pods: Sandbox[] = [];
  const restart = async () => {
    await coild.process.kill9();
    coild = await lab.startCoild(node, ARGS);
    await assertNoDuplicates(pods);
  };
  // So that an ADD need not wait for a block.
  const first = await lab.createPod("first");
  await coild.add(first);
  pods.push(first);

  await t.step("ADD", async () => {
    let n = 1;
    for (; n < MOST; n++) {
      const pod = await lab.createPod(`add${n}`);
      pods.push(pod);
      const add = () => coild.add(pod);
      const wasCut = await isCut(lab, { coild, n, call: add });
      // Also where it was killed after its answer, or not at all.
      await restart();
      if (!wasCut) break;
      if (n % 3 === 0) {
        // The runtime gives up.
        await coild.del(pod);
        await expectGone(pod);
      } else if (n % 3 === 1) {
        // The same call once more.
        const addresses = await coild.addresses(pod);
        assert.deepEqual(
          [...await addressesInside(pod)].sort(),
          addresses.sort(),
        );
        await coild.check(pod);
      }
      // Or nothing: what is left is nobody else's until it is collected.
      await assertNoDuplicates(pods);
    }
    assert.ok(n > 3 && n < MOST, `an ADD has ${n - 1} messages`);
  });

  await t.step("DEL", async () => {
    let n = 1;
    for (; n < MOST; n++) {
      const pod = await lab.createPod(`del${n}`);
      pods.push(pod);
      await coild.add(pod);
      const del = () => coild.del(pod);
      const wasCut = await isCut(lab, { coild, n, call: del });
      await restart();
      // Or what is left waits until it is collected.
      if (wasCut && n % 2 === 0) continue;
      // The runtime repeats what had no answer.
      if (wasCut) await coild.del(pod);
      await expectGone(pod);
      if (!wasCut) break;
    }
    assert.ok(n > 1 && n < MOST, `a DEL has ${n - 1} messages`);
  });

  await t.step("what is left is collected, and nothing else", async () => {
    await coild.call("Gc", undefined, { valid: [first] });
    await coild.check(first);
    await eventually("the first pod's network alone", async () => {
      const left = await traces(coild);
      const aliases = left.filter((one) => one.startsWith(LINK_ALIAS_PREFIX));
      const metric = 'coil_coild_addresses{pool="default",state="used"}';
      return aliases.length === 1 && left.length === 3 &&
        await coild.metric(metric) === 1;
    });
    const last = await lab.createPod("last");
    await coild.add(last);
    await coild.check(last);
    await assertNoDuplicates([first, last]);
    await coild.del(last);
    await coild.del(first);
  });
  await coild[Symbol.asyncDispose]();
});
