// coil migrate dump, disturbed: interrupted, killed, and without the API server
// or what etcd said before. Run again, it comes to its end.
import assert from "node:assert/strict";
import type { ControlPlane } from "../lab/mod.ts";
import { installCrds } from "./crds.ts";
import {
  ALL_OF_V1,
  DumpLab,
  installUnscheduled,
  startPlane,
} from "./migrator_dump_lab.ts";
import { MigratorProcess } from "./migrator_process.ts";
import { migrate, v1Objects } from "./migrator_testing.ts";

let plane: ControlPlane;

Deno.test.beforeAll(async () => {
  plane = await startPlane("migrate-dumpfaults");
});

Deno.test.afterAll(async () => {
  await plane[Symbol.asyncDispose]();
});

Deno.test({
  name:
    "migrate dump: interrupted anywhere, and with the API server away, it is run again",
  // The API server's process, which outlives the test, is another one after it.
  sanitizeResources: false,
  sanitizeOps: false,
}, async () => {
  await using lab = await DumpLab.start(plane);
  for (const moment of ["deleting DaemonSet", "deleting ClusterRole "]) {
    const stop = new AbortController();
    const interrupted = lab.dump(["--yes"], {
      signal: stop.signal,
      onText: (text) => {
        if (text.includes(moment)) stop.abort(new Error("Ctrl-C"));
      },
    });
    await assert.rejects(interrupted, /Ctrl-C/);
    assert.match(await lab.text(), /name: default-0-v1/);
  }
  let left = await v1Objects(lab.plane);
  assert.ok(left.length > 0 && left.length < ALL_OF_V1, left.join());

  let killed: Promise<void> | undefined;
  const cut = await lab.dump(["--yes"], {
    onText: (text) => {
      if (text.includes("deleting")) killed ??= lab.plane.killApiServer();
    },
  });
  await killed;
  assert.equal(cut.code, 1, cut.err);
  assert.match(cut.err, /API server[^]*run the same command again/);
  await lab.plane.startApiServer();

  const last = await lab.dump(["--yes"]);
  assert.equal(last.code, 0, last.err);
  left = await v1Objects(lab.plane);
  assert.deepEqual(left, []);
  assert.ok((await lab.record())["v1RemovedAt"]);
});

Deno.test("migrate dump: killed anywhere, v1 is whole or the manifest is, and it is run again", async () => {
  await using lab = await DumpLab.start(plane);
  await using process = await MigratorProcess.start(plane);
  // Its first change is the record, the others are deletions: of nine objects six are gone after the last kill.
  const moments = [
    { killWhen: /Coil v1: 2 pools/, killAt: 0 },
    ...[0, 1, 2, 3, 4].map((killAt) => ({ killAt })),
  ];
  for (const moment of moments) {
    const output = await process.run(lab.dumpArgs("--yes"), moment);
    assert.equal(output, undefined, `${moment.killAt}: ${output?.err}`);
    if (await lab.hasManifest()) {
      const { code, out, err } = await migrate(lab.plane, [
        ...["status", "-o", "json", `--manifest=${lab.manifest}`],
      ]);
      assert.equal(code, 0, err);
      assert.equal(JSON.parse(out).manifest.state, "intact");
    } else assert.equal((await v1Objects(lab.plane)).length, ALL_OF_V1);
  }
  assert.ok(await lab.hasManifest());
  const left = await v1Objects(lab.plane);
  assert.ok(left.length > 0 && left.length < ALL_OF_V1, left.join());
  const last = await lab.dump(["--yes"]);
  assert.equal(last.code, 0, last.err);
  assert.deepEqual(await v1Objects(lab.plane), []);
  assert.ok((await lab.record())["v1RemovedAt"]);
});

Deno.test("migrate dump: ended between v1's end and the second read, nothing goes on before it is run again", async () => {
  await using lab = await DumpLab.start(plane);
  await installCrds(plane);
  const stop = new AbortController();
  const interrupted = lab.dump(["--yes"], {
    signal: stop.signal,
    onText: (text) => {
      const isLast = text.includes(`[${ALL_OF_V1}/${ALL_OF_V1}]`);
      if (isLast && text.endsWith(" gone\n")) stop.abort(new Error("Ctrl-C"));
    },
  });
  await assert.rejects(interrupted, /Ctrl-C/);
  assert.deepEqual(await v1Objects(plane), []);
  const refuses = async () => {
    const { out } = await migrate(plane, ["status"]);
    assert.match(out, /Phase +dump unfinished/);
    assert.match(out, /Next +coil migrate dump again/);
    const { code, err } = await migrate(plane, ["replace", "--yes"]);
    assert.equal(code, 1);
    assert.match(err, /the dump was not finished[^]*coil migrate dump/);
  };
  await refuses();

  // The same, for etcd cannot be understood the second time.
  await installUnscheduled(plane);
  let spoiled: Promise<void> | undefined;
  const failed = await lab.dump(["--yes"], {
    onText: (text) => {
      if (!text.includes("deleting DaemonSet")) return;
      spoiled ??= lab.etcd.put({ "block/web/10.65.0.0": { nodes: 1 } });
    },
  });
  await spoiled;
  assert.equal(failed.code, 1, failed.err);
  assert.match(failed.err, /Cannot understand etcd's key/);
  assert.match(failed.err, /Coil v1 is removed[^]*run the same command again/);
  assert.doesNotMatch(failed.err, /Nothing was changed/);
  assert.deepEqual(await v1Objects(plane), []);
  await refuses();

  const nodes = { node1: ["10.65.0.1/32", "10.65.0.2/32"] };
  await lab.etcd.put({ "block/web/10.65.0.0": { free: null, nodes } });
  const last = await lab.dump(["--yes"]);
  assert.equal(last.code, 0, last.err);
  assert.match(await lab.text(), /name: web-1-v1[^]*name: web-2-v1/);
  assert.match((await migrate(plane, ["status"])).out, /Phase +dumped/);
});
