import assert from "node:assert/strict";
import { type Pool, poolOf } from "../../../lib/api/mod.ts";
import { CommandError } from "../../../lib/command/mod.ts";
import { type LivePod, livePodOf } from "../../../lib/eviction/mod.ts";
import type { V1Namespace } from "../../../lib/kube/mod.ts";
import { nameText, POOL_ANNOTATION } from "../../../lib/names/mod.ts";
import {
  checkHomes,
  cordonOf,
  type DrainTarget,
  planDrain,
  planText,
  rangeOf,
} from "./plan.ts";

function pool(
  name: string,
  subnets: readonly string[],
  spec: { readonly paused?: boolean; readonly reserved?: string[] } = {},
): Pool {
  return poolOf({
    apiVersion: "coil.cybozu.com/v2",
    kind: "AddressPool",
    metadata: { name },
    spec: {
      ...spec,
      blockSizeBits: 3,
      subnets: subnets.map((subnet) => {
        const [ipv4 = "", ipv6] = subnet.split(" ");
        return ipv6 === undefined ? { ipv4 } : { ipv4, ipv6 };
      }),
    },
  });
}

function pod(
  key: string,
  addresses: readonly string[],
  { lonely = false, fixed = false, pools }: {
    readonly lonely?: boolean;
    readonly fixed?: boolean;
    readonly pools?: string;
  } = {},
): LivePod {
  const [namespace = "", name = ""] = key.split("/");
  const controller = { apiVersion: "apps/v1", kind: "ReplicaSet", name: "r" };
  return livePodOf({
    metadata: {
      namespace,
      name,
      annotations: {
        ...fixed ? { "kubernetes.io/config.mirror": "x" } : {},
        ...pools === undefined ? {} : { "coil.cybozu.com/pool": pools },
      },
      ownerReferences: lonely
        ? []
        : [{ ...controller, uid: "u", controller: true }],
    },
    spec: { nodeName: "n1", containers: [] },
    status: { podIPs: addresses.map((ip) => ({ ip })) },
  });
}

function namespace(name: string, pools?: string): V1Namespace {
  const annotations = pools === undefined ? {} : { [POOL_ANNOTATION]: pools };
  return { metadata: { name, annotations } };
}

const DUAL = pool("a", ["10.2.0.0/24 fd02::/120", "10.3.0.0/24 fd03::/120"]);

function names(pods: readonly LivePod[]): string[] {
  return pods.map(nameText);
}

Deno.test("planDrain() takes the pods with an address of the pool, or of the range in either family", () => {
  const pods = [
    pod("x/second", ["10.3.0.1", "fd03::1"]),
    pod("x/first", ["10.2.0.9"]),
    pod("x/other", ["10.4.0.1"]),
    pod("x/alone", ["10.2.0.1"], { lonely: true }),
    pod("x/file", ["10.2.0.2"], { fixed: true }),
  ];
  const view = { pools: [DUAL], namespaces: [], pods };
  const all = planDrain({ pool: DUAL }, view);
  assert.deepEqual(names(all.toReplace), ["x/first", "x/second"]);
  assert.deepEqual(
    all.kept.map(({ pod, why }) => [nameText(pod), why]),
    [["x/alone", "no controller"], ["x/file", "static pod"]],
  );
  const part = (range: string) =>
    names(
      planDrain({ pool: DUAL, range: rangeOf(DUAL, range) }, view).toReplace,
    );
  assert.deepEqual(part("10.3.0.0/24"), ["x/second"]);
  assert.deepEqual(part("fd03::/121"), ["x/second"]);
  assert.deepEqual(part("10.2.0.10-10.2.0.20"), []);
  assert.deepEqual(part("10.2.0.9"), ["x/first"]);
});

Deno.test("rangeOf() refuses what is not within one subnet, and names the subnets", () => {
  for (const text of ["10.4.0.0/24", "10.2.0.0/16", "10.2.0.250-10.3.0.5"]) {
    assert.throws(() => rangeOf(DUAL, text), (error) => {
      assert.ok(error instanceof CommandError);
      assert.match(error.message, /not within one subnet .*10\.2\.0\.0\/24/);
      return true;
    });
  }
  assert.throws(() => rangeOf(DUAL, "x"), /neither an address, a range/);
});

Deno.test("cordonOf() pauses a pool, or adds the range to what is reserved as it was written", () => {
  const whole: DrainTarget = { pool: DUAL };
  assert.deepEqual(cordonOf(whole, {}), { paused: true });
  const paused = pool("a", ["10.2.0.0/24"], { paused: true });
  assert.equal(cordonOf({ pool: paused }, {}), undefined);
  const reserved = ["10.2.0.7", "10.2.0.128/25"];
  const some = pool("a", ["10.2.0.0/24"], { reserved });
  const cordon = (text: string) =>
    cordonOf({ pool: some, range: rangeOf(some, text) }, { reserved });
  assert.deepEqual(cordon("10.2.0.0/24"), {
    reserved: [...reserved, "10.2.0.0/24"],
  });
  assert.equal(cordon("10.2.0.130-10.2.0.140"), undefined);
});

Deno.test("checkHomes() refuses to evict pods of namespaces that name no other pool which gives addresses", () => {
  const pools = [
    DUAL,
    pool("b", ["10.4.0.0/24"]),
    pool("c", ["10.5.0.0/24"], { paused: true }),
  ];
  const namespaces = [
    namespace("good", "a,b"),
    namespace("alone", "a"),
    namespace("paused", "a, c"),
    namespace("gone", "a,d"),
    namespace("default-pool"),
  ];
  const pods = namespaces.map(({ metadata }, index) =>
    pod(`${metadata?.name}/x`, [`10.2.0.${index + 1}`])
  );
  const view = { pools, namespaces, pods };
  const plan = planDrain({ pool: DUAL }, view);
  assert.deepEqual(plan.homeless, ["alone", "default-pool", "gone", "paused"]);
  assert.throws(
    () => checkHomes({ pool: DUAL }, plan),
    /no other pool that gives addresses: alone, default-pool, gone, paused\n/,
  );
  const range = rangeOf(DUAL, "10.2.0.0/24");
  assert.deepEqual(planDrain({ pool: DUAL, range }, view).homeless, []);
});

Deno.test("planText() says how many pods of which node, and which are kept", () => {
  const pods = [
    pod("x/a", ["10.2.0.1"]),
    pod("x/b", ["10.2.0.2"], { lonely: true }),
  ];
  const plan = planDrain({ pool: DUAL }, { pools: [], namespaces: [], pods });
  assert.equal(
    planText({ pool: DUAL }, plan, { evict: true }),
    `1 pod to replace, on 1 node
  node n1: 1 pod
  x/b on node n1: kept: no controller
`,
  );
  assert.match(
    planText({ pool: DUAL }, plan, { evict: true, force: true }),
    /\n {2}x\/b on node n1: no controller, deleted for good\n$/,
  );
  assert.equal(
    planText({ pool: DUAL }, { ...plan, toReplace: [], kept: [] }, {
      evict: true,
    }),
    "No pods to replace\n",
  );
  assert.match(
    planText({ pool: DUAL }, plan, { evict: false }),
    /^2 pods with addresses of AddressPool "a"\n[^]*x\/b on node n1: not evictable/,
  );
});

Deno.test("a pod that names its pools itself needs another one of those, where its namespace lets it name them", () => {
  const pools = [DUAL, pool("b", ["10.4.0.0/24"])];
  const lists = (name: string, list?: string) => ({
    metadata: {
      name,
      annotations: {
        "coil.cybozu.com/pool": "b",
        ...list !== undefined && { "coil.cybozu.com/pod-pools": list },
      },
    },
  });
  const pods = [
    pod("lists/only", ["10.2.0.1"], { pools: "a" }),
    pod("lists/both", ["10.2.0.2"], { pools: "a,b" }),
    pod("lists/usual", ["10.2.0.3"]),
    pod("unlisted/ignored", ["10.2.0.4"], { pools: "a" }),
    pod("others/refused", ["10.2.0.5"], { pools: "b" }),
  ];
  const namespaces = [
    lists("lists", "a,b"),
    lists("unlisted"),
    lists("others", "c"),
  ];
  const { homeless } = planDrain({ pool: DUAL }, { pools, namespaces, pods });
  assert.deepEqual(homeless, ["pod lists/only", "pod others/refused"]);
});
