import assert from "node:assert/strict";
import { KubeClient, POD_HEADS, PODS } from "../mod.ts";
import { FakeTransport } from "../testing.ts";

const encoder = new TextEncoder();

/** A field of a message: a text, a message, or a number below 128. */
function field(
  number: number,
  value: string | number | readonly number[],
): number[] {
  if (typeof value === "number") return [...varint(number << 3), value];
  const bytes = typeof value === "string" ? encoder.encode(value) : value;
  return [...varint(number << 3 | 2), ...varint(bytes.length), ...bytes];
}

function varint(value: number): number[] {
  return value < 128 ? [value] : [value & 0x7f | 0x80, value >> 7];
}

/** 2026-01-01T00:00:00Z, 1767225600. */
const TIME = [0x08, 0x80, 0xf2, 0xd6, 0xca, 6];

function listOf(...pods: readonly (readonly number[])[]): Uint8Array {
  const meta = [...field(2, "77"), ...field(3, "more")];
  const list = [...field(1, meta), ...pods.flatMap((pod) => field(2, pod))];
  return Uint8Array.of(
    ...[0x6b, 0x38, 0x73, 0],
    ...field(1, [...field(1, "v1"), ...field(2, "PodList")]),
    ...field(2, list),
  );
}

Deno.test("POD_HEADS reads pods of protobuf, and passes over what else they have", () => {
  const annotation = [...field(1, "a"), ...field(2, "é")];
  const pod = [
    ...field(1, [
      ...[field(1, "web"), field(2, ""), field(3, "apps"), field(7, 4)].flat(),
      ...[field(8, TIME), field(9, TIME), field(12, annotation)].flat(),
      ...field(17, "kubectl"),
    ]),
    ...field(2, [
      ...field(2, "container"),
      ...field(10, "n1"),
      ...field(11, 1),
    ]),
    ...field(3, [
      ...[field(1, "Running"), field(6, "10.0.0.1"), field(7, TIME)].flat(),
      ...field(12, field(1, "10.0.0.1")),
      ...field(12, field(1, "fd00::1")),
    ]),
  ];
  const waiting = [
    ...field(1, field(1, "waiting")),
    ...field(2, [...field(10, ""), ...field(11, 0)]),
    ...field(3, field(1, "")),
  ];
  const at = "2026-01-01T00:00:00Z";
  const items: unknown[] = [];
  const list = POD_HEADS.parse(
    listOf(pod, waiting),
    (item) => items.push(item),
  );
  assert.deepEqual({ ...list, items }, {
    resourceVersion: "77",
    continue: "more",
    items: [{
      metadata: {
        name: "web",
        namespace: "apps",
        creationTimestamp: at,
        deletionTimestamp: at,
        annotations: { a: "é" },
      },
      spec: { containers: [], nodeName: "n1", hostNetwork: true },
      status: {
        phase: "Running",
        startTime: at,
        podIPs: [{ ip: "10.0.0.1" }, { ip: "fd00::1" }],
      },
    }, {
      metadata: { name: "waiting" },
      spec: { containers: [] },
      status: {},
    }],
  });
});

Deno.test("POD_HEADS reads JSON too, of a server that has no protobuf", async () => {
  const transport = new FakeTransport(() => ({
    body: { metadata: { resourceVersion: "7" }, items: [{ metadata: {} }] },
  }));
  using client = new KubeClient(transport);
  for (let n = 0; n < 2; n++) {
    const items: unknown[] = [];
    const options = { format: POD_HEADS, limit: 1 };
    const take = (item: unknown) => void items.push(item);
    const list = await client.listItems(PODS, options, take);
    assert.deepEqual([items, list], [[{ metadata: {} }], {
      resourceVersion: "7",
    }]);
  }
  const [request] = transport.requests;
  assert.equal(request?.headers["accept"], POD_HEADS.accept);
  assert.match(request?.path ?? "", /limit=1$/);
});

Deno.test("a list in another format is asked for again where the API server cannot answer now, and a refusal is an error", async () => {
  let asked = 0;
  const transport = new FakeTransport(() =>
    asked++ === 0
      ? { status: 503, body: { kind: "Status" } }
      : { status: 403, body: { kind: "Status", reason: "Forbidden" } }
  );
  using client = new KubeClient(transport);
  await assert.rejects(
    client.listItems(PODS, { format: POD_HEADS }, () => {}),
    { name: "KubeApiError", status: 403 },
  );
  assert.equal(asked, 2);
});

Deno.test("a refusal that comes as protobuf too is said in its words, and its time to wait is kept", async () => {
  const status = [
    ...field(2, "Failure"),
    ...field(3, "Too large resource version"),
    ...field(4, "Timeout"),
    ...field(5, [...field(1, "x"), ...field(5, 3)]),
  ];
  const bytes = [0x6b, 0x38, 0x73, 0, ...field(1, "v1"), ...field(2, status)];
  const body = String.fromCharCode(...bytes);
  using client = new KubeClient(
    new FakeTransport(() => ({ status: 403, body })),
  );
  await assert.rejects(
    client.listItems(PODS, { format: POD_HEADS }, () => {}),
    {
      message:
        "Cannot list pods: API server answered 403: Too large resource version",
      reason: "Timeout",
      retryAfterMs: 3_000,
    },
  );
});
