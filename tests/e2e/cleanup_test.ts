// A run of these tests that is cut short leaves nothing on the machine.
import assert from "node:assert/strict";
import * as path from "node:path";
import { TextLineStream } from "../lab/lines.ts";
import { eventually, labDir, listNetns, sweepLabs } from "../lab/mod.ts";

const MAIN = new URL("./cluster_main.ts", import.meta.url).pathname;
const NAME = "e2ecleanup";
const CGROUPS = "/sys/fs/cgroup";

/** Processes of a PID namespace, as `/proc/PID/ns/pid` names it. */
async function processesOf(namespace: string): Promise<readonly string[]> {
  const found: string[] = [];
  for await (const { name } of Deno.readDir("/proc")) {
    if (!/^\d+$/.test(name)) continue;
    // Processes end while we look.
    const own = await Deno.readLink(`/proc/${name}/ns/pid`).catch(() => "");
    if (own === namespace) found.push(name);
  }
  return found;
}

async function cgroups(): Promise<readonly string[]> {
  const found: string[] = [];
  const isLabs = (name: string) => name === `coil-${NAME}`;
  for await (const { name, isDirectory } of Deno.readDir(CGROUPS)) {
    if (!isDirectory) continue;
    if (isLabs(name)) found.push(name);
    for await (const below of Deno.readDir(`${CGROUPS}/${name}`)) {
      if (isLabs(below.name)) found.push(`${name}/${below.name}`);
    }
  }
  return found;
}

async function netns(): Promise<readonly string[]> {
  return (await listNetns()).filter((ns) => ns.startsWith(`coil-${NAME}-`));
}

/** What a sweep could not remove of this lab; it removes those of other interrupted runs, too. */
function failuresOf(lab: string, said: readonly string[]): readonly string[] {
  let isLabs = false;
  return said.filter((line) => {
    if (line.startsWith("removing ")) isLabs = line.endsWith(` lab "${lab}"`);
    return isLabs && line.startsWith("Cannot");
  });
}

Deno.test("a cluster whose process is killed is removed by the next run", async () => {
  const child = new Deno.Command(Deno.execPath(), {
    args: ["run", "-A", MAIN, NAME],
    stdin: "null",
    stdout: "piped",
  }).spawn();
  const lines = child.stdout.pipeThrough(new TextLineStream());
  const reader = lines.getReader();
  const { value: namespace = "" } = await reader.read();
  await reader.cancel();
  child.kill("SIGKILL");
  await child.status;

  assert.match(namespace, /^pid:/, "the cluster did not start");
  // First process, containerd, kubelet, kube-proxy, and of the pod a shim and two containers.
  await eventually(
    "four processes",
    async () => (await processesOf(namespace)).length >= 4,
  );
  assert.notDeepEqual(await cgroups(), []);
  assert.notDeepEqual(await netns(), []);

  const said: string[] = [];
  await sweepLabs({ log: (line) => said.push(line) });
  assert.deepEqual(failuresOf(NAME, said), []);

  // The last of them may still be ending.
  await eventually(
    "the node's processes to be gone",
    async () => (await processesOf(namespace)).length === 0,
  );
  assert.deepEqual(await cgroups(), []);
  assert.deepEqual(await netns(), []);
  const runDir = path.join(labDir(), "run", NAME);
  const mounts = await Deno.readTextFile("/proc/self/mountinfo");
  assert.ok(!mounts.includes(runDir), "something is mounted");
  await assert.rejects(Deno.stat(runDir), Deno.errors.NotFound);
});
