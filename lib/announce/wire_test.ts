import assert from "node:assert/strict";
import { Address } from "../inet/mod.ts";
import {
  type Announcement,
  formatAnnouncement,
  formatLossReport,
  formatRefusal,
  formatSourceReport,
  parseAnnouncement,
  parseLossReport,
  parseRefusal,
  parseSourceReport,
} from "./mod.ts";

const MESSAGE = {
  egress: { namespace: "nat", name: "internet" },
  pod: { namespace: "team", name: "client-0", uid: "8d2a-41" },
  addresses: ["10.1.1.2", "fd01::2"],
  block: "default-3",
};

Deno.test("parseAnnouncement() reads what formatAnnouncement() writes", () => {
  const announcement: Announcement = {
    ...MESSAGE,
    addresses: MESSAGE.addresses.map((text) => Address.parse(text)),
  };
  const text = formatAnnouncement(announcement);
  assert.deepEqual(JSON.parse(text), MESSAGE);
  assert.deepEqual(parseAnnouncement(text), announcement);
});

Deno.test("parseAnnouncement() reads messages without a block", () => {
  const { block: _none, ...older } = MESSAGE;
  assert.equal(parseAnnouncement(JSON.stringify(older)).block, undefined);
});

Deno.test("parseAnnouncement() leaves members of a newer version alone", () => {
  const text = JSON.stringify({ ...MESSAGE, hurry: true });
  assert.equal(parseAnnouncement(text).pod.name, "client-0");
});

const { pod, egress } = MESSAGE;
for (
  const [what, message, reason] of [
    ["text", "hello", /not JSON/],
    ["nothing", "", /not JSON/],
    ["a list", [], /"announcement" must be an object/],
    ["null", null, /"announcement" must be an object/],
    ["no Egress", { pod, addresses: ["10.1.1.2"] }, /"egress" must be/],
    ["a path as name", {
      ...MESSAGE,
      egress: { ...egress, name: "../secrets" },
    }, /"egress\.name"/],
    ["no UID", { ...MESSAGE, pod: { ...pod, uid: "" } }, /"pod\.uid"/],
    ["a number as UID", { ...MESSAGE, pod: { ...pod, uid: 1 } }, /"pod\.uid"/],
    ["a long name", {
      ...MESSAGE,
      pod: { ...pod, name: "a".repeat(254) },
    }, /"pod\.name"/],
    ["no address", { ...MESSAGE, addresses: [] }, /one of each family|one at/],
    ["no list", { ...MESSAGE, addresses: "10.1.1.2" }, /"addresses"/],
    ["two of one family", {
      ...MESSAGE,
      addresses: ["10.1.1.2", "10.1.1.3"],
    }, /each family/],
    [
      "a prefix",
      { ...MESSAGE, addresses: ["10.1.1.2/32"] },
      /not a valid IP address/,
    ],
    ["an address with a zone", {
      ...MESSAGE,
      addresses: ["fe80::1%eth0"],
    }, /not a valid IP address/],
    ["a path as block", { ...MESSAGE, block: "../x" }, /"announcement\.block"/],
    ["far too much", { ...MESSAGE, more: "x".repeat(17_000) }, /longer than/],
  ] as const
) {
  Deno.test(`parseAnnouncement() refuses ${what}`, () => {
    const text = typeof message === "string"
      ? message
      : JSON.stringify(message);
    assert.throws(
      () => parseAnnouncement(text),
      (error) =>
        error instanceof SyntaxError && reason.test(error.message) &&
        error.message.startsWith("Cannot parse announcement: "),
    );
  });
}

Deno.test("parseRefusal() reads the reason, or what there is instead", () => {
  assert.equal(parseRefusal(formatRefusal("not a client")), "not a client");
  assert.equal(parseRefusal("404 page not found\n"), "404 page not found");
  assert.equal(parseRefusal('{"error":3}'), '{"error":3}');
});

const REPORT = {
  egress: MESSAGE.egress,
  losses: [{ gateway: "10.1.9.9", seconds: 3, ended: 12 }],
  suspects: ["10.1.9.10"],
};
const SUSPECTS = REPORT.suspects.map(Address.parse);

Deno.test("parseLossReport() reads what formatLossReport() writes, and that nothing is lost", () => {
  for (const losses of [REPORT.losses, []]) {
    const report = {
      ...REPORT,
      suspects: SUSPECTS,
      losses: losses.map((each) => ({
        ...each,
        gateway: Address.parse(each.gateway),
      })),
    };
    const text = formatLossReport(report);
    assert.deepEqual(JSON.parse(text), { ...REPORT, losses });
    assert.deepEqual(parseLossReport(text), report);
  }
});

Deno.test("formatLossReport() leaves out what parseLossReport() would refuse", () => {
  const [loss] = REPORT.losses;
  assert.ok(loss);
  const losses = Array(65).fill({
    ...loss,
    gateway: Address.parse(loss.gateway),
  });
  const suspects = Array(65).fill(SUSPECTS[0]);
  const parsed = parseLossReport(
    formatLossReport({ ...REPORT, losses, suspects }),
  );
  assert.deepEqual([parsed.losses.length, parsed.suspects.length], [64, 64]);
  const last = Address.parse("2001:db8:ffff:ffff:ffff:ffff:ffff:ffff");
  const longest = parseLossReport(formatLossReport({
    egress: { namespace: "n".repeat(63), name: "e".repeat(253) },
    losses: Array(65)
      .fill({ gateway: last, seconds: 999_999_999, ended: 999_999_999 }),
    suspects: Array(65).fill(last),
  }));
  assert.deepEqual([longest.losses.length, longest.suspects.length], [64, 64]);
  const long = JSON.stringify({ ...REPORT, losses: Array(65).fill(loss) });
  assert.throws(() => parseLossReport(long), /"losses" has more than 64/);
  const more = JSON.stringify({ ...REPORT, suspects: Array(65).fill("::1") });
  assert.throws(() => parseLossReport(more), /"suspects" has more than 64/);
});

Deno.test("parseLossReport() reads the report of a node that knows no suspects, and refuses one that is not an address", () => {
  const { suspects: _, ...older } = REPORT;
  assert.deepEqual(parseLossReport(JSON.stringify(older)).suspects, []);
  const wrong = JSON.stringify({ ...REPORT, suspects: ["nat-1"] });
  assert.throws(() => parseLossReport(wrong), /"suspects" has "nat-1"/);
});

const SOURCES = {
  egress: MESSAGE.egress,
  translated: [{
    source: "10.1.9.9",
    seenAs: "192.0.2.1",
    destination: "203.0.113.9",
  }],
};

Deno.test("parseSourceReport() reads what formatSourceReport() writes, which leaves out what is too much", () => {
  const [each] = SOURCES.translated;
  assert.ok(each);
  const translated = Array(9).fill({
    source: Address.parse(each.source),
    seenAs: Address.parse(each.seenAs),
    destination: Address.parse(each.destination),
  });
  for (const count of [0, 1, 8, 9]) {
    const few = translated.slice(0, count);
    const text = formatSourceReport({ ...SOURCES, translated: few });
    assert.deepEqual(parseSourceReport(text), {
      ...SOURCES,
      translated: few.slice(0, 8),
    });
  }
  const text = formatSourceReport({ ...SOURCES, translated: [translated[0]] });
  assert.deepEqual(JSON.parse(text), SOURCES);
  const long = JSON.stringify({ ...SOURCES, translated: Array(9).fill(each) });
  assert.throws(() => parseSourceReport(long), /"translated" has more than 8/);
});

for (const member of ["source", "seenAs", "destination"]) {
  Deno.test(`parseSourceReport() refuses a report whose ${member} is not an address`, () => {
    for (const wrong of ["nat-1", 7, undefined]) {
      const translated = [{ ...SOURCES.translated[0], [member]: wrong }];
      const text = JSON.stringify({ ...SOURCES, translated });
      const reason = new RegExp(`Cannot parse source report: "${member}" has`);
      assert.throws(() => parseSourceReport(text), reason);
    }
  });
}

for (
  const [what, change, reason] of [
    ["a count below 0", { ended: -1 }, /"ended" must be a whole number/],
    ["a fraction", { seconds: 0.5 }, /"seconds" must be a whole number/],
    ["no count", { ended: undefined }, /"ended" must be/],
    ["no address", { gateway: "nat-1" }, /"gateway" has "nat-1"/],
  ] as const
) {
  Deno.test(`parseLossReport() refuses ${what}`, () => {
    const losses = [{ ...REPORT.losses[0], ...change }];
    const text = JSON.stringify({ ...REPORT, losses });
    assert.throws(() => parseLossReport(text), reason);
    assert.throws(
      () => parseLossReport(text),
      /^SyntaxError: Cannot parse loss/,
    );
  });
}
