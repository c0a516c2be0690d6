import assert from "node:assert/strict";
import { untilPasses } from "../../../lib/async/testing.ts";
import { KubeClient, type KubeObject } from "../../../lib/kube/mod.ts";
import { MemoryApi } from "../../../lib/kube/testing.ts";
import { GATEWAY_LABELS } from "../../../lib/api/mod.ts";
import { NamespaceWatch } from "./namespace_watch.ts";

const REF = { namespace: "nat", name: "internet" };
const SERVICE = "services/nat/internet";

/** Counts what is asked about the Service. */
class CountingApi extends MemoryApi {
  gets = 0;
  isAway = false;

  override async request(
    request: Parameters<MemoryApi["request"]>[0],
  ): ReturnType<MemoryApi["request"]> {
    if (request.path.includes("/services/")) {
      this.gets++;
      if (this.isAway) {
        return { status: 403, headers: new Headers(), body: "{}" };
      }
    }
    return await super.request(request);
  }

  putService(address: string): void {
    this.put<KubeObject & { spec: unknown }>("services", {
      metadata: REF,
      spec: { clusterIPs: [address] },
    });
  }

  putSlice(name: string, endpoints: readonly unknown[] = []): void {
    this.put<KubeObject & { endpoints: unknown }>("endpointslices", {
      metadata: {
        namespace: REF.namespace,
        name,
        labels: {
          ...GATEWAY_LABELS,
          "kubernetes.io/service-name": REF.name,
        },
      },
      endpoints,
    });
  }
}

/** Follows the namespace of an Egress with a Service, 10.8.0.1, and a slice. */
async function following(
  work: (f: {
    readonly api: CountingApi;
    readonly watch: NamespaceWatch;
    readonly signal: AbortSignal;
    /** The address that is known for the Service. */
    readonly address: () => Promise<string | undefined>;
    /** Egresses that were reported. */
    readonly reported: string[];
  }) => Promise<void>,
): Promise<void> {
  const api = new CountingApi();
  api.putService("10.8.0.1");
  api.putSlice("one");
  const reported: string[] = [];
  const watch = new NamespaceWatch(new KubeClient(api), {
    namespace: REF.namespace,
    onChange: (egress) => reported.push(egress),
  });
  const stop = new AbortController();
  const { signal } = stop;
  const running = watch.run(signal);
  await watch.slices.synced;
  reported.length = 0;
  const address = async () => {
    const service = await watch.serviceOf(REF, { signal });
    return service?.spec?.clusterIPs?.join();
  };
  await work({ api, watch, signal, address, reported });
  stop.abort();
  await running;
}

Deno.test("serviceOf() asks for a Service once, for all who wait, and not when endpoints change", async () => {
  await following(async ({ api, watch, address, reported }) => {
    assert.deepEqual(await Promise.all([address(), address()]), [
      "10.8.0.1",
      "10.8.0.1",
    ]);
    api.putSlice("one", [{ addresses: ["10.9.0.1"] }]);
    await untilPasses(() => assert.deepEqual(reported, ["nat/internet"]));
    assert.equal(watch.slicesOf("nat/internet").length, 1);
    assert.equal(await address(), "10.8.0.1");
    assert.equal(api.gets, 1);
  });
});

Deno.test("serviceOf() asks again when EndpointSlices come and go: it may be another Service", async () => {
  await following(async ({ api, watch, address, reported }) => {
    await address();
    api.remove(SERVICE);
    api.remove("endpointslices/nat/one");
    await untilPasses(() => assert.equal(reported.length, 1));
    assert.equal(await address(), undefined);
    // One that is missing is asked for each time.
    assert.equal(await address(), undefined);
    assert.equal(api.gets, 3);
    api.putService("10.8.0.2");
    api.putSlice("two");
    await untilPasses(() => assert.equal(reported.length, 2));
    assert.equal(await address(), "10.8.0.2");
    assert.equal(await address(), "10.8.0.2");
    assert.equal(watch.slicesOf("nat/internet").length, 1);
    assert.equal(api.gets, 4);
  });
});

Deno.test("serviceOf() fails while it cannot be asked whether the Service is the same, and asks again", async () => {
  await following(async ({ api, address, reported }) => {
    await address();
    api.isAway = true;
    assert.equal(await address(), "10.8.0.1");
    api.putSlice("two");
    await untilPasses(() => assert.equal(reported.length, 1));
    await assert.rejects(address(), /403/);
    api.isAway = false;
    assert.equal(await address(), "10.8.0.1");
  });
});

Deno.test("readServices() reports Services with other addresses, though their EndpointSlices are the same", async () => {
  await following(async ({ api, watch, address, reported, signal }) => {
    await address();
    await watch.readServices(signal);
    assert.deepEqual(reported, []);
    api.putService("10.8.0.2");
    assert.equal(await address(), "10.8.0.1");
    api.isAway = true;
    await watch.readServices(signal);
    assert.equal(await address(), "10.8.0.1");
    api.isAway = false;
    await watch.readServices(signal);
    assert.deepEqual(reported, ["nat/internet"]);
    assert.equal(await address(), "10.8.0.2");
    api.remove(SERVICE);
    await watch.readServices(signal);
    assert.equal(reported.length, 2);
    assert.equal(await address(), undefined);
  });
});
