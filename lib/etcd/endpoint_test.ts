import assert from "node:assert/strict";
import { parseEndpoint } from "./mod.ts";

Deno.test("parseEndpoint() takes what etcd's own clients take", () => {
  const tls = { caCerts: ["x"] };
  const good: readonly (readonly [string, unknown])[] = [
    ["http://127.0.0.1:2379", { hostname: "127.0.0.1", port: 2379 }],
    ["10.0.0.1:1234", { hostname: "10.0.0.1", port: 1234 }],
    ["etcd.example", { hostname: "etcd.example", port: 2379 }],
    ["https://etcd.example", { hostname: "etcd.example", port: 2379, tls }],
    ["https://[fd01::1]:443/", { hostname: "fd01::1", port: 443, tls }],
    ["http://e:80", { hostname: "e", port: 80 }],
  ];
  for (const [text, expected] of good) {
    assert.deepEqual(parseEndpoint(text, tls), expected, text);
  }
});

Deno.test("parseEndpoint() refuses what is no host and port", () => {
  const bad = [
    "",
    "ftp://a",
    "http://",
    "http://a/b",
    "http://a?b",
    "unix:///x",
  ];
  for (const text of bad) {
    assert.throws(() => parseEndpoint(text), (error) => {
      assert.ok(error instanceof SyntaxError, text);
      assert.ok(error.message.includes(`"${text}"`));
      return true;
    }, text);
  }
});

Deno.test("parseEndpoint() tells nobody the password in an endpoint", () => {
  for (
    const text of [
      "http://user:s3cret@etcd:2379",
      "https://user:s3cret@etcd",
      "user:s3cret@etcd:2379",
      "http://:s3cret@etcd",
      "http://user:s3cret@odd@etcd",
      "http://user:s3cret/@etcd",
      "http://user:s3cret?#@etcd:port",
      "HTTP://s3cret@etcd:99999",
      "ftp://user:s3cret@etcd",
      "user:s3cret\n@etcd",
    ]
  ) {
    assert.throws(() => parseEndpoint(text), (error) => {
      assert.ok(error instanceof SyntaxError, text);
      assert.doesNotMatch(error.message, /s3cret/);
      assert.match(error.message, /\*\*\*@/);
      return true;
    }, text);
  }
});
