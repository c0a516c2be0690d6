import assert from "node:assert/strict";
import fc from "fast-check";
import { LinkNameError } from "./errors.ts";
import { formatAlias, formatHuskAlias, parseAlias } from "./alias.ts";

const IDENTITY = { pool: "default", containerId: "cid0", ifname: "eth0" };

Deno.test("formatAlias() writes what upstream writes", () => {
  assert.equal(formatAlias(IDENTITY), "COIL:default:cid0:eth0");
  assert.equal(
    formatAlias({ ...IDENTITY, pool: "" }),
    "COIL::cid0:eth0",
  );
  assert.equal(formatHuskAlias(IDENTITY), "COIL-HUSK:default:cid0:eth0");
});

Deno.test("formatAlias() refuses what the kernel or parseAlias() would read otherwise", () => {
  for (
    const change of [
      { containerId: "" },
      { ifname: "" },
      { containerId: "a:b" },
      { pool: "a:b" },
      { containerId: "a\nb" },
      { containerId: "a\0b" },
      { containerId: "x".repeat(240) },
      { containerId: "ü".repeat(120) },
    ]
  ) {
    assert.throws(() => formatAlias({ ...IDENTITY, ...change }), LinkNameError);
  }
});

Deno.test("formatAlias() leaves room for the husk's alias", () => {
  // 255 bytes less "COIL-HUSK:", "default:" and ":eth0".
  const containerId = "x".repeat(255 - 10 - 8 - 5);
  assert.equal(formatHuskAlias({ ...IDENTITY, containerId }).length, 255);
  assert.throws(
    () => formatAlias({ ...IDENTITY, containerId: `${containerId}x` }),
    LinkNameError,
  );
});

Deno.test("parseAlias() tells ours from malformed and foreign ones", () => {
  assert.deepEqual(parseAlias("COIL:default:cid0:eth0"), {
    kind: "pod",
    identity: IDENTITY,
  });
  assert.deepEqual(parseAlias("COIL-HUSK:default:cid0:eth0"), {
    kind: "husk",
    identity: IDENTITY,
  });
  for (
    const alias of [
      "COIL:",
      "COIL:a:b",
      "COIL:a:b:c:d",
      "COIL:a::c",
      "COIL:a:b:",
    ]
  ) {
    assert.deepEqual(parseAlias(alias), { kind: "malformed" }, alias);
  }
  for (const alias of [undefined, "", "uplink", "COILS:a:b:c", "coil:a:b:c"]) {
    assert.deepEqual(parseAlias(alias), { kind: "foreign" });
  }
});

Deno.test("parseAlias() gives back what formatAlias() was given", () => {
  const part = fc.stringMatching(/^[a-zA-Z0-9._-]{1,60}$/);
  fc.assert(
    fc.property(part, part, part, (pool, containerId, ifname) => {
      const identity = { pool, containerId, ifname };
      assert.deepEqual(parseAlias(formatAlias(identity)), {
        kind: "pod",
        identity,
      });
      assert.deepEqual(parseAlias(formatHuskAlias(identity)), {
        kind: "husk",
        identity,
      });
    }),
  );
});
