import { create, type MessageInitShape } from "@bufbuild/protobuf";
import assert from "node:assert/strict";
import { CniError, ErrorCode } from "../../../lib/cni/mod.ts";
import { type CNIArgs, CNIArgsSchema } from "../../../lib/cnirpc/mod.ts";
import { StatusCode } from "../../../lib/grpc/mod.ts";
import { failureOf } from "../observe/cni_errors.ts";
import { InvalidCallError, InvalidNetworkError } from "../base/errors.ts";
import {
  parseAdd,
  parseGc,
  parseKey,
  parseNetwork,
  parsePodName,
  parseStrictKey,
  refuseChained,
  requireChained,
} from "./cni_request.ts";

const POD = { K8S_POD_NAME: "web-0", K8S_POD_NAMESPACE: "shop" };

function args(
  changes: Omit<
    MessageInitShape<typeof CNIArgsSchema>,
    "$typeName" | "$unknown"
  > = {},
): CNIArgs {
  return create(CNIArgsSchema, {
    containerId: "c1",
    ifname: "eth0",
    netns: "/run/netns/a",
    args: POD,
    stdinData: bytes({ name: "k8s-pod-network" }),
    ...changes,
  });
}

function bytes(value: unknown): Uint8Array<ArrayBuffer> {
  return new TextEncoder().encode(JSON.stringify(value));
}

function thrownBy(fn: () => unknown): unknown {
  try {
    fn();
  } catch (error) {
    return error;
  }
  assert.fail("nothing was thrown");
}

Deno.test("parseAdd() reads the pod, the network and the key", () => {
  assert.deepEqual(parseAdd(args()), {
    containerId: "c1",
    ifname: "eth0",
    netns: "/run/netns/a",
    network: "k8s-pod-network",
    chained: false,
    ips: [],
    pod: { name: "web-0", namespace: "shop" },
  });
});

Deno.test("parseAdd() takes the annotations that the runtime hands over", () => {
  const stdinData = bytes({
    name: "n",
    runtimeConfig: {
      "io.kubernetes.cri.pod-annotations": { a: "1", odd: 2 },
    },
  });
  assert.deepEqual(parseAdd(args({ stdinData })).pod.annotations, { a: "1" });
});

Deno.test("parseAdd() asks elsewhere when the runtime hands over null", () => {
  const stdinData = bytes({
    name: "n",
    runtimeConfig: { "io.kubernetes.cri.pod-annotations": null },
  });
  assert.equal(parseAdd(args({ stdinData })).pod.annotations, undefined);
});

for (
  const [what, changes, pattern] of [
    ["no pod name", { args: { K8S_POD_NAMESPACE: "shop" } }, /K8S_POD_NAME/],
    ["no namespace", { args: { K8S_POD_NAME: "x" } }, /K8S_POD_NAMESPACE/],
    ["an empty name", { args: { ...POD, K8S_POD_NAME: "" } }, /K8S_POD_NAME/],
    ["no netns", { netns: "" }, /CNI_NETNS/],
    ["no container ID", { containerId: "" }, /container_id/],
    ["no interface", { ifname: "" }, /ifname/],
    ["odd IS_CHAINED", { args: { ...POD, IS_CHAINED: "maybe" } }, /IS_CHAINED/],
  ] as const
) {
  Deno.test(`parseAdd() refuses ${what}`, () => {
    assert.throws(() => parseAdd(args(changes)), (error) => {
      assert.ok(error instanceof InvalidCallError);
      assert.match(error.message, pattern);
      return true;
    });
  });
}

for (
  const changes of [
    { ifname: "eth0/1" },
    { ifname: "a b" },
    { ifname: "eth0:1" },
    { ifname: ".." },
    { ifname: "a".repeat(16) },
    { ifname: "eth\0" },
    { containerId: "../x" },
    { containerId: "a:b" },
    { containerId: "c 1" },
    { containerId: "ü" },
    { containerId: "c".repeat(129) },
  ]
) {
  const text = JSON.stringify(changes);
  Deno.test(`parseStrictKey() refuses ${text} with code 4; DEL of it passes`, () => {
    const failure = failureOf(thrownBy(() => parseStrictKey(args(changes))));
    assert.equal(failure.status, StatusCode.INVALID_ARGUMENT);
    assert.equal(failure.code, ErrorCode.INVALID_ENVIRONMENT_VARIABLES);
    parseKey(args(changes));
  });
}

Deno.test("parseAdd() refuses a name that the kernel takes for a pattern; DEL of it passes", () => {
  const odd = args({ ifname: "eth%d" });
  assert.equal(failureOf(thrownBy(() => parseAdd(odd))).code, 4);
  assert.equal(parseKey(odd).ifname, "eth%d");
});

Deno.test("refuseChained() and requireChained() want coil first, or after another", () => {
  const first = parseAdd(args({}));
  const after = parseAdd(args({ args: { ...POD, IS_CHAINED: "true" } }));
  refuseChained(first);
  requireChained(after);
  assert.throws(() => refuseChained(after), InvalidNetworkError);
  assert.throws(() => requireChained(first), InvalidNetworkError);
});

Deno.test("parseKey() needs no netns: DEL may come without", () => {
  assert.deepEqual(parseKey(args({ netns: "" })), {
    containerId: "c1",
    ifname: "eth0",
  });
});

Deno.test("parseNetwork() refuses what is not JSON with the CNI code", () => {
  assert.throws(() => parseNetwork(new TextEncoder().encode("{")), (error) => {
    assert.ok(error instanceof CniError);
    assert.equal(error.code, ErrorCode.DECODING_FAILURE);
    return true;
  });
});

Deno.test("parseNetwork() lives without a configuration, as old clients send none", () => {
  assert.deepEqual(parseNetwork(new Uint8Array()), { name: "" });
});

Deno.test("parseAdd() reads the result of the plugin before, where there is one", () => {
  const prevResult = {
    cniVersion: "1.0.0",
    ips: [{ address: "10.64.0.1/32" }],
  };
  const parse = (chained: string, previous: unknown = prevResult) =>
    parseAdd(args({
      args: { ...args().args, IS_CHAINED: chained },
      stdinData: bytes({ name: "n", prevResult: previous }),
    }));
  assert.equal(
    parse("true").prevResult?.ips?.[0]?.address.toString(),
    "10.64.0.1/32",
  );
  assert.equal(parse("false").prevResult, undefined);
  const { code } = thrownBy(() => parse("true", { ips: 1 })) as CniError;
  assert.equal(code, 6);
});

Deno.test("parseNetwork() reads the previous result, of which null is none", () => {
  const parse = (prevResult: unknown) =>
    parseNetwork(bytes({ name: "n", prevResult }));
  const prevResult = { ips: [] };
  assert.deepEqual(parse(prevResult), { name: "n", prevResult });
  assert.deepEqual(parse(null), { name: "n" });
});

Deno.test("parsePodName() needs both names", () => {
  const pod = { name: "web-0", namespace: "shop" };
  assert.deepEqual(parsePodName(args()), { pod });
  for (const name of ["K8S_POD_NAME", "K8S_POD_NAMESPACE"]) {
    const half = args({ args: { ...POD, [name]: "" } });
    assert.deepEqual(parsePodName(half), {});
  }
  assert.deepEqual(parsePodName(args({ args: {} })), {});
});

Deno.test("parseGc() takes an empty list at its word", () => {
  const stdinData = bytes({ name: "n", "cni.dev/valid-attachments": [] });
  assert.deepEqual(parseGc(args({ stdinData })), { network: "n", valid: [] });
});

for (
  const [what, config] of [
    ["null", { name: "n", "cni.dev/valid-attachments": null }],
    ["missing", { name: "n" }],
    ["{}", { name: "n", "cni.dev/valid-attachments": {} }],
  ] as const
) {
  Deno.test(`parseGc() collects nothing when the list is ${what}`, () => {
    const error = thrownBy(() => parseGc(args({ stdinData: bytes(config) })));
    assert.equal(failureOf(error).code, ErrorCode.INVALID_NETWORK_CONFIG);
    assert.ok(error instanceof Error);
    assert.ok(error.message.includes(` is ${what}, so`), error.message);
  });
}

Deno.test("parseGc() needs no configuration when the message names attachments", () => {
  const validAttachments = [{ containerId: "c", ifname: "eth0" }];
  const { valid } = parseGc(
    args({ stdinData: new Uint8Array(), validAttachments }),
  );
  assert.deepEqual(valid.map(({ containerId }) => containerId), ["c"]);
});
