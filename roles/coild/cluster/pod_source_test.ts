import assert from "node:assert/strict";
import { KubeClient } from "../../../lib/kube/mod.ts";
import { FakeTransport } from "../../../lib/kube/testing.ts";
import { PodNotFoundError } from "../base/errors.ts";
import { PodSource } from "./pod_source.ts";

const { signal } = new AbortController();

/** A source whose API server has these objects, by the end of their path. */
function sourceOf(objects: Readonly<Record<string, object>>): PodSource {
  const transport = new FakeTransport(({ path }) => {
    const body = objects[path.split("/").at(-1)?.split("?")[0] ?? ""];
    return body === undefined
      ? { status: 404, body: { kind: "Status", code: 404, reason: "NotFound" } }
      : { body };
  });
  return new PodSource(new KubeClient(transport), {
    nodeName: "node1",
    pools: true,
  });
}

Deno.test("poolOf() gives the namespace's pool, else the default one, but none to a namespace that does not exist", async () => {
  const annotations = { "coil.cybozu.com/pool": "global" };
  const source = sourceOf({
    chosen: { metadata: { name: "chosen", annotations } },
    plain: { metadata: { name: "plain" } },
  });
  assert.equal(await source.poolOf("chosen", { signal }), "global");
  assert.equal(await source.poolOf("plain", { signal }), "default");
  await assert.rejects(source.poolOf("unknown", { signal }), PodNotFoundError);
});
