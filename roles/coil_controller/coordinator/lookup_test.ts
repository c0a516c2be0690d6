import assert from "node:assert/strict";
import { KubeApiError, KubeClient } from "../../../lib/kube/mod.ts";
import { FakeTransport, MemoryApi } from "../../../lib/kube/testing.ts";
import { CidrsUnknownError } from "./cidr_list.ts";
import { Lookup } from "./lookup.ts";

const { signal } = new AbortController();

/** Looks at an API server that has the lists at these paths, and answers others with the status. */
function lookupOf(
  lists: Readonly<Record<string, readonly unknown[]>>,
  status: number = 404,
): Lookup {
  const transport = new FakeTransport(({ path }) => {
    const items = lists[path.replace(/\?.*$/, "")];
    return items === undefined
      ? { status, body: { kind: "Status", code: status } }
      : { body: { metadata: { resourceVersion: "1" }, items } };
  });
  return new Lookup(new KubeClient(transport), { signal });
}

const LOOKUPS = [
  "kubeadm",
  "manager",
  "cilium",
  "ciliumPools",
  "calico",
  "pools",
  "serviceCidrs",
] as const;

Deno.test("Lookup takes what the API server does not serve for absent, what it does not show for unknown, and what it could not answer for a failure", async () => {
  for (const name of LOOKUPS) {
    const found = await lookupOf({})[name]("pods");
    assert.ok(found === undefined || found.length === 0, name);
    await assert.rejects(lookupOf({}, 403)[name]("pods"), CidrsUnknownError);
    await assert.rejects(lookupOf({}, 400)[name]("pods"), KubeApiError, name);
  }
});

Deno.test("Lookup does not take objects without a valid CIDR for none", async () => {
  const lookup = lookupOf({
    "/apis/crd.projectcalico.org/v1/ippools": [made("a", 1, { cidr: "x" })],
  });
  await assert.rejects(lookup.calico(), CidrsUnknownError);
});

/** An object made on this day of a month; others follow by name. */
function made(name: string, day: number, spec: unknown, more: object = {}) {
  const creationTimestamp = `2026-01-${`${day}`.padStart(2, "0")}T00:00:00Z`;
  return { metadata: { name, creationTimestamp, ...more }, spec };
}

Deno.test("Lookup lists CIDRs oldest object first, and none of objects that are being deleted", async () => {
  const deletionTimestamp = "2026-02-01T00:00:00Z";
  const lookup = lookupOf({
    "/apis/networking.k8s.io/v1beta1/servicecidrs": [
      made("c", 2, { cidrs: ["10.3.0.0/16"] }),
      made("b", 2, { cidrs: ["10.2.0.0/16", "fd00::/108"] }),
      made("gone", 1, { cidrs: ["10.9.0.0/16"] }, { deletionTimestamp }),
      made("z", 1, { cidrs: ["10.1.0.0/16"] }),
      made("new", 3, undefined),
    ],
    "/apis/crd.projectcalico.org/v1/ippools": [
      made("b", 1, { cidr: "10.2.0.0/16", disabled: true }),
      made("a", 1, { cidr: "10.1.0.0/16" }),
    ],
    "/apis/cilium.io/v2alpha1/ciliumpodippools": [
      made("a", 1, {
        ipv4: { cidrs: ["10.1.0.0/16"] },
        ipv6: { cidrs: ["fd00::/64"] },
      }),
      made("b", 1, { ipv6: { cidrs: ["fd01::/64"] } }),
      made("c", 1, undefined),
    ],
    "/apis/coil.cybozu.com/v2/addresspools": [
      made("a", 2, { subnets: [{ ipv4: "10.1.0.0/16", ipv6: "fd00::/112" }] }),
      made("b", 1, { subnets: [{ ipv4: "10.2.0.0/16" }] }),
    ],
  });
  assert.deepEqual(
    await lookup.serviceCidrs(),
    ["10.1.0.0/16", "10.2.0.0/16", "fd00::/108", "10.3.0.0/16"],
  );
  assert.deepEqual(await lookup.calico(), ["10.1.0.0/16"]);
  assert.deepEqual(
    await lookup.ciliumPools(),
    ["10.1.0.0/16", "fd00::/64", "fd01::/64"],
  );
  assert.deepEqual(
    await lookup.pools(),
    ["10.2.0.0/16", "10.1.0.0/16", "fd00::/112"],
  );
});

Deno.test("Lookup reads the flags of the oldest kube-controller-manager", async () => {
  const api = new MemoryApi();
  const manager = () =>
    new Lookup(new KubeClient(api), { signal }).manager("pods");
  const put = (name: string, day: number, namespace = "kube-system") => {
    const labels = { component: name.replace(/-\d$/, "") };
    const command = [`--cluster-cidr=10.${day}.0.0/16`];
    const spec = { containers: [{ command }] };
    api.put("pods", made(name, day, spec, { namespace, labels }));
  };
  put("kube-apiserver-0", 1);
  put("kube-controller-manager-0", 2, "tenant");
  assert.equal(await manager(), undefined);
  put("kube-controller-manager-1", 4);
  put("kube-controller-manager-2", 3);
  assert.deepEqual(await manager(), ["10.3.0.0/16"]);
});

Deno.test("Lookup reads once what pods and Services both need", async () => {
  const transport = new FakeTransport(({ path }) =>
    path.includes("/pods")
      ? { body: { metadata: { resourceVersion: "1" }, items: [] } }
      : { body: {} }
  );
  const lookup = new Lookup(new KubeClient(transport), { signal });
  for (const kind of ["pods", "services"] as const) {
    await lookup.kubeadm(kind);
    await lookup.manager(kind);
  }
  assert.deepEqual(
    transport.requests.map(({ path }) => path.replace(/\?.*$/, "")),
    [
      "/api/v1/namespaces/kube-system/configmaps/kubeadm-config",
      "/api/v1/namespaces/kube-system/pods",
    ],
  );
});
