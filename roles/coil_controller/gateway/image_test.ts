import assert from "node:assert/strict";
import { KubeClient } from "../../../lib/kube/mod.ts";
import { FakeTransport } from "../../../lib/kube/testing.ts";
import { EgressImage, type EgressImageOptions, imageOf } from "./image.ts";

function pod(...names: readonly string[]) {
  const containers = names.map((name) => ({ name, image: `${name}:1` }));
  return { spec: { containers } };
}

Deno.test("W26: imageOf() is not misled by a container put before the controller's", () => {
  assert.equal(imageOf(pod("proxy", "coil-controller")), "coil-controller:1");
  assert.equal(
    imageOf(pod("proxy", "coil-egress-controller")),
    "coil-egress-controller:1",
  );
});

Deno.test("imageOf() takes the container that is named, or nothing", () => {
  const own = pod("coil-controller", "mine");
  assert.equal(imageOf(own, { container: "mine" }), "mine:1");
  assert.equal(imageOf(own, { container: "other" }), undefined);
});

Deno.test("imageOf() takes the first container when none has a name it knows", () => {
  assert.equal(imageOf(pod("manager", "proxy")), "manager:1");
  assert.equal(imageOf({}), undefined);
});

Deno.test("EgressImage asks for its own pod once, and needs to know which it is", async () => {
  const { signal } = new AbortController();
  const transport = new FakeTransport(({ path }) =>
    path.endsWith("/namespaces/system/pods/me")
      ? { body: pod("coil-controller") }
      : { status: 404, body: { kind: "Status", reason: "NotFound" } }
  );
  const client = new KubeClient(transport);
  const imageFor = (pod: EgressImageOptions["pod"], image = "") =>
    new EgressImage({ client, image, pod });
  const own = imageFor({ namespace: "system", name: "me" });
  assert.equal(await own.get(signal), "coil-controller:1");
  assert.equal(await own.get(signal), "coil-controller:1");
  assert.equal(transport.requests.length, 1);
  assert.equal(await imageFor({}, "given:1").get(signal), "given:1");
  for (const unknown of [{}, { namespace: "system" }, { name: "me" }]) {
    await assert.rejects(imageFor(unknown).get(signal), /set --egress-image/);
  }
  assert.equal(transport.requests.length, 1);
  await assert.rejects(
    imageFor({ namespace: "system", name: "you" }).get(signal),
    /pod "system\/you" does not exist/,
  );
  const container = "other";
  await assert.rejects(
    imageFor({ namespace: "system", name: "me", container }).get(signal),
    /pod "system\/me" has no container "other"/,
  );
});
