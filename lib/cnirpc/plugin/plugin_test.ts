import assert from "node:assert/strict";
import fc from "fast-check";
import {
  decodeAnswer,
  decodeRequest,
  encodeAnswer,
  encodeRequest,
  requestSize,
  SOCKET_VARIABLE,
} from "./mod.ts";

/** Of the front, whose buffers hold 256 KiB; and of the whole program. */
const OF_FRONT = { env: new Map<string, string>() };
const STARTED = { env: new Map([[SOCKET_VARIABLE, "/run/coild.sock"]]) };

/** A request as front.c writes it. */
function request(variables: readonly string[], stdin: Uint8Array): Uint8Array {
  const encoder = new TextEncoder();
  const env = encoder.encode(variables.map((text) => `${text}\0`).join(""));
  const bytes = new Uint8Array(16 + env.length + stdin.length);
  bytes.set(encoder.encode("COILCNI1"));
  const view = new DataView(bytes.buffer);
  view.setUint32(8, env.length, true);
  view.setUint32(12, stdin.length, true);
  bytes.set(env, 16);
  bytes.set(stdin, 16 + env.length);
  return bytes;
}

const name = fc.stringMatching(/^CNI_[A-Z]{1,8}$/);
const value = fc.string({ unit: "grapheme" })
  .filter((text) => !text.includes("\0"));

Deno.test("decodeRequest() gives the variables and the stdin of a call, byte for byte", () => {
  fc.assert(fc.property(
    fc.dictionary(name, value),
    fc.uint8Array({ maxLength: 5000 }),
    (env, stdin) => {
      const variables = Object.entries(env).map(([k, v]) => `${k}=${v}`);
      const bytes = request(variables, stdin);
      assert.equal(requestSize(bytes), bytes.length);
      const decoded = decodeRequest(bytes);
      assert.deepEqual(Object.fromEntries(decoded.env), { ...env });
      assert.deepEqual(decoded.stdin, stdin);
    },
  ));
});

Deno.test("requestSize() is known from the 16th byte on, and the same for every later one", () => {
  const bytes = request(["CNI_COMMAND=ADD"], new Uint8Array(100));
  for (let n = 0; n <= bytes.length; n++) {
    const size = requestSize(bytes.subarray(0, n));
    assert.equal(size, n < 16 ? undefined : bytes.length);
  }
});

Deno.test("requestSize() refuses other protocols at their first byte", () => {
  for (const text of ["P", "PRI * HTTP/2.0", "COILCNI2", "COILCNI2xxxxxxxx"]) {
    const bytes = new TextEncoder().encode(text);
    assert.throws(() => requestSize(bytes), SyntaxError, text);
  }
});

Deno.test("requestSize() refuses more than 5 MiB", () => {
  const bytes = request([], new Uint8Array(0));
  for (const [env, stdin] of [[0, 6 << 20], [6 << 20, 0], [2 ** 32 - 1, 17]]) {
    const view = new DataView(bytes.buffer);
    view.setUint32(8, env ?? 0, true);
    view.setUint32(12, stdin ?? 0, true);
    assert.throws(() => requestSize(bytes), /Cannot read a request: \d+ bytes/);
  }
});

Deno.test("decodeRequest() takes the first of two variables of one name, and passes over what is none", () => {
  const variables = ["CNI_IFNAME=eth0", "CNI_IFNAME=eth1", "CNI_", "=x", ""];
  const { env } = decodeRequest(request(variables, new Uint8Array()));
  assert.deepEqual([...env], [["CNI_IFNAME", "eth0"]]);
});

Deno.test("encodeAnswer() has exit code and size before the text", () => {
  const bytes = encodeAnswer({ exitCode: 1, stdout: "é" }, OF_FRONT);
  assert.deepEqual(
    bytes,
    new Uint8Array([
      ...new TextEncoder().encode("COILCNI1"),
      ...[1, 0, 0, 0, 2, 0, 0, 0, 0xc3, 0xa9],
    ]),
  );
});

Deno.test("encodeAnswer() gives nothing that the front's buffer cannot hold", () => {
  const room = 256 * 1024 - 16;
  const answer = (length: number) =>
    encodeAnswer({ exitCode: 0, stdout: "x".repeat(length) }, OF_FRONT);
  assert.equal(answer(room)?.length, 256 * 1024);
  assert.equal(answer(room + 1), undefined);
});

Deno.test("encodeAnswer() gives the whole program an answer of any size", () => {
  const stdout = "x".repeat(1 << 20);
  const bytes = encodeAnswer({ exitCode: 0, stdout }, STARTED);
  assert.ok(bytes);
  assert.deepEqual(decodeAnswer(bytes), { exitCode: 0, stdout });
});

Deno.test("encodeRequest() writes what decodeRequest() reads", () => {
  fc.assert(fc.property(
    fc.dictionary(name, value),
    fc.uint8Array({ maxLength: 5000 }),
    (variables, stdin) => {
      const env = new Map(Object.entries(variables));
      const bytes = encodeRequest({ env, stdin });
      assert.equal(requestSize(bytes), bytes.length);
      assert.deepEqual(decodeRequest(bytes), { env, stdin });
    },
  ));
});

Deno.test("decodeAnswer() refuses what is not an answer", () => {
  const answer = encodeAnswer({ exitCode: 0, stdout: "{}" }, STARTED);
  assert.ok(answer);
  const changed = (at: number, to: number) => {
    const bytes = answer.slice();
    bytes[at] = to;
    return bytes;
  };
  const bad = [
    new Uint8Array(),
    answer.subarray(0, 15),
    answer.subarray(0, 17),
    new Uint8Array([...answer, 0]),
    changed(7, 0x32),
    changed(8, 2),
    changed(12, 3),
  ];
  for (const bytes of bad) {
    assert.throws(() => decodeAnswer(bytes), SyntaxError);
  }
});
