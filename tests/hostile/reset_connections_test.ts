import assert from "node:assert/strict";
import { CoildLab, inPod } from "../apiserver/coild_lab.ts";
import { eventually } from "../lab/mod.ts";

const RESETS = new URL("./resets_main.ts", import.meta.url).pathname;
const GATEWAY = new URL("./gateway_main.ts", import.meta.url).pathname;

/** Waiting in the queue when the first is accepted; then so many a second. */
const BURST = 300;
const RATE = 100;

/** Asked one after the other while the attack goes on. */
const ROUNDS = 10;

Deno.test("a pod that resets its connections before they are accepted keeps nobody else waiting", async () => {
  await using lab = await CoildLab.start({ name: "resets" });
  await lab.createPool("default", [{ ipv4: "10.102.0.0/26" }]);
  lab.granter.start();
  const node = lab.node();
  await using coild = await lab.startCoild();
  await using gateway = await lab.plane.startProcess({
    id: "gateway",
    node,
    command: Deno.execPath(),
    args: ["run", "--no-check", "-A", GATEWAY, lab.plane.kubeconfig],
  });
  const pod = await lab.createPod("attacker");
  const other = await lab.createPod("other");
  for (const sandbox of [pod, other]) await coild.add(sandbox);
  const [host] = node.addresses;
  const metrics = `http://${host}:9384/metrics`;
  const health = `http://${host}:8081/healthz`;
  const get = (url: string) => inPod(other, "curl", "-sf", "-m100", url);
  await eventually("the gateway to serve", async () => {
    return await get(health) === "ok";
  });

  await using attack = await lab.plane.startProcess({
    id: "attack",
    netns: pod.netns,
    command: Deno.execPath(),
    args: [
      ...["run", "--no-check", "-A", RESETS, String(BURST), String(RATE)],
      ...[`${host}:9384`, `${host}:8081`, `${host}:8082`],
    ],
  });
  await eventually("the attack", async () => {
    const logs = await attack.logs();
    assert.ok(attack.isRunning, logs);
    return Number(/^reset (\d+)$/m.exec(logs)?.[1]) > BURST;
  });

  for (let round = 0; round < ROUNDS; round++) {
    assert.match(await get(metrics), /coil_coild_/);
    assert.equal(await get(health), "ok");
  }
  assert.ok(attack.isRunning, await attack.logs());
  for (const daemon of [coild.process, gateway]) {
    assert.doesNotMatch(await daemon.logs(), /Cannot accept connections/);
  }
});
