import assert from "node:assert/strict";
import { CniError, ErrorCode } from "../../../lib/cni/mod.ts";
import { StatusCode } from "../../../lib/grpc/mod.ts";
import {
  BlockTimeoutError,
  OutOfBlocksError,
  PoolDeletingError,
  PoolNotFoundError,
  PoolPausedError,
  QuarantinedError,
} from "../../../lib/ipam/mod.ts";
import { KubeUnreachableError } from "../../../lib/kube/mod.ts";
import { explain, isExhaustion } from "./address_errors.ts";
import { failureOf, toCallError } from "./cni_errors.ts";
import { FouUnsupportedError } from "../../../lib/netlink/mod.ts";
import { IfnameMissingError } from "../../../lib/podnet/mod.ts";
import {
  EgressNotFoundError,
  InvalidAnnotationError,
  InvalidCallError,
  InvalidEgressError,
  NotReadyError,
  PodNotFoundError,
} from "../base/errors.ts";

const pod = { namespace: "shop", name: "web-0" };
const context = {
  pod,
  pool: "blue",
  from: "namespace" as const,
  poolNames: () => ["default", "global"],
  heldBlocks: () => 2,
};

for (
  const [error, status, code, event] of [
    [new InvalidCallError("x"), "INVALID_ARGUMENT", 4, undefined],
    [new PodNotFoundError("x"), "NOT_FOUND", 3, undefined],
    [new NotReadyError("x"), "UNAVAILABLE", 11, undefined],
    [new KubeUnreachableError("x"), "UNAVAILABLE", 11, undefined],
    [new IfnameMissingError("eth0", "/n"), "INVALID_ARGUMENT", 7, undefined],
    [
      new EgressNotFoundError(pod, {
        kind: "Service",
        namespace: "nat",
        name: "a",
      }),
      "FAILED_PRECONDITION",
      999,
      "EgressNotFound",
    ],
    [
      new InvalidEgressError({ gateway: "nat/a", text: "x" }),
      "FAILED_PRECONDITION",
      999,
      "EgressInvalid",
    ],
    [
      new InvalidAnnotationError("x"),
      "FAILED_PRECONDITION",
      999,
      "EgressInvalid",
    ],
    [
      new FouUnsupportedError(),
      "FAILED_PRECONDITION",
      999,
      "EgressUnsupported",
    ],
    [new Error("x"), "INTERNAL", 999, undefined],
    ["thrown text", "INTERNAL", 999, undefined],
    [new DOMException("x", "TimeoutError"), "DEADLINE_EXCEEDED", 11, undefined],
    [new DOMException("x", "AbortError"), "CANCELLED", 11, undefined],
    [
      explain(new OutOfBlocksError("blue"), context),
      "RESOURCE_EXHAUSTED",
      999,
      "AddressPoolExhausted",
    ],
    [
      explain(new PoolDeletingError("blue"), context),
      "FAILED_PRECONDITION",
      999,
      "AddressPoolDeleting",
    ],
    [
      explain(new PoolPausedError("blue"), context),
      "FAILED_PRECONDITION",
      999,
      "AddressPoolPaused",
    ],
    [
      explain(new PoolNotFoundError("blue"), context),
      "FAILED_PRECONDITION",
      999,
      "AddressPoolNotFound",
    ],
    [
      explain(new BlockTimeoutError("blue", 10_000), context),
      "DEADLINE_EXCEEDED",
      11,
      "AddressBlockTimeout",
    ],
  ] as const
) {
  Deno.test(`failureOf() gives ${error} status ${status} and code ${code}`, () => {
    const failure = failureOf(error);
    assert.equal(failure.status, StatusCode[status]);
    assert.equal(failure.code, code);
    assert.equal(failure.event, event);
  });
}

Deno.test("toCallError() carries the code, the message and the causes", () => {
  const cause = new Error("inner", { cause: new Error("innermost") });
  const error = toCallError(new PodNotFoundError("gone", { cause }));
  assert.equal(error.status, StatusCode.NOT_FOUND);
  assert.equal(error.code, ErrorCode.UNKNOWN_CONTAINER);
  assert.equal(error.message, "gone");
  assert.equal(error.details, "inner: innermost");
});

Deno.test("toCallError() passes a CniError through", () => {
  const error = toCallError(
    new CniError("not yet", {
      code: ErrorCode.PLUGIN_NOT_AVAILABLE,
      details: "why",
    }),
  );
  assert.equal(error.code, 50);
  assert.equal(error.message, "not yet");
  assert.equal(error.details, "why");
});

Deno.test("explain() names the pod, the pool, what was found and what to do", () => {
  const { message } = explain(new PoolNotFoundError("blue"), context);
  assert.match(message, /pod "shop\/web-0"/);
  assert.match(message, /pool "blue"/);
  assert.match(message, /the AddressPool does not exist/);
  assert.match(message, /coil\.cybozu\.com\/pool.*"shop".*default, global/);
});

for (
  const [error, text] of [
    [
      new PoolNotFoundError("blue"),
      'the AddressPool does not exist; create it, or correct annotation "coil.cybozu.com/pool" of namespace "shop" (pools: default, global)',
    ],
    [
      new PoolDeletingError("blue"),
      'the AddressPool is being deleted; choose another one by annotation "coil.cybozu.com/pool" of namespace "shop"',
    ],
    [
      new PoolPausedError("blue"),
      'the AddressPool is paused; choose another one by annotation "coil.cybozu.com/pool" of namespace "shop", or remove spec.paused of the pool',
    ],
    [
      new OutOfBlocksError("blue"),
      "the pool has no free block (out of blocks), and this node's blocks (2) have no free address; append a subnet to the AddressPool, or delete pods",
    ],
    [
      new BlockTimeoutError("blue", 10_000, {
        cause: new KubeUnreachableError("Cannot reach it"),
      }),
      "no block came within 10 s; is coil-controller running?",
    ],
    [
      new QuarantinedError({ containerId: "c", ifname: "eth0" }),
      "its interface has an address in no block of this node; delete the pod, its replacement gets another address",
    ],
  ] as const
) {
  Deno.test(`explain() says once what ${error.name} is about`, () => {
    const explained = explain(error, context);
    const prefix = 'Cannot give pod "shop/web-0" an address of pool "blue": ';
    assert.equal(explained.message, prefix + text);
    const { details } = toCallError(explained);
    const behind = error.cause instanceof Error ? error.cause.message : "";
    assert.equal(details, behind);
  });
}

const UNSET = 'pool "default" is used because that annotation is not set';

for (
  const [from, error, text] of [
    [
      "pod",
      new PoolNotFoundError("blue"),
      'create it, or correct annotation "coil.cybozu.com/pool" of pod "shop/web-0" (pools: default, global)',
    ],
    [
      "pod",
      new PoolDeletingError("blue"),
      'choose another one by annotation "coil.cybozu.com/pool" of pod "shop/web-0"',
    ],
    [
      "pod",
      new PoolPausedError("blue"),
      'choose another one by annotation "coil.cybozu.com/pool" of pod "shop/web-0", or remove spec.paused of the pool',
    ],
    [
      "default",
      new PoolNotFoundError("default"),
      `create it, or set annotation "coil.cybozu.com/pool" of namespace "shop" (pools: default, global); ${UNSET}`,
    ],
    [
      "default",
      new PoolDeletingError("default"),
      `choose another one by annotation "coil.cybozu.com/pool" of namespace "shop"; ${UNSET}`,
    ],
    [
      "default",
      new PoolPausedError("default"),
      `choose another one by annotation "coil.cybozu.com/pool" of namespace "shop", or remove spec.paused of the pool; ${UNSET}`,
    ],
  ] as const
) {
  Deno.test(`explain() of ${error.name} names the annotation of a pool chosen by ${from}`, () => {
    const { message } = explain(error, { ...context, from });
    assert.ok(message.endsWith(`; ${text}`), message);
  });
}

Deno.test("toCallError() does not repeat in the details what the message says", () => {
  const cause = new Error("the name is taken");
  const { details } = toCallError(
    new Error(`Cannot go on: ${cause.message}`, { cause }),
  );
  assert.equal(details, "");
});

Deno.test("explain() does not advise to delete pods where another pool has the addresses", () => {
  const overlap = '10.4.0.0/26 is in AddressPool "first" too';
  const { message } = explain(
    new OutOfBlocksError("blue", undefined, overlap),
    context,
  );
  assert.match(message, /10\.4\.0\.0\/26 is in AddressPool "first" too/);
  assert.match(message, /remove the overlap, or append a subnet/);
  assert.doesNotMatch(message, /delete pods/);
});

Deno.test("isExhaustion() is true of a pool without free blocks, and of no other refusal", () => {
  assert.ok(isExhaustion(new OutOfBlocksError("blue")));
  for (
    const error of [
      new OutOfBlocksError("blue", "node block limit: it has all of them"),
      new PoolDeletingError("blue"),
      new PoolPausedError("blue"),
      new PoolNotFoundError("blue"),
      new BlockTimeoutError("blue", 10_000),
    ]
  ) {
    assert.ok(!isExhaustion(error), error.message);
  }
});

Deno.test("explain() passes on why the controller refuses a block, and does not call the pool used up", () => {
  const reason = "block refused: metadata.labels: must be at most 63 bytes";
  const { message } = explain(new OutOfBlocksError("blue", reason), {
    pod: { namespace: "shop", name: "web-0" },
    pool: "blue",
    from: "namespace",
    poolNames: () => ["blue"],
    heldBlocks: () => 0,
  });
  assert.ok(message.includes(reason), message);
  assert.ok(!message.includes("add a subnet"), message);
});
