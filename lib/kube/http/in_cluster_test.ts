import assert from "node:assert/strict";
import { InClusterSource } from "./in_cluster.ts";

interface Pod extends AsyncDisposable {
  readonly source: InClusterSource;
  nowMs: number;
  write(file: string, text: string): Promise<void>;
  remove(file: string): Promise<void>;
}

async function pod(host = "10.96.0.1"): Promise<Pod> {
  const dir = await Deno.makeTempDir();
  const values = new Map([
    ["KUBERNETES_SERVICE_HOST", host],
    ["KUBERNETES_SERVICE_PORT", "443"],
  ]);
  const made: Pod = {
    source: new InClusterSource({ dir, env: values, now: () => made.nowMs }),
    nowMs: 0,
    write: (file, text) => Deno.writeTextFile(`${dir}/${file}`, text),
    remove: (file) => Deno.remove(`${dir}/${file}`),
    [Symbol.asyncDispose]: () => Deno.remove(dir, { recursive: true }),
  };
  await made.write("token", "first\n");
  await made.write("ca.crt", "CA 1");
  return made;
}

Deno.test("InClusterSource puts an IPv6 address in brackets", async () => {
  await using v4 = await pod();
  await using v6 = await pod("fd96::1");
  assert.equal(v4.source.server, "https://10.96.0.1:443");
  assert.equal(v6.source.server, "https://[fd96::1]:443");
});

Deno.test("InClusterSource says what is missing outside a pod", () => {
  assert.throws(
    () => new InClusterSource({ env: new Map<string, string>() }),
    /KUBERNETES_SERVICE_HOST or KUBERNETES_SERVICE_PORT is not set/,
  );
});

Deno.test("InClusterSource reads its files again after a minute, or when told to", async () => {
  await using made = await pod();
  const { source } = made;
  const header = async () => (await source.current()).headers["authorization"];
  assert.equal(await header(), "Bearer first");
  await made.write("token", "second");
  made.nowMs = 59_999;
  assert.equal(await header(), "Bearer first");
  made.nowMs = 60_000;
  assert.equal(await header(), "Bearer second");
  await made.write("token", "third");
  await made.write("ca.crt", "CA 2");
  await source.refresh();
  assert.equal(await header(), "Bearer third");
  assert.deepEqual((await source.current()).tls, { caCerts: ["CA 2"] });
});

Deno.test("InClusterSource goes on with what it has while a file is away", async () => {
  await using made = await pod();
  await made.source.current();
  await made.remove("token");
  made.nowMs = 60_000;
  const { headers } = await made.source.current();
  assert.equal(headers["authorization"], "Bearer first");
});

Deno.test("InClusterSource reads its files again when the server could not be reached", async () => {
  await using made = await pod();
  const { source } = made;
  await source.current();
  await made.write("ca.crt", "CA 2");
  assert.deepEqual((await source.current()).tls, { caCerts: ["CA 1"] });
  source.expire();
  assert.deepEqual((await source.current()).tls, { caCerts: ["CA 2"] });
  await made.write("ca.crt", "CA 3");
  assert.deepEqual((await source.current()).tls, { caCerts: ["CA 2"] });
});
