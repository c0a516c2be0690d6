import assert from "node:assert/strict";
import { ByteBudget, FrameGuard } from "./frame_guard.ts";
import { encodeEnhanceYourCalm, FrameHeads, FrameType } from "./frame_heads.ts";

const PREFACE = new Uint8Array(24);
const END_STREAM = 1;

/** A frame whose contents nobody looks at. */
function frame(
  type: number,
  { streamId = 0, flags = 0, length = 0 } = {},
): Uint8Array {
  const bytes = new Uint8Array(9 + length);
  const view = new DataView(bytes.buffer);
  view.setUint32(0, length << 8);
  view.setUint8(3, type);
  view.setUint8(4, flags);
  view.setUint32(5, streamId);
  return bytes;
}

function scene(budget = 1_000_000) {
  let nowMs = 0;
  const memory = new ByteBudget(budget);
  const guard = new FrameGuard(memory, () => nowMs);
  guard.received(PREFACE);
  const pass = (ms: number) => void (nowMs += ms);
  return { guard, memory, pass };
}

Deno.test("FrameHeads reads the same heads wherever the bytes are cut", () => {
  const bytes = new Uint8Array([
    ...PREFACE,
    ...frame(FrameType.SETTINGS),
    ...frame(FrameType.HEADERS, { streamId: 1, flags: 4, length: 20 }),
    ...frame(FrameType.DATA, { streamId: 1, flags: END_STREAM, length: 300 }),
  ]);
  const expected = [
    { type: 4, streamId: 0, length: 0, endsStream: false },
    { type: 1, streamId: 1, length: 20, endsStream: false },
    { type: 0, streamId: 1, length: 300, endsStream: true },
  ];
  for (let size = 1; size <= bytes.length; size++) {
    const heads = new FrameHeads(24);
    const found = [];
    for (let at = 0; at < bytes.length; at += size) {
      found.push(...heads.push(bytes.subarray(at, at + size)));
    }
    assert.deepEqual(found, expected);
  }
});

Deno.test("FrameGuard counts calls from their HEADERS to the end of their answer", () => {
  const { guard } = scene();
  assert.equal(guard.isEstablished, false);
  guard.received(frame(FrameType.SETTINGS));
  assert.equal(guard.isEstablished, true);
  assert.equal(guard.received(frame(FrameType.HEADERS, { streamId: 1 })), 1);
  assert.equal(guard.received(frame(FrameType.HEADERS, { streamId: 3 })), 1);
  // Trailers of the request are not another call.
  guard.received(frame(FrameType.HEADERS, { streamId: 1, flags: END_STREAM }));
  assert.equal(guard.calls, 2);
  guard.sent(frame(FrameType.HEADERS, { streamId: 1 }));
  assert.equal(guard.calls, 2);
  guard.sent(frame(FrameType.HEADERS, { streamId: 1, flags: END_STREAM }));
  guard.sent(frame(FrameType.RST_STREAM, { streamId: 3, length: 4 }));
  assert.equal(guard.calls, 0);
});

Deno.test("FrameGuard lets requests have so much memory together, and no more", () => {
  const { guard, memory } = scene(1000);
  const send = (streamId: number) => {
    guard.received(frame(FrameType.HEADERS, { streamId }));
    return guard.received(frame(FrameType.DATA, { streamId, length: 400 }));
  };
  assert.equal(send(1), 0);
  assert.equal(send(3), 0);
  assert.equal(memory.take(201), false);
  guard.received(frame(FrameType.RST_STREAM, { streamId: 1, length: 4 }));
  guard.sent(frame(FrameType.HEADERS, { streamId: 3, flags: END_STREAM }));
  assert.equal(send(5), 0);
  assert.equal(send(7), 0);
  assert.equal(send(9), "too much");
  guard.close();
  assert.equal(memory.take(1000), true);
});

for (
  const [what, limit, bytes] of [
    ["resets", 500, frame(FrameType.RST_STREAM, { streamId: 1, length: 4 })],
    ["PING", 2000, frame(FrameType.PING, { length: 8 })],
    ["SETTINGS", 2000, frame(FrameType.SETTINGS)],
    ["empty DATA", 2000, frame(FrameType.DATA, { streamId: 1 })],
  ] as const
) {
  Deno.test(`FrameGuard takes ${limit} ${what} in ten seconds, and no more`, () => {
    const { guard, pass } = scene();
    for (let window = 0; window < 3; window++) {
      for (let i = 0; i < limit; i++) assert.equal(guard.received(bytes), 0);
      pass(10_000);
    }
    for (let i = 0; i < limit; i++) assert.equal(guard.received(bytes), 0);
    pass(9_999);
    assert.equal(guard.received(bytes), "too much");
  });
}

Deno.test("FrameGuard lets calls that are answered have their frames", () => {
  const { guard } = scene();
  for (let streamId = 1; streamId < 4_000; streamId += 2) {
    guard.received(frame(FrameType.HEADERS, { streamId }));
    for (let i = 0; i < 8; i++) {
      const ping = frame(FrameType.PING, { length: 8 });
      assert.equal(guard.received(ping), 0);
    }
    guard.sent(frame(FrameType.HEADERS, { streamId, flags: END_STREAM }));
  }
});

Deno.test("encodeEnhanceYourCalm() is a GOAWAY with code 11", () => {
  const bytes = encodeEnhanceYourCalm();
  assert.deepEqual(new FrameHeads().push(bytes), [
    { type: FrameType.GOAWAY, streamId: 0, length: 8, endsStream: false },
  ]);
  assert.equal(bytes.length, 17);
  assert.equal(bytes[16], 11);
});
