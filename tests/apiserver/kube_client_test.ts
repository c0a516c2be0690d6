import assert from "node:assert/strict";
import * as path from "node:path";
import {
  CONFIG_MAPS,
  HttpTransport,
  InClusterSource,
  keepFields,
  KubeApiError,
  KubeClient,
  KubeUnreachableError,
  NAMESPACES,
  POD_HEADS,
  PODS,
  type RequestInfo,
  SERVICE_ACCOUNTS,
  type V1ConfigMap,
} from "../../lib/kube/mod.ts";
import { ControlPlane, eventually } from "../lab/mod.ts";
import { patchPodStatus } from "./patch_status.ts";

const namespace = "default";
let plane: ControlPlane;
let client: KubeClient;

Deno.test.beforeAll(async () => {
  plane = await ControlPlane.start({ name: "kubeclient", audit: "metadata" });
  const { kubeconfig } = plane;
  client = await KubeClient.load({ kubeconfig, fieldManager: "test" });
  // Connects, so that no test does for the others.
  await client.get(NAMESPACES, { name: namespace });
});

Deno.test.afterAll(async () => {
  client.close();
  await plane[Symbol.asyncDispose]();
});

function configMap(name: string, data: Record<string, string>): V1ConfigMap {
  return { metadata: { name, namespace }, data };
}

function is(what: (err: KubeApiError) => boolean): (err: unknown) => boolean {
  return (err) => err instanceof KubeApiError && what(err);
}

Deno.test("KubeClient creates, reads, updates and deletes", async () => {
  const created = await client.create(
    CONFIG_MAPS,
    configMap("crud", { a: "1" }),
  );
  await assert.rejects(
    client.create(CONFIG_MAPS, configMap("crud", {})),
    is((err) => err.isAlreadyExists && !err.isConflict),
  );
  const updated = await client.update(CONFIG_MAPS, {
    ...created,
    data: { a: "2" },
  });
  assert.deepEqual(updated.data, { a: "2" });
  await assert.rejects(
    client.update(CONFIG_MAPS, { ...created, data: {} }),
    is((err) => err.isConflict && !err.isAlreadyExists),
  );
  const found = await client.get(CONFIG_MAPS, { name: "crud", namespace });
  assert.equal(found.data?.["a"], "2");
  await assert.rejects(
    client.delete(CONFIG_MAPS, {
      name: "crud",
      namespace,
      preconditions: { uid: "00000000-0000-0000-0000-000000000000" },
    }),
    is((err) => err.isConflict),
  );
  await client.delete(CONFIG_MAPS, { name: "crud", namespace });
  await assert.rejects(
    client.delete(CONFIG_MAPS, { name: "crud", namespace }),
    is((err) => err.isNotFound && err.details?.name === "crud"),
  );
});

Deno.test("KubeClient reads of pods in protobuf what JSON has of them", async () => {
  const pod = (name: string, more: object) => ({
    apiVersion: "v1",
    kind: "Pod",
    metadata: { namespace, name, ...more },
    spec: {
      nodeName: name === "waits" ? undefined : "heads",
      hostNetwork: name === "host",
      containers: [{ name: "main", image: "none", env: [{ name: "A" }] }],
      tolerations: [{ operator: "Exists" }],
    },
  });
  await plane.apply({
    apiVersion: "v1",
    kind: "Node",
    metadata: { name: "heads" },
  });
  await plane.apply(
    pod("plain", {
      annotations: { "example.com/text": "ü".repeat(200), a: "" },
    }),
    pod("host", { labels: { app: "host" }, finalizers: ["example.com/stays"] }),
    pod("waits", {}),
  );
  for (const name of ["plain", "host"]) {
    await patchPodStatus(plane, { namespace, name }, {
      ips: ["10.1.2.3", "fd00::1"],
    });
  }
  await client.delete(PODS, { namespace, name: "host", gracePeriodSeconds: 0 });
  const { items } = await client.list(PODS, { namespace });
  assert.equal(items.length, 3);
  const expected = items.map(({ metadata, spec, status }) => ({
    metadata: keepFields(
      metadata,
      ...["name", "namespace", "creationTimestamp"] as const,
      ...["deletionTimestamp", "annotations"] as const,
    ),
    spec: { ...keepFields(spec, "nodeName", "hostNetwork"), containers: [] },
    status: keepFields(status, "phase", "podIPs", "startTime"),
  }));
  assert.notEqual(expected[0]?.metadata.deletionTimestamp, undefined);
  const page = { namespace, limit: 2, format: POD_HEADS };
  const found: unknown[] = [];
  const take = (pod: unknown) => void found.push(pod);
  const first = await client.listItems(PODS, page, take);
  assert.equal(found.length, 2);
  const next = { ...page, continue: first.continue };
  const rest = await client.listItems(PODS, next, take);
  assert.equal(rest.continue, undefined);
  assert.deepEqual(found, expected);
  await client.patch(
    PODS,
    { namespace, name: "host" },
    { metadata: { finalizers: [] } },
    { kind: "merge" },
  );
});

Deno.test("KubeClient refuses by the server's words what does not fit", async () => {
  await assert.rejects(
    client.create(CONFIG_MAPS, configMap("No Name!", {})),
    is((err) => err.isInvalid && /metadata\.name/.test(err.message)),
  );
});

Deno.test("KubeClient patches in three ways", async () => {
  const target = { name: "patched", namespace };
  const applied = await client.patch(CONFIG_MAPS, target, {
    data: { a: "1", b: "1" },
  }, { kind: "apply" });
  await assert.rejects(
    client.patch(CONFIG_MAPS, target, { data: { a: "2" } }, {
      kind: "apply",
      fieldManager: "somebody-else",
    }),
    is((err) => err.isConflict),
  );
  const forced = await client.patch(CONFIG_MAPS, target, { data: { a: "2" } }, {
    kind: "apply",
    fieldManager: "somebody-else",
    force: true,
  });
  assert.deepEqual(forced.data, { a: "2", b: "1" });
  const { resourceVersion = "" } = applied.metadata ?? {};
  await assert.rejects(
    client.patch(CONFIG_MAPS, target, {
      metadata: { resourceVersion },
      data: { c: "1" },
    }, { kind: "merge" }),
    is((err) => err.isConflict),
  );
  const merged = await client.patch(CONFIG_MAPS, target, {
    data: { a: null, c: "1" },
  }, { kind: "merge" });
  assert.deepEqual(merged.data, { b: "1", c: "1" });
  const json = await client.patch(CONFIG_MAPS, target, [
    { op: "test", path: "/data/b", value: "1" },
    { op: "remove", path: "/data/b" },
  ], { kind: "json" });
  assert.deepEqual(json.data, { c: "1" });
});

Deno.test("KubeClient lists in pages and reads metadata alone", async () => {
  for (let n = 0; n < 5; n++) {
    const object = configMap(`page-${n}`, { big: "x".repeat(1000) });
    const labels = { set: "pages" };
    await client.create(CONFIG_MAPS, {
      ...object,
      metadata: { ...object.metadata, labels },
    });
  }
  const options = { namespace, labelSelector: "set=pages" };
  const page = await client.list(CONFIG_MAPS, { ...options, limit: 2 });
  assert.equal(page.items.length, 2);
  assert.ok(page.continue);
  const all = await client.listAll(CONFIG_MAPS, { ...options, limit: 2 });
  assert.deepEqual(
    all.items.map((o) => o.metadata?.name),
    [0, 1, 2, 3, 4].map((n) => `page-${n}`),
  );
  const meta = await client.list(CONFIG_MAPS, {
    ...options,
    metadataOnly: true,
  });
  assert.equal(meta.items.length, 5);
  assert.ok(meta.items.every((o) => o.data === undefined && o.metadata?.uid));
  const one = { name: "page-0", namespace, metadataOnly: true };
  const got = await client.get(CONFIG_MAPS, one);
  assert.equal(got.kind, "PartialObjectMetadata");
});

Deno.test("KubeClient tells of each request and its code", async () => {
  const infos: RequestInfo[] = [];
  const { kubeconfig } = plane;
  using counted = await KubeClient.load({
    kubeconfig,
    onRequest: (info) => infos.push(info),
  });
  await counted.tryGet(NAMESPACES, { name: "absent" });
  await counted.list(NAMESPACES);
  assert.deepEqual(
    infos.map(({ verb, resource, code }) => [verb, resource, code]),
    [["get", "namespaces", "404"], ["list", "namespaces", "200"]],
  );
});

Deno.test("KubeClient follows a rotated token, at once when it is refused", async () => {
  await client.create(SERVICE_ACCOUNTS, {
    metadata: { name: "rotated", namespace },
  });
  const account = { namespace, name: "rotated" };
  const dir = await plane.serviceAccountDir(account);
  const env = plane.inClusterEnv();
  const source = new InClusterSource({
    dir,
    env: { get: (n) => env[n] },
    // The minute is never over after which the files are read again for no reason.
    now: () => 0,
  });
  using inCluster = new KubeClient(new HttpTransport(source));
  const whoAmI = () =>
    inCluster.raw("/apis/authentication.k8s.io/v1/selfsubjectreviews", {
      method: "POST",
      body: {
        apiVersion: "authentication.k8s.io/v1",
        kind: "SelfSubjectReview",
      },
    });
  assert.match(await whoAmI(), /serviceaccount:default:rotated/);
  // Recreated, the account makes the old token invalid.
  await client.delete(SERVICE_ACCOUNTS, account);
  await client.create(SERVICE_ACCOUNTS, { metadata: account });
  await plane.serviceAccountDir(account);
  // The API server believes in tokens it has seen for 10 s.
  const { metadata } = await client.get(SERVICE_ACCOUNTS, account);
  await eventually("the new token", async () => {
    const review = JSON.parse(await whoAmI());
    return review.status.userInfo.uid === metadata?.uid;
  });
});

Deno.test("KubeClient takes over a rotated authority", async () => {
  const dir = await Deno.makeTempDir();
  await using _dir = {
    [Symbol.asyncDispose]: () => Deno.remove(dir, { recursive: true }),
  };
  const env = plane.inClusterEnv();
  let nowMs = 0;
  const source = new InClusterSource({
    dir,
    env: { get: (n) => env[n] },
    now: () => nowMs,
  });
  const foreign = await foreignAuthority(dir);
  await Deno.writeTextFile(path.join(dir, "token"), plane.adminToken);
  await Deno.writeTextFile(path.join(dir, "ca.crt"), foreign);
  using rotated = new KubeClient(new HttpTransport(source));
  const get = (timeoutMs: number) =>
    rotated.get(NAMESPACES, { name: namespace, timeoutMs });
  await assert.rejects(get(1_000), KubeUnreachableError);
  await Deno.writeTextFile(path.join(dir, "ca.crt"), plane.ca);
  nowMs += 60_000;
  assert.equal((await get(30_000)).metadata?.name, namespace);
});

async function foreignAuthority(dir: string): Promise<string> {
  const { success } = await new Deno.Command("openssl", {
    args: [
      ...["req", "-x509", "-newkey", "ec", "-pkeyopt"],
      ...["ec_paramgen_curve:prime256v1", "-nodes", "-subj", "/CN=foreign"],
      ...["-keyout", `${dir}/foreign.key`, "-out", `${dir}/foreign.crt`],
    ],
    stderr: "null",
  }).output();
  assert.ok(success);
  return await Deno.readTextFile(`${dir}/foreign.crt`);
}

Deno.test("KubeClient authenticates by certificate, token and exec plugin", async () => {
  const byCertificate = await plane.kubeconfigFor({
    user: "jane",
    groups: ["system:masters"],
  });
  const byToken = await plane.kubeconfigFor({ token: plane.adminToken });
  const byExec = path.join(plane.runDir, "exec.kubeconfig");
  const plugin = path.join(plane.runDir, "credential.sh");
  const credential = {
    apiVersion: "client.authentication.k8s.io/v1",
    kind: "ExecCredential",
    status: { token: plane.adminToken },
  };
  await Deno.writeTextFile(
    plugin,
    `#!/bin/sh\necho '${JSON.stringify(credential)}'\n`,
  );
  await Deno.chmod(plugin, 0o755);
  const config = JSON.parse(await Deno.readTextFile(byToken));
  config.users[0].user = {
    exec: {
      apiVersion: "client.authentication.k8s.io/v1",
      command: plugin,
      interactiveMode: "Never",
    },
  };
  await Deno.writeTextFile(byExec, JSON.stringify(config));
  const since = new Date();
  for (const kubeconfig of [byCertificate, byToken, byExec]) {
    using user = await KubeClient.load({ kubeconfig });
    await user.get(NAMESPACES, { name: namespace });
  }
  // A request is in the log a moment after its answer.
  const users = await eventually("the audit log", async () => {
    const filter = { since, resource: "namespaces" };
    const requests = await plane.auditRequests(filter);
    return requests.length >= 3 && requests.map(({ user }) => user);
  });
  assert.deepEqual(users, ["jane", "admin", "admin"]);
});

Deno.test({
  name:
    "KubeClient bridges a short absence of the API server and reports a long one",
  // The API server's process, which outlives the test, is another one after it.
  sanitizeResources: false,
  sanitizeOps: false,
}, async () => {
  const { kubeconfig } = plane;
  using away = await KubeClient.load({ kubeconfig });
  await away.list(NAMESPACES);
  await plane.killApiServer();
  await assert.rejects(
    away.list(NAMESPACES, { timeoutMs: 5_000 }),
    KubeUnreachableError,
  );
  await plane.startApiServer();
  assert.ok((await away.list(NAMESPACES)).items.length > 0);
});
