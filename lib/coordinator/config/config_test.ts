import type { JsonObject } from "../../json/mod.ts";
import assert from "node:assert/strict";
import { CniError } from "../../cni/mod.ts";
import { parseGiven } from "./config.ts";
import { requireServices, settingsOf } from "./defaults.ts";

/** What a runtime would get: the code and the message. */
function refusal(fn: () => unknown): string {
  try {
    fn();
  } catch (error) {
    if (!(error instanceof CniError)) throw error;
    // What is wrong with the shape of JSON the message says.
    if (error.code !== 6) assert.notEqual(error.details, "");
    return `${error.code} ${error.message}`;
  }
  return "accepted";
}

const REFUSED: readonly (readonly [JsonObject, string])[] = [
  [{ mode: "other" }, "7 unknown tuneMode: other"],
  [
    { podMACPrefix: "01:10" },
    '7 invalid podMACPrefix "01:10": not a unicast MAC: the lowest bit of the first byte must be 0',
  ],
  ...["0a-1b", "0a:1", "zz:zz", "0a:1b:2c"].map((text) =>
    [
      { podMACPrefix: text },
      `7 invalid podMACPrefix "${text}": not a valid MAC prefix`,
    ] as const
  ),
  ...["podDefaultCniNic", "podDefaultRouteNic", "podDefaultRouteNIC"].flatMap((
    key,
  ) =>
    ["a".repeat(100_000), "a/b", "eth%d", "net1\0"].map((name) =>
      [
        { [key]: name },
        `7 invalid ${key} ${JSON.stringify(name.slice(0, 20))}`,
      ] as const
    )
  ),
  [{ podRPFilter: 3 }, "7 invalid rp_filter value 3"],
  [{ vethMTU: 0 }, "7 vethMTU must be greater than 0"],
  [{ vethMTU: -5 }, "7 vethMTU must be greater than 0"],
  [{ vethMTU: 67 }, "7 invalid vethMTU 67"],
  [{ txQueueLen: -1 }, "7 invalid txQueueLen value -1"],
  [{ serviceCIDR: ["10.0.0.0/33"] }, "7 invalid CIDR address: 10.0.0.0/33"],
  [{ overlayPodCIDR: ["x"] }, "7 invalid CIDR address: x"],
  [{ hijackCIDR: [""] }, "7 invalid CIDR address: "],
  [
    { policyRoutes: [{ dst: "10.0.0.0/8", gw: "fd00::1" }] },
    '7 route dst "10.0.0.0/8" and gw "fd00::1" must use the same IP family',
  ],
  [
    { policyRoutes: [{ dst: "10.0.0.0/8", gw: "gate" }] },
    '7 invalid route gw "gate"',
  ],
  [{ policyRoutes: [{ gw: "10.0.0.1" }] }, '7 invalid route dst ""'],
  [{ hostRuleTable: 0 }, "7 invalid hostRuleTable 0"],
  [{ hostRuleTable: 254 }, "7 invalid hostRuleTable 254"],
  ...["fd00::1", "0.0.0.0", "127.0.0.1", "224.0.0.1"].map((text) =>
    [
      { vethLinkAddress: text },
      `7 invalid vethLinkAddress "${text}"`,
    ] as const
  ),
  [
    { detectOptions: { retries: 11 } },
    "7 invalid detectOptions.retries 11",
  ],
  ...["soon", "-1s", "6s", "1h", "0"].map((timeout) =>
    [
      { detectOptions: { timeout } },
      `7 invalid detectOptions.timeout "${timeout}"`,
    ] as const
  ),
  [{ logOptions: { logLevel: "loud" } }, "7 unsupported log level loud"],
  // Another type of JSON is no value that one could mend by another value.
  [{ mode: 1 }, "6 invalid mode: must be a string"],
  [{ podDefaultCniNic: true }, "6 invalid podDefaultCniNic: must be a string"],
  [{ tunePodRoutes: "yes" }, "6 invalid tunePodRoutes: must be true or false"],
  [{ hijackCIDR: "10.0.0.0/8" }, "6 invalid hijackCIDR: must be an array"],
  [{ hijackCIDR: [4] }, "6 invalid hijackCIDR[0]: must be a string"],
  [{ txQueueLen: 1.5 }, "6 invalid txQueueLen: must be a whole number"],
  [
    { logOptions: { logFile: "/etc/passwd" } },
    '7 invalid logFile "/etc/passwd"',
  ],
  [
    { logOptions: { logFile: "/var/log/../../etc/x" } },
    '7 invalid logFile "/var/log/../../etc/x"',
  ],
  [{ logOptions: { logMaxSize: -1 } }, "7 invalid logMaxSize -1"],
  [{ logOptions: [] }, "6 invalid logOptions: must be an object"],
  [{ policyRoutes: ["x"] }, "6 invalid policyRoutes[0]: must be an object"],
];

for (const [json, expected] of REFUSED) {
  Deno.test(`parseGiven() refuses ${JSON.stringify(json)}`, () => {
    assert.equal(refusal(() => parseGiven(json)), expected);
  });
}

const TEXTS: readonly (readonly [JsonObject, object])[] = [
  [{ mode: "disabled" }, { mode: "disable" }],
  [{ mode: " underlay " }, { mode: "underlay" }],
  [{ podMACPrefix: "0A:1b" }, { macPrefix: "0a:1b" }],
  [{ podRPFilter: -7 }, { podRpFilter: -7 }],
  [{ vethMTU: 1400, txQueueLen: 2000 }, { vethMtu: 1400, txQueueLength: 2000 }],
  ...["169.254.200.1", "1.0.0.1", "223.0.0.1", "126.0.0.1", "128.0.0.1"].map(
    (text) => [{ vethLinkAddress: text }, { vethLinkAddress: text }] as const,
  ),
  [{ hijackCIDR: [" 10.0.0.0/8 ", "10.1.2.3", "fd00::1"] }, {
    hijackCidrs: ["10.0.0.0/8", "10.1.2.3/32", "fd00::1/128"],
  }],
  [{ policyRoutes: [{ dst: "198.18.0.1", gw: "10.6.0.1" }] }, {
    policyRoutes: [{ destination: "198.18.0.1/32", gateway: "10.6.0.1" }],
  }],
  [{ detectOptions: { retries: 1, interval: "1.5s" } }, {
    detectTimes: { retries: 1, intervalMs: 1500, timeoutMs: 100 },
  }],
  // Unset, as Go's encoders write it.
  [{
    mode: "",
    hijackCIDR: [],
    serviceCIDR: null,
    tunePodRoutes: null,
    vethMTU: null,
    podMACPrefix: "",
    policyRoutes: null,
    logOptions: null,
  }, {}],
];

for (const [json, expected] of TEXTS) {
  Deno.test(`parseGiven() reads ${JSON.stringify(json)}`, () => {
    const given = JSON.parse(JSON.stringify(parseGiven(json)));
    assert.deepEqual(given, expected);
  });
}

Deno.test("parseGiven() takes the least and the most of a number, and nothing beyond", () => {
  const most = 0xffff_ffff;
  const numbers: readonly (readonly [
    (n: number) => JsonObject,
    readonly number[],
    readonly number[],
  ])[] = [
    [
      (n) => ({ hostRuleTable: n }),
      [1, 251, 256, most],
      [0, 252, 255, most + 1],
    ],
    [(n) => ({ podRPFilter: n }), [-1, 0, 2], [3]],
    [(n) => ({ txQueueLen: n }), [0, most], [-1, most + 1]],
    [(n) => ({ vethMTU: n }), [68, 65535], [67, 65536]],
    [(n) => ({ detectOptions: { retries: n } }), [1, 10], [0, 11]],
  ];
  for (const [jsonOf, good, bad] of numbers) {
    for (const n of good) {
      assert.equal(refusal(() => parseGiven(jsonOf(n))), "accepted", `${n}`);
    }
    for (const n of bad) {
      assert.match(refusal(() => parseGiven(jsonOf(n))), /^7 invalid/, `${n}`);
    }
  }
});

Deno.test("settingsOf() takes each value from the first source that has it", () => {
  const settings = settingsOf([
    parseGiven({ mode: "underlay", txQueueLen: 0, serviceCIDR: [] }),
    parseGiven({
      mode: "overlay",
      txQueueLen: 5,
      serviceCIDR: ["10.9.0.0/16"],
    }),
    parseGiven({ podDefaultCniNic: "foo0", hijackCIDR: ["10.9.0.0/16"] }),
  ]);
  assert.equal(settings.mode, "underlay");
  assert.equal(settings.txQueueLength, 0);
  assert.equal(settings.firstNic, "foo0");
  assert.deepEqual(settings.hijacked.map(String), ["10.9.0.0/16"]);
  const { mode, firstNic, hostRuleTable, vethMtu, podRpFilter, tunePodRoutes } =
    settingsOf([]);
  assert.deepEqual(
    { mode, firstNic, hostRuleTable, vethMtu, podRpFilter, tunePodRoutes },
    {
      mode: "auto",
      firstNic: "eth0",
      hostRuleTable: 500,
      vethMtu: 1500,
      podRpFilter: 0,
      tunePodRoutes: true,
    },
  );
});

Deno.test("requireServices() refuses with code 11 until a source has the Service CIDRs", () => {
  const without = parseGiven({ overlayPodCIDR: ["10.1.0.0/16"] });
  const services = parseGiven({ serviceCIDR: ["10.96.0.0/12"] });
  assert.equal(
    refusal(() => requireServices([without])),
    "11 coordinator config not found",
  );
  assert.equal(refusal(() => requireServices([without, services])), "accepted");
});

/** A value of each key other than the one without it. */
const EACH_KEY: Readonly<
  Record<keyof ReturnType<typeof parseGiven>, JsonObject>
> = {
  mode: { mode: "overlay" },
  firstNic: { podDefaultCniNic: "net0" },
  defaultRouteNic: { podDefaultRouteNIC: "net1" },
  tunePodRoutes: { tunePodRoutes: false },
  overlayPodCidrs: { overlayPodCIDR: ["10.9.0.0/16"] },
  serviceCidrs: { serviceCIDR: ["10.8.0.0/16"] },
  hijackCidrs: { hijackCIDR: ["10.7.0.0/16"] },
  policyRoutes: { policyRoutes: [{ dst: "10.6.0.0/16", gw: "10.5.0.1" }] },
  hostRuleTable: { hostRuleTable: 501 },
  podRpFilter: { podRPFilter: 2 },
  txQueueLength: { txQueueLen: 77 },
  macPrefix: { podMACPrefix: "0a:1b" },
  vethLinkAddress: { vethLinkAddress: "169.254.7.7" },
  vethMtu: { vethMTU: 1400 },
  detectIpConflict: { detectIPConflict: true },
  detectGateway: { detectGateway: true },
  detectTimes: { detectOptions: { retries: 7, interval: "20ms" } },
};

Deno.test("field-ignored (spider#3282): each key of a configuration has its effect on the settings", () => {
  const without = settingsOf([parseGiven({})]);
  for (const [key, json] of Object.entries(EACH_KEY)) {
    assert.notDeepEqual(settingsOf([parseGiven(json)]), without, key);
    assert.notDeepEqual(
      settingsOf([parseGiven({}), parseGiven(json)]),
      without,
      key,
    );
  }
});
