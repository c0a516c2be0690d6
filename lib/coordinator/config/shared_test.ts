import assert from "node:assert/strict";
import { CniError } from "../../cni/mod.ts";
import type { SpiderCoordinator } from "../../api/mod.ts";
import { settingsOf } from "./defaults.ts";
import {
  documentOf,
  formatDocument,
  NOTHING_SHARED,
  parseDocument,
  readShared,
  type SharedDocument,
} from "./shared.ts";

function resource(
  spec: SpiderCoordinator["spec"],
  status?: SpiderCoordinator["status"],
): SpiderCoordinator {
  return {
    apiVersion: "spiderpool.spidernet.io/v2beta1",
    kind: "SpiderCoordinator",
    metadata: { name: "default" },
    ...spec && { spec },
    ...status && { status },
  };
}

const SYNCED = {
  phase: "Synced",
  overlayPodCIDR: ["10.244.0.0/16"],
  serviceCIDR: ["10.96.0.0/12", "fd00:96::/108"],
};

/** What a document says, without what is not given. */
function said(document: SharedDocument) {
  const { given, problem } = readShared(document);
  return { ...JSON.parse(JSON.stringify(given)), problem: problem?.message };
}

Deno.test("documentOf() has the resource's fields and the CIDRs of its status", () => {
  const spec = {
    mode: "disabled",
    podCIDRType: "calico",
    podDefaultRouteNIC: "net1",
    hostRuleTable: 200,
    tunePodRoutes: false,
    hostRPFilter: 0,
    vethMTU: null,
  };
  assert.deepEqual(said(documentOf(resource(spec, SYNCED)).document), {
    mode: "disable",
    defaultRouteNic: "net1",
    hostRuleTable: 200,
    tunePodRoutes: false,
    overlayPodCidrs: ["10.244.0.0/16"],
    serviceCidrs: ["10.96.0.0/12", "fd00:96::/108"],
    problem: undefined,
  });
});

Deno.test("documentOf() takes a resource without any field, as an API server without Spiderpool's webhook has it", () => {
  const { document } = documentOf(resource(undefined, { phase: "Synced" }));
  // Known to be none, which is not the same as not known.
  assert.deepEqual(said(document), { serviceCidrs: [], problem: undefined });
  assert.equal(settingsOf([readShared(document).given]).hostRuleTable, 500);
});

Deno.test("documentOf() says why a resource has no CIDRs yet", () => {
  for (
    const [status, reason] of [
      [undefined, "no controller has written its status; "],
      [{ phase: "NotReady", reason: "no kubeadm-config" }, "no kubeadm-config"],
      // As Spiderpool's controller empties the lists.
      [{ phase: "NotReady", reason: "x", serviceCIDR: [] }, "x; "],
    ] as const
  ) {
    const { document } = documentOf(resource({ mode: "underlay" }, status));
    assert.deepEqual(said(document), {
      mode: "underlay",
      problem: "spidercoordinator: default no ready",
    });
    assert.ok(document.problem?.details.startsWith(reason));
  }
});

Deno.test("documentOf() keeps the last CIDRs of a resource that is not ready any longer, and of one that is gone", () => {
  const { document: former } = documentOf(resource({ txQueueLen: 5 }, SYNCED));
  const status = { phase: "NotReady", reason: "x", serviceCIDR: [] };
  const { document } = documentOf(resource({ txQueueLen: 6 }, status), former);
  const { txQueueLength, serviceCidrs, problem } = said(document);
  assert.deepEqual(
    { txQueueLength, serviceCidrs, problem },
    { txQueueLength: 6, serviceCidrs: SYNCED.serviceCIDR, problem: undefined },
  );
  assert.equal(documentOf(undefined, former).document, former);
  assert.equal(documentOf(undefined).document, NOTHING_SHARED);
});

Deno.test("documentOf() goes on with the former values where the new ones cannot be used", () => {
  const { document: former } = documentOf(resource({ vethMTU: 1400 }, SYNCED));
  const bad = resource({ vethMTU: 1300, podMACPrefix: "01:10" }, SYNCED);
  const { document, refused } = documentOf(bad, former);
  assert.equal(said(document).vethMtu, 1400);
  assert.equal(said(document).problem, undefined);
  assert.match(refused?.message ?? "", /invalid podMACPrefix "01:10"/);
  const first = documentOf(bad).document;
  assert.match(first.problem?.message ?? "", /invalid podMACPrefix "01:10"/);
  assert.match(first.problem?.details ?? "", /SpiderCoordinator "default"/);
  assert.equal(readShared(first).given.serviceCidrs, undefined);
});

Deno.test("parseDocument() reads what formatDocument() wrote", () => {
  for (
    const document of [
      documentOf(resource({ mode: "overlay" }, SYNCED)).document,
      documentOf(resource({})).document,
      NOTHING_SHARED,
    ]
  ) {
    const read = parseDocument(formatDocument(document));
    assert.deepEqual(readShared(read), readShared(document));
  }
});

Deno.test("parseDocument() refuses what is cut off or of another form", () => {
  const text = formatDocument(documentOf(resource({}, SYNCED)).document);
  for (let length = 0; length < text.length - 1; length++) {
    assert.throws(() => parseDocument(text.slice(0, length)), SyntaxError);
  }
  assert.throws(
    () => parseDocument(text.replace('"format":1', '"format":2')),
    /their format is 2/,
  );
  const later = text.replace("{", '{"later":true,');
  assert.deepEqual(parseDocument(later), parseDocument(text));
});

Deno.test("parseDocument() names the field that has another type", () => {
  for (
    const [name, fields] of [
      ["config", { config: 5 }],
      ["problem", { problem: 5 }],
      ["message", { problem: { message: 5 } }],
      ["details", { problem: { details: 5 } }],
    ] as const
  ) {
    const text = JSON.stringify({ format: 1, config: {}, ...fields });
    assert.throws(
      () => parseDocument(text),
      (error) =>
        error instanceof CniError &&
        `${error.message} ${error.details}`.includes(name),
    );
  }
});
