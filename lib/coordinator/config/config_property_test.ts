import type { JsonObject } from "../../json/mod.ts";
import assert from "node:assert/strict";
import fc from "fast-check";
import { CniError } from "../../cni/mod.ts";
import { parseGiven } from "./config.ts";
import { settingsOf } from "./defaults.ts";

const KEYS = [
  "mode",
  "podDefaultCniNic",
  "podDefaultRouteNic",
  "tunePodRoutes",
  "overlayPodCIDR",
  "serviceCIDR",
  "hijackCIDR",
  "policyRoutes",
  "hostRuleTable",
  "podRPFilter",
  "txQueueLen",
  "podMACPrefix",
  "vethLinkAddress",
  "vethMTU",
  "logOptions",
  "detectGateway",
];

/** What people write, nearly right, and what they do not. */
const VALUES = fc.oneof(
  fc.constantFrom(
    ...["auto", "0a:1b", "0a-1b", "01:10", " 10.0.0.0/8 ", "fd00::/64"],
    ...["10.1.2.3", "10.0.0.0/08", "", "::ffff:1.2.3.4/96", "0x10.0.0.1"],
  ),
  fc.array(fc.constantFrom("10.0.0.0/8", "10.0.0.256", "fd00::1", "", null)),
  fc.array(fc.record({ dst: fc.string(), gw: fc.string() })),
  fc.integer(),
  fc.jsonValue(),
);

Deno.test("parseGiven() reads any JSON, or refuses it with code 6 or 7", () => {
  let refused = 0;
  const configs = fc.uniqueArray(fc.tuple(fc.constantFrom(...KEYS), VALUES), {
    selector: ([key]) => key,
    maxLength: 4,
  });
  fc.assert(
    fc.property(configs, (entries) => {
      const json: JsonObject = Object.fromEntries(entries);
      try {
        const settings = settingsOf([parseGiven(json)]);
        assert.ok(settings.vethMtu > 0 && settings.hostRuleTable > 0);
        assert.ok(settings.podRpFilter <= 2 && settings.txQueueLength >= 0);
      } catch (error) {
        if (!(error instanceof CniError)) throw error;
        assert.ok([6, 7].includes(error.code), error.message);
        refused++;
      }
    }),
    { numRuns: 1000 },
  );
  assert.ok(refused > 100 && refused < 1000, `${refused}`);
});
