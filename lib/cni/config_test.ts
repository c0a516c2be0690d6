import assert from "node:assert/strict";
import {
  checkCommandVersion,
  CNI_VERSIONS,
  CniError,
  ErrorCode,
  parseConfig,
  versionForErrors,
} from "./mod.ts";

const CONF = { cniVersion: "1.0.0", name: "k8s-pod-network", type: "plugin" };

function parse(overrides: Record<string, unknown>) {
  return parseConfig(JSON.stringify({ ...CONF, ...overrides }));
}

Deno.test("SV-13: parseConfig() reads the socket, or none", () => {
  assert.equal(parse({}).socket, undefined);
  assert.equal(parse({ socket: "/run/other.sock" }).socket, "/run/other.sock");
  assert.throws(() => parse({ socket: "run/other.sock" }), {
    code: 7,
    message: "socket is relative: run/other.sock",
  });
});

Deno.test("SV-13: parseConfig() reads prevResult of 0.4.0", () => {
  const { prevResult } = parse({
    cniVersion: "0.4.0",
    prevResult: {
      interfaces: [{ name: "eth0", sandbox: "/run/netns/b0" }],
      ips: [{ version: "4", address: "10.1.2.3/32", interface: 0 }],
      dns: {},
    },
  });
  assert.deepEqual(prevResult, {
    cniVersion: "0.4.0",
    interfaces: [{ name: "eth0", sandbox: "/run/netns/b0" }],
    ips: [{ address: "10.1.2.3/32", interface: 0 }],
    routes: [],
    dns: {},
  });
});

Deno.test("parseConfig() keeps runtimeConfig and the whole configuration", () => {
  const runtimeConfig = { "io.kubernetes.cri.pod-annotations": { a: "b" } };
  const conf = parse({ runtimeConfig, extra: 1 });
  assert.deepEqual(conf.runtimeConfig, runtimeConfig);
  assert.equal(conf.raw["extra"], 1);
});

Deno.test("parseConfig() tells an empty list of attachments from none", () => {
  const key = "cni.dev/valid-attachments";
  const one = [{ containerID: "c", ifname: "eth0" }];
  assert.deepEqual(parse({ [key]: one }).validAttachments, [
    { containerId: "c", ifname: "eth0" },
  ]);
  assert.deepEqual(parse({ [key]: [] }).validAttachments, []);
  assert.deepEqual(parse({ [key]: null }).validAttachments, []);
  assert.equal(parse({}).validAttachments, undefined);
});

const { INCOMPATIBLE_CNI_VERSION, DECODING_FAILURE, INVALID_NETWORK_CONFIG } =
  ErrorCode;

const REFUSED: [string, string, number][] = [
  ["broken JSON", "{", DECODING_FAILURE],
  ["nothing", "", DECODING_FAILURE],
  ["an array", "[]", DECODING_FAILURE],
  ["null", "null", DECODING_FAILURE],
  ["a name that is a number", '{"name":1}', DECODING_FAILURE],
  ["no name", '{"cniVersion":"1.0.0"}', INVALID_NETWORK_CONFIG],
  [
    "a malformed name",
    '{"cniVersion":"1.0.0","name":"a b"}',
    INVALID_NETWORK_CONFIG,
  ],
  ["no version", '{"name":"a"}', INCOMPATIBLE_CNI_VERSION],
  [
    "a foreign version",
    '{"name":"a","cniVersion":"1.2.0"}',
    INCOMPATIBLE_CNI_VERSION,
  ],
  [
    "a prevResult that is no object",
    '{"name":"a","cniVersion":"1.0.0","prevResult":1}',
    DECODING_FAILURE,
  ],
  [
    "an address of an interface that is not there",
    '{"name":"a","cniVersion":"1.0.0","prevResult":{"ips":[{"address":"1.1.1.1/32","interface":0}]}}',
    DECODING_FAILURE,
  ],
];

for (const [what, text, code] of REFUSED) {
  Deno.test(`parseConfig() refuses ${what} with ${code}`, () => {
    assert.throws(
      () => parseConfig(text),
      (error) => error instanceof CniError && error.code === code,
    );
  });
}

Deno.test("parseConfig() can do without a prevResult that is broken", () => {
  const text = JSON.stringify({ ...CONF, prevResult: { ips: 1 } });
  assert.equal(parseConfig(text, { lenient: true }).prevResult, undefined);
});

Deno.test("versionForErrors() is the configuration's, if we know it", () => {
  assert.equal(versionForErrors('{"cniVersion":"0.3.1"}'), "0.3.1");
  for (const text of ["", "[]", "{}", '{"cniVersion":"9.0.0"}', "{"]) {
    assert.equal(versionForErrors(text), undefined);
  }
});

const FIRST: Record<string, string> = {
  ADD: "0.3.1",
  DEL: "0.3.1",
  CHECK: "0.4.0",
  GC: "1.1.0",
  STATUS: "1.1.0",
};

for (const [command, first] of Object.entries(FIRST)) {
  Deno.test(`checkCommandVersion() has ${command} since ${first}`, () => {
    const allowed = CNI_VERSIONS.filter((version) => {
      try {
        checkCommandVersion(command, version);
        return true;
      } catch (error) {
        assert.ok(error instanceof CniError);
        assert.equal(error.code, INCOMPATIBLE_CNI_VERSION);
        return false;
      }
    });
    assert.deepEqual(allowed, CNI_VERSIONS.slice(CNI_VERSIONS.indexOf(first)));
  });
}
