import assert from "node:assert/strict";
import {
  CNI_VERSIONS,
  CniError,
  compareVersions,
  convertResult,
  ErrorCode,
  parseResult,
  versionReply,
} from "./mod.ts";

const DUAL = {
  cniVersion: "1.1.0",
  interfaces: [
    { name: "eth0", mac: "0a:00:00:00:00:01", sandbox: "/run/netns/b0" },
    { name: "veth2fb6b94f", mac: "0a:00:00:00:00:02", mtu: 1450 },
  ],
  ips: [
    { address: "10.1.2.3/32", interface: 0 },
    { address: "fd02::1/128", interface: 0 },
  ],
};

const RICH = {
  ...DUAL,
  routes: [{ dst: "0.0.0.0/0", gw: "169.254.1.1", mtu: 1400, table: 0 }],
  dns: { nameservers: ["10.0.0.10"], search: ["a", "b"] },
};

Deno.test("convertResult() to 1.1.0 gives back what was parsed", () => {
  for (const result of [DUAL, RICH]) {
    assert.deepEqual(convertResult(parseResult(result), "1.1.0"), result);
  }
});

Deno.test("convertResult() to 1.0.0 drops what 1.1.0 added", () => {
  assert.deepEqual(convertResult(parseResult(RICH), "1.0.0"), {
    ...RICH,
    cniVersion: "1.0.0",
    interfaces: [
      { name: "eth0", mac: "0a:00:00:00:00:01", sandbox: "/run/netns/b0" },
      { name: "veth2fb6b94f", mac: "0a:00:00:00:00:02" },
    ],
    routes: [{ dst: "0.0.0.0/0", gw: "169.254.1.1" }],
  });
});

for (const version of ["0.3.1", "0.4.0"]) {
  Deno.test(`convertResult() to ${version} has IP versions and dns`, () => {
    assert.deepEqual(convertResult(parseResult(DUAL), version), {
      cniVersion: version,
      interfaces: [
        { name: "eth0", mac: "0a:00:00:00:00:01", sandbox: "/run/netns/b0" },
        { name: "veth2fb6b94f", mac: "0a:00:00:00:00:02" },
      ],
      ips: [
        { version: "4", address: "10.1.2.3/32", interface: 0 },
        { version: "6", address: "fd02::1/128", interface: 0 },
      ],
      dns: {},
    });
  });
}

Deno.test("parseResult() reads what convertResult() wrote, in any version", () => {
  for (const version of CNI_VERSIONS) {
    const converted = convertResult(parseResult(RICH), version);
    const again = convertResult(parseResult(converted), version);
    assert.deepEqual(again, converted);
  }
});

Deno.test("parseResult() and convertResult() refuse foreign versions", () => {
  const isIncompatible = (error: unknown) =>
    error instanceof CniError &&
    error.code === ErrorCode.INCOMPATIBLE_CNI_VERSION;
  assert.throws(() => parseResult({ cniVersion: "0.2.0" }), isIncompatible);
  assert.throws(
    () => convertResult(parseResult(DUAL), "0.2.0"),
    isIncompatible,
  );
});

for (
  const [what, result] of Object.entries({
    "interfaces that are no array": { interfaces: {} },
    "an interface that is a string": { interfaces: ["eth0"] },
    "a MAC that is a number": { interfaces: [{ name: "eth0", mac: 1 }] },
    "an address that is missing": { ips: [{}] },
    "an index that is no integer": {
      interfaces: [{ name: "a" }],
      ips: [{ address: "10.0.0.1/32", interface: 0.5 }],
    },
    "a route without destination": { routes: [{ gw: "10.0.0.1" }] },
    "name servers that are numbers": { dns: { nameservers: [1] } },
  })
) {
  Deno.test(`parseResult() refuses ${what}`, () => {
    assert.throws(
      () => parseResult(result),
      (error) =>
        error instanceof CniError && error.code === ErrorCode.DECODING_FAILURE,
    );
  });
}

Deno.test("compareVersions() compares numbers, not text", () => {
  assert.ok(compareVersions("0.10.0", "0.9.1") > 0);
  assert.ok(compareVersions("0.4.0", "1.0.0") < 0);
  assert.equal(compareVersions("1.0", "1.0.0"), 0);
  for (const text of ["", "1.", "v1", "1.0.0.0", "1e1"]) {
    assert.throws(() => compareVersions(text, "1.0.0"), SyntaxError);
  }
});

Deno.test("versionReply() is one line with all versions", () => {
  assert.equal(
    versionReply(),
    '{"cniVersion":"1.1.0","supportedVersions":["0.3.1","0.4.0","1.0.0","1.1.0"]}',
  );
});

Deno.test("CniError.toJson() says the version, and details only if any", () => {
  const error = new CniError("no", { code: 11 });
  assert.deepEqual(error.toJson("0.4.0"), {
    cniVersion: "0.4.0",
    code: 11,
    msg: "no",
  });
  const detailed = new CniError("no", { code: 11, details: "why" });
  assert.equal(detailed.toJson("1.0.0").details, "why");
});
