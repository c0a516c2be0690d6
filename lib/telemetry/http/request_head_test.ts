import assert from "node:assert/strict";
import { BadRequestError, parseRequestHead } from "./request_head.ts";

function parse(...lines: readonly string[]) {
  return parseRequestHead(lines.join("\r\n"));
}

Deno.test("parseRequestHead() reads what scrapers, probes and coild send", () => {
  const head = parse(
    "POST /v1/clients?x=1 HTTP/1.1",
    "Host: 10.0.0.1:8082",
    "Authorization: Bearer a.b-c",
    "Content-Length: 12",
    "Accept: a",
    "accept:b ",
  );
  assert.equal(head.method, "POST");
  assert.equal(head.target, "/v1/clients?x=1");
  assert.equal(head.contentLength, 12);
  assert.equal(head.keepAlive, true);
  assert.equal(head.headers.get("authorization"), "Bearer a.b-c");
  assert.equal(head.headers.get("accept"), "a, b");
});

Deno.test("parseRequestHead() takes the path of an absolute target", () => {
  for (const host of ["10.65.0.0:8082", "[fd00::1]:8082", "x"]) {
    const line = `POST http://${host}/v1/clients?x=1 HTTP/1.1`;
    const { target } = parse(line, `Host: ${host}`);
    assert.equal(target, "/v1/clients?x=1");
  }
});

Deno.test("parseRequestHead() says when a connection ends", () => {
  const keeps = (...lines: readonly string[]) => parse(...lines).keepAlive;
  assert.equal(keeps("GET / HTTP/1.1", "Host: x"), true);
  assert.equal(keeps("GET / HTTP/1.1", "Host: x", "Connection: Close"), false);
  assert.equal(
    keeps("GET / HTTP/1.1", "Host: x", "Connection: TE, close"),
    false,
  );
  assert.equal(keeps("GET / HTTP/1.0"), false);
});

const REFUSED: readonly (readonly [string, number, ...string[]])[] = [
  ["nothing", 400, ""],
  ["another protocol", 400, "PRI * HTTP/2.0", ""],
  ["another version", 400, "GET / HTTP/3.0", "Host: x"],
  [
    "an absolute target of another scheme",
    400,
    "GET ftp://x/ HTTP/1.1",
    "Host: x",
  ],
  [
    "a target with user information",
    400,
    "GET http://a@x/ HTTP/1.1",
    "Host: x",
  ],
  ["a target with a space", 400, "GET /a b HTTP/1.1", "Host: x"],
  ["a method that no handler knows", 501, "TRACE / HTTP/1.1", "Host: x"],
  ["no Host", 400, "GET / HTTP/1.1"],
  ["two Hosts", 400, "GET / HTTP/1.1", "Host: x", "Host: y"],
  ["a folded line", 400, "GET / HTTP/1.1", "Host: x", " y: z"],
  ["a space before the colon", 400, "GET / HTTP/1.1", "Host : x"],
  ["a bare LF", 400, "GET / HTTP/1.1\nHost: x", "Host: x"],
  ["a NUL in a value", 400, "GET / HTTP/1.1", "Host: x", "a: \0"],
  ["a line without a colon", 400, "GET / HTTP/1.1", "Host: x", "abc"],
  [
    "two lengths",
    400,
    "POST / HTTP/1.1",
    "Host: x",
    "Content-Length: 1",
    "Content-Length: 1",
  ],
  [
    "a length that is no number",
    400,
    "POST / HTTP/1.1",
    "Host: x",
    "Content-Length: -1",
  ],
  ["chunks", 411, "POST / HTTP/1.1", "Host: x", "Transfer-Encoding: chunked"],
  ["an expectation", 417, "POST / HTTP/1.1", "Host: x", "Expect: 100-continue"],
  [
    "too many fields",
    431,
    "GET / HTTP/1.1",
    "Host: x",
    ...Array<string>(100).fill("a: b"),
  ],
];

for (const [what, status, ...lines] of REFUSED) {
  Deno.test(`parseRequestHead() refuses ${what}`, () => {
    assert.throws(() => parse(...lines), (error) => {
      assert.ok(error instanceof BadRequestError);
      assert.equal(error.status, status);
      return true;
    });
  });
}
