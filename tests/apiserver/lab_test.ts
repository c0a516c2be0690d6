import assert from "node:assert/strict";
import {
  cleanUp,
  ControlPlane,
  eventually,
  labDir,
  listNetns,
  run,
  startCoilPlane,
} from "../lab/mod.ts";
import { lockFile } from "../lab/cache.ts";
import { createNetwork, deleteNetns } from "../lab/network.ts";

const ROOT = new URL("../../", import.meta.url).pathname;

Deno.test("ControlPlane runs a program as a pod of a node and leaves nothing behind", async (t) => {
  const plane = await ControlPlane.start({
    name: "labtest",
    audit: "metadata",
  });
  await using _plane = plane;
  const node = await plane.addNode(1);

  await t.step("node's token carries the node's name", async () => {
    await plane.kubectl("create", "serviceaccount", "agent");
    const since = new Date();
    await using process = await plane.startProcess({
      node,
      serviceAccount: { namespace: "default", name: "agent" },
      command: "sh",
      args: ["-c", SHOW_IDENTITY],
    });
    const status = await process.exited;
    const log = await process.logs();
    assert.equal(status.code, 0, log);
    assert.match(log, /system:serviceaccount:default:agent/);
    assert.match(log, /authentication.kubernetes.io\/node-name":\["node1"\]/);
    assert.match(log, /inet 172\.30\.\d+\.11\/24/);
    const user = "system:serviceaccount:default:agent";
    // A request is in the log a moment after its answer.
    const requests = await eventually("the audit log", async () => {
      const found = await plane.auditRequests({ since, user });
      return found.length > 0 && found;
    });
    assert.deepEqual(requests.map((r) => [r.verb, r.resource, r.code]), [
      ["create", "selfsubjectreviews", 201],
    ]);
  });

  await t.step(
    "apply() creates, then changes as kubectl does, and says why not",
    async () => {
      const since = new Date();
      const applied = (data: Record<string, string>, metadata = {}) => ({
        apiVersion: "v1",
        kind: "ConfigMap",
        metadata: { name: "applied", ...metadata },
        data,
      });
      const shown = async () =>
        JSON.parse(await plane.kubectl("get", "cm", "applied", "-o=json"));
      await plane.apply(applied({ one: "1", two: "2" }));
      const requests = await eventually("the audit log", async () => {
        const found = (await plane.auditRequests({ since, user: "admin" }))
          .filter(({ resource }) => resource === "configmaps");
        return found.length > 0 && found;
      });
      assert.deepEqual(
        requests.map(({ verb, code }) => [verb, code]),
        [["create", 201]],
      );
      assert.deepEqual((await shown()).data, { one: "1", two: "2" });
      await plane.apply(applied({ one: "3" }));
      assert.deepEqual((await shown()).data, { one: "3" });
      await assert.rejects(
        plane.apply(applied({}, { name: "Not_A_Name" })),
        /Not_A_Name.*RFC 1123/,
      );
      await assert.rejects(
        plane.apply({ ...applied({}, { name: "strict" }), datum: {} }),
        /unknown field "datum"/,
      );
    },
  );

  await t.step("data outlives a crash of the API server", async () => {
    await plane.kubectl("create", "namespace", "kept");
    await plane.killApiServer();
    await assert.rejects(plane.request("GET", "/readyz"));
    await plane.startApiServer();
    assert.match(await plane.kubectl("get", "namespaces"), /kept/);
  });

  await t.step(
    "a process is ended by SIGTERM, or by SIGKILL after the grace time",
    async () => {
      const process = await plane.startProcess({
        command: "sh",
        args: ["-c", "trap '' TERM; echo ready; while :; do sleep 0.1; done"],
      });
      await eventually("the trap", async () => (await process.logs()) !== "");
      assert.equal((await process.stop({ graceMs: 100 })).signal, "SIGKILL");
      assert.equal(process.isRunning, false);
    },
  );

  await plane[Symbol.asyncDispose]();
  const left = (await listNetns()).filter((n) => n.startsWith("coil-labtest-"));
  assert.deepEqual(left, []);
  await assert.rejects(Deno.stat(plane.runDir), Deno.errors.NotFound);
});

Deno.test("startCoilPlane() begins with what crds/ and deploy/base have", async () => {
  const audit = "metadata";
  await using plane = await startCoilPlane({ name: "labcoil", audit });
  const installed = [
    await plane.kubectl("apply", "-f", `${ROOT}crds`),
    await plane.kubectl("apply", "-k", `${ROOT}deploy/base`),
  ].join("").trim().split("\n");
  assert.ok(installed.length > 20);
  assert.deepEqual(installed.filter((l) => !l.endsWith(" unchanged")), []);
  const made = (await plane.auditRequests({ user: "admin" }))
    .filter(({ verb }) => verb === "create");
  assert.deepEqual(made, []);
});

const SHOW_IDENTITY = `
dir=/var/run/secrets/kubernetes.io/serviceaccount
ip -4 address show dev eth0
curl -sS --cacert $dir/ca.crt -H "authorization: Bearer $(cat $dir/token)" \\
  -H "content-type: application/json" -d '{"apiVersion":"authentication.k8s.io/v1","kind":"SelfSubjectReview"}' \\
  https://$KUBERNETES_SERVICE_HOST:$KUBERNETES_SERVICE_PORT/apis/authentication.k8s.io/v1/selfsubjectreviews |
  tr -d ' \\n'
`;

Deno.test("createNetwork() finds another number beside a lab of IPv6 alone", async () => {
  await using undo = new AsyncDisposableStack();
  const indexes = new Set<number>();
  for (const netns of ["coil-labsix1-cp", "coil-labsix2-cp"]) {
    undo.defer(() => deleteNetns(netns));
    const { subnet } = await createNetwork({ netns, families: ["ipv6"] });
    indexes.add(subnet.index);
  }
  assert.equal(indexes.size, 2);
});

Deno.test("cleanUp() leaves a link alone whose name is another lab's by now", async () => {
  const link = "coil-labother";
  const dir = `${labDir()}/run/labstale`;
  await using undo = new AsyncDisposableStack();
  await run("ip", [
    "link",
    "add",
    link,
    "type",
    "veth",
    "peer",
    "name",
    "coil-labpeer",
  ]);
  undo.defer(async () => void await run("ip", ["link", "delete", link]));
  // What a run left whose namespaces are gone.
  await Deno.mkdir(dir, { recursive: true });
  await Deno.writeTextFile(`${dir}/host-link`, link);
  const said: string[] = [];
  await cleanUp("labstale", { log: (text) => said.push(text) });
  assert.deepEqual(said, []);
  assert.match(await run("ip", ["link", "show", link]), /coil-labother/);
  await assert.rejects(Deno.stat(dir), Deno.errors.NotFound);
});

Deno.test("a run of the tests that is cut short leaves the virtual machine's lab of another run alone", async () => {
  const cache = await Deno.makeTempDir({ prefix: "coil-cut-short-" });
  await using undo = new AsyncDisposableStack();
  undo.defer(() => Deno.remove(cache, { recursive: true }));
  const labs = `${cache}/lab/run`;
  await Deno.mkdir(`${labs}/vm`, { recursive: true });
  using _otherRun = await lockFile(`${labs}/vm.lock`);
  const tests = new Deno.Command(Deno.execPath(), {
    args: ["run", "-A", "tests/run.ts", "unit", "--filter", "no such test"],
    env: { COIL_CACHE: cache, NO_COLOR: "1" },
    stdin: "null",
    stdout: "piped",
    stderr: "null",
  }).spawn();
  let said = "";
  const decoder = new TextDecoder();
  for await (const bytes of tests.stdout) {
    const isFirst = said === "";
    said += decoder.decode(bytes);
    if (isFirst) tests.kill("SIGTERM");
  }
  assert.equal((await tests.status).code, 130);
  assert.match(said, /interrupted: cleaning up/);
  await Deno.stat(`${labs}/vm`);
});
