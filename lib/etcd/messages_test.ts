import assert from "node:assert/strict";
import { prefixEnd } from "./client.ts";
import {
  decodeRangeResponse,
  decodeToken,
  encodeAuthenticateRequest,
  encodeRangeRequest,
} from "./messages.ts";

const text = (value: string) => new TextEncoder().encode(value);

Deno.test("encodeRangeRequest() writes the fields that are set", () => {
  const key = text("a");
  assert.equal(
    encodeRangeRequest({ key, limit: 0, revision: 0 }).toHex(),
    "0a0161",
  );
  const rangeEnd = text("b");
  assert.equal(
    encodeRangeRequest({
      ...{ key, rangeEnd, limit: 300, revision: 7, keysOnly: true },
    }).toHex(),
    "0a016112016218ac0220074001",
  );
});

Deno.test("decodeRangeResponse() reads entries, revision and whether there are more", () => {
  // header {1, 2, revision 5, 2}, kvs {key "k", mod_revision 3, value "v"}, more, count 2
  const answer = decodeRangeResponse(Uint8Array.fromHex(
    "0a080801100218052002" + "12080a016b18032a0176" + "1801" + "2002",
  ));
  assert.deepEqual(answer, {
    revision: 5,
    entries: [{ key: text("k"), value: text("v") }],
    more: true,
  });
});

Deno.test("decodeRangeResponse() refuses what is no answer", () => {
  for (const hex of ["0801", "1201", "1005", "0a05", "120208"]) {
    assert.throws(
      () => decodeRangeResponse(Uint8Array.fromHex(hex)),
      SyntaxError,
      hex,
    );
  }
});

Deno.test("decodeToken() reads the token, and misses it", () => {
  assert.equal(decodeToken(Uint8Array.fromHex("0a0012026162")), "ab");
  assert.throws(() => decodeToken(new Uint8Array()), /has no token/);
  assert.equal(
    encodeAuthenticateRequest({ name: "u", password: "p" }).toHex(),
    "0a0175120170",
  );
});

Deno.test("prefixEnd() is the first key after all of the prefix", () => {
  assert.deepEqual(prefixEnd(text("/coil/")), text("/coil0"));
  assert.deepEqual(
    prefixEnd(new Uint8Array([1, 0xff, 0xff])),
    new Uint8Array([2]),
  );
  assert.deepEqual(prefixEnd(new Uint8Array([0xff])), new Uint8Array([0]));
  assert.deepEqual(prefixEnd(new Uint8Array()), new Uint8Array([0]));
});

Deno.test("decodeToken() refuses a token that is not UTF-8 in its own words", () => {
  const bytes = Uint8Array.fromHex("0a0012058000000000");
  assert.throws(() => decodeToken(bytes), {
    name: "SyntaxError",
    message: /not UTF-8/,
  });
});
