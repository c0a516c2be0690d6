import assert from "node:assert/strict";
import { CniError, ErrorCode, parseArgs, parseEnv } from "./mod.ts";

const FULL = {
  CNI_COMMAND: "ADD",
  CNI_CONTAINERID: "cid0",
  CNI_NETNS: "/run/netns/b0",
  CNI_IFNAME: "eth0",
  CNI_ARGS: "IgnoreUnknown=1",
  CNI_PATH: "/opt/cni/bin",
};

function parse(overrides: Record<string, string>) {
  const env = new Map(Object.entries({ ...FULL, ...overrides }));
  return parseEnv((name) => env.get(name));
}

/** Runs `fn` and returns the CniError it throws. */
function cniError(fn: () => unknown): CniError {
  try {
    fn();
  } catch (error) {
    if (error instanceof CniError) return error;
    throw error;
  }
  assert.fail("nothing was thrown");
}

Deno.test("parseEnv() reads all variables", () => {
  assert.deepEqual(parse({}), {
    command: "ADD",
    containerId: "cid0",
    netns: "/run/netns/b0",
    ifname: "eth0",
    path: "/opt/cni/bin",
    args: "IgnoreUnknown=1",
    netnsOverride: false,
  });
});

for (const value of ["1", "true", "TRUE"]) {
  Deno.test(`parseEnv() takes CNI_NETNS_OVERRIDE=${value}`, () => {
    assert.equal(parse({ CNI_NETNS_OVERRIDE: value }).netnsOverride, true);
  });
}

const NEEDS: Record<string, string[]> = {
  ADD: ["CNI_CONTAINERID", "CNI_NETNS", "CNI_IFNAME", "CNI_PATH"],
  CHECK: ["CNI_CONTAINERID", "CNI_NETNS", "CNI_IFNAME", "CNI_PATH"],
  DEL: ["CNI_CONTAINERID", "CNI_IFNAME", "CNI_PATH"],
  GC: ["CNI_PATH"],
  STATUS: ["CNI_PATH"],
};

for (const [command, names] of Object.entries(NEEDS)) {
  for (const name of Object.keys(FULL).slice(1)) {
    const needed = names.includes(name);
    const verb = needed ? "refuses" : "accepts";
    Deno.test(`parseEnv() ${verb} ${command} without ${name}`, () => {
      const run = () => parse({ CNI_COMMAND: command, [name]: "" });
      if (!needed) return void run();
      const error = cniError(run);
      assert.equal(error.code, ErrorCode.INVALID_ENVIRONMENT_VARIABLES);
      assert.equal(error.message, `required env variables [${name}] missing`);
    });
  }
}

Deno.test("parseEnv() names every missing variable at once", () => {
  const error = cniError(() => parse({ CNI_NETNS: "", CNI_IFNAME: "" }));
  assert.match(error.message, /\[CNI_NETNS,CNI_IFNAME\]/);
});

const REFUSED: [string, string][] = [
  ["CNI_COMMAND", "UPDATE"],
  ["CNI_COMMAND", "toString"],
  ["CNI_CONTAINERID", "-cid"],
  ["CNI_CONTAINERID", "cid/0"],
  ["CNI_CONTAINERID", "cid\n"],
  ["CNI_IFNAME", "0123456789abcdef"],
  ["CNI_IFNAME", "eth%d"],
  ["CNI_IFNAME", "üüüüüüüü"],
  ["CNI_IFNAME", "."],
  ["CNI_IFNAME", ".."],
  ["CNI_IFNAME", "eth/0"],
  ["CNI_IFNAME", "eth:0"],
  ["CNI_IFNAME", "eth 0"],
  ["CNI_IFNAME", "eth\u00a00"],
];

for (const [name, value] of REFUSED) {
  Deno.test(`parseEnv() refuses ${name}=${JSON.stringify(value)}`, () => {
    const error = cniError(() => parse({ [name]: value }));
    assert.equal(error.code, ErrorCode.INVALID_ENVIRONMENT_VARIABLES);
  });
}

Deno.test("parseEnv() lets DEL pass with the name that ADD refused", () => {
  const env = parse({ CNI_COMMAND: "DEL", CNI_IFNAME: "eth%d" });
  assert.equal(env.ifname, "eth%d");
});

Deno.test("parseEnv() does not look at names that GC does not need", () => {
  assert.equal(
    parse({ CNI_COMMAND: "GC", CNI_IFNAME: "a/b" }).command,
    "GC",
  );
});

const KEYS = ["K8S_POD_NAME", "K8S_POD_NAMESPACE"];

Deno.test("SV-12: parseArgs() reads Kubernetes' keys", () => {
  const text =
    "IgnoreUnknown=1;K8S_POD_NAMESPACE=ns;K8S_POD_NAME=pod;K8S_POD_UID=u";
  assert.deepEqual(parseArgs(text, KEYS), {
    K8S_POD_NAMESPACE: "ns",
    K8S_POD_NAME: "pod",
  });
});

Deno.test("parseArgs() takes nothing, empty pairs and values with =", () => {
  assert.deepEqual(parseArgs("", KEYS), {});
  assert.deepEqual(parseArgs(";K8S_POD_NAME=a=b;", KEYS), {
    K8S_POD_NAME: "a=b",
  });
});

for (
  const text of [
    "FOO=1",
    "IgnoreUnknown=0;FOO=1",
    "IgnoreUnknown=false;FOO=1",
    "IgnoreUnknown=maybe",
    "K8S_POD_NAME",
    "=1",
  ]
) {
  Deno.test(`parseArgs() refuses "${text}"`, () => {
    const error = cniError(() => parseArgs(text, KEYS));
    assert.equal(error.code, ErrorCode.INVALID_ENVIRONMENT_VARIABLES);
  });
}

Deno.test("parseArgs() knows IgnoreUnknown wherever it stands", () => {
  for (const text of ["FOO=1;IgnoreUnknown=True", "IgnoreUnknown=1;FOO=1"]) {
    assert.deepEqual(parseArgs(text, KEYS), {});
  }
});
