import assert from "node:assert/strict";
import { imageOf } from "./image.ts";

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

Deno.test("imageOf() takes the container it is told, or nothing", () => {
  const own = pod("coil-controller", "mine");
  assert.equal(imageOf(own, { container: "mine" }), "mine:1");
  assert.equal(imageOf(own, { container: "other" }), undefined);
});

Deno.test("imageOf() takes the first container when none has a name it knows", () => {
  assert.equal(imageOf(pod("manager", "proxy")), "manager:1");
  assert.equal(imageOf({}), undefined);
});
