// A machine's Node gets another name while pods run on it. What is right: its
// pods keep their network until the kubelet, which knows them no more, ends
// them; new pods get addresses of blocks of the new name; the old name's blocks
// go back when its Node is gone. They are given out again: here to the same
// machine, which passes over what its old pods have. Another machine could not
// know of these pods, and would give their addresses to its own: no coild runs
// on one here, and docs/roles/coild.md says to drain a node first.
import assert from "node:assert/strict";
import * as path from "node:path";
import { eventually, inNetns, type LabNode } from "../lab/mod.ts";
import { coilCommand, Coild, CoildLab, inPod } from "./coild_lab.ts";
import { patchStatus } from "./patch_status.ts";

const OLD = "node1";
const NEW = "renamed";
const ACCOUNT_DIR = "/var/run/secrets/kubernetes.io/serviceaccount";
const ARGS = ["--low-water=0", "--cooldown=0s", "--block-request-timeout=130s"];

/** Makes the machine's Node under its new name, as its kubelet does, and takes the old one away, as an administrator does. */
async function rename(lab: CoildLab, machine: LabNode): Promise<void> {
  const { plane } = lab;
  await plane.apply({
    apiVersion: "v1",
    kind: "Node",
    metadata: { name: NEW },
  });
  await patchStatus(plane, `/api/v1/nodes/${NEW}`, {
    addresses: machine.addresses.map((address) => ({
      type: "InternalIP",
      address,
    })),
  });
  await plane.request("DELETE", `/api/v1/nodes/${OLD}`);
}

/** coild of the machine under its new name. */
async function startRenamed(lab: CoildLab, machine: LabNode): Promise<Coild> {
  const { plane } = lab;
  const socket = path.join(plane.runDir, `${NEW}.sock`);
  const [command = "", ...first] = coilCommand("coild");
  const process = await plane.startProcess({
    id: `coild-${NEW}`,
    node: machine,
    command,
    args: [...first, `--socket=${socket}`, ...ARGS],
    mounts: [{
      source: await plane.serviceAccountDir({
        namespace: "kube-system",
        name: "coild",
        node: NEW,
      }),
      target: ACCOUNT_DIR,
    }],
    env: { ...plane.inClusterEnv(), COIL_NODE_NAME: NEW },
  });
  const coild = new Coild(machine, process, socket);
  await coild.ready();
  return coild;
}

/** Names of a node's blocks. */
async function blocksOf(lab: CoildLab, node: string): Promise<string[]> {
  const blocks = await lab.list("addressblocks");
  return blocks.map(({ metadata }) => metadata)
    .filter(({ labels }) => labels?.["coil.cybozu.com/node"] === node)
    .map(({ name }) => name);
}

async function reaches(machine: LabNode, address: string): Promise<void> {
  await inNetns(machine.netns, "ping", ["-c1", "-w20", address]);
}

Deno.test("a node is renamed: old pods keep their network, new ones get blocks of the new name", async (t) => {
  await using lab = await CoildLab.start({ name: "renamednode" });
  const machine = lab.node();
  // Four blocks of two addresses; the free one with the lowest number is next.
  await lab.createPool("default", [{ ipv4: "10.126.0.0/29" }], 1);
  await using _controller = await lab.startController(["--node-grace=1s"]);
  const before = await lab.startCoild(machine, ARGS);
  const old = [await lab.createPod("a"), await lab.createPod("b")];
  const addresses: string[] = [];
  for (const pod of old) addresses.push(...await before.addresses(pod));
  assert.equal(addresses.length, 2);
  assert.deepEqual(await blocksOf(lab, OLD), ["default-0"]);
  await before[Symbol.asyncDispose]();

  await rename(lab, machine);
  await using coild = await startRenamed(lab, machine);

  await t.step("old pods are still reached", async () => {
    for (const address of addresses) await reaches(machine, address);
    for (const pod of old) await coild.check(pod);
  });

  await t.step("the old name's blocks go back", async () => {
    await eventually(
      "no block of the old name",
      async () => (await blocksOf(lab, OLD)).length === 0,
    );
  });

  let pods = 0;
  await t.step(
    "new pods get addresses that no old pod of the machine has, although it is given the old block again",
    async () => {
      const used = new Set(addresses);
      const given = async () => (await blocksOf(lab, NEW)).sort();
      for (const name of ["c", "d", "e"]) {
        // A controller that learns late that the old block is free gives it last.
        if (name === "e" && (await given()).includes("default-0")) break;
        pods++;
        await lab.plane.request("POST", "/api/v1/namespaces/default/pods", {
          apiVersion: "v1",
          kind: "Pod",
          metadata: { name },
          spec: {
            nodeName: NEW,
            containers: [{ name: "main", image: "none" }],
          },
        });
        const pod = await lab.createSandbox(name);
        const [address = ""] = await coild.addresses(pod);
        assert.ok(
          !used.has(address),
          `${name} got ${address}, which is in use`,
        );
        used.add(address);
        await reaches(machine, address);
        await inPod(pod, "ip", "link", "show", "eth0");
      }
      for (const address of addresses) await reaches(machine, address);
      // Of the old block's two addresses none is free.
      const expected = ["default-0", "default-1", "default-2"].slice(0, pods);
      assert.deepEqual(await given(), expected);
    },
  );

  await t.step(
    "the kubelet ends the old pods: their addresses are free, the others stay",
    async () => {
      for (const pod of old) {
        await coild.del(pod);
        await coild.del(pod);
      }
      const routes = await inNetns(machine.netns, "ip", [
        ...["route", "show", "table", "116"],
      ]);
      for (const address of addresses) {
        assert.ok(!routes.includes(`${address} `), routes);
      }
      assert.equal(routes.trim().split("\n").length, pods, routes);
    },
  );
});
