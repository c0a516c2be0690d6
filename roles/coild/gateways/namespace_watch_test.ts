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
  /** Called while it is asked for. */
  onGet: (() => Promise<void>) | undefined;

  override async request(
    request: Parameters<MemoryApi["request"]>[0],
  ): ReturnType<MemoryApi["request"]> {
    if (request.path.includes("/services/")) {
      this.gets++;
      await this.onGet?.();
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

Deno.test("serviceOf() has the Service read again when EndpointSlices come and go: it may be another one", async () => {
  await following(async ({ api, address, reported }) => {
    await address();
    api.remove(SERVICE);
    api.remove("endpointslices/nat/one");
    await untilPasses(() => assert.equal(reported.length, 1));
    // A change of gateways does not wait for it.
    assert.equal(await address(), "10.8.0.1");
    await untilPasses(() => assert.equal(reported.length, 2));
    assert.equal(await address(), undefined);
    // One that is missing is asked for each time.
    assert.equal(await address(), undefined);
    assert.equal(api.gets, 4);
    api.putService("10.8.0.2");
    api.putSlice("two");
    await untilPasses(() => assert.equal(reported.length, 3));
    assert.equal(await address(), "10.8.0.2");
    assert.equal(await address(), "10.8.0.2");
    assert.equal(api.gets, 5);
  });
});

Deno.test("serviceOf() knows the Service when EndpointSlices come while it is read, and has it read again", async () => {
  await following(async ({ api, address, reported }) => {
    api.onGet = () => {
      api.onGet = undefined;
      api.putSlice("two");
      return untilPasses(() => assert.equal(reported.length, 1));
    };
    assert.equal(await address(), "10.8.0.1");
    await untilPasses(() => assert.equal(api.gets, 2));
  });
});

Deno.test("serviceOf() goes on with what is known while the API server is away, and asks until it answers", async () => {
  await following(async ({ api, address, reported }) => {
    await address();
    api.isAway = true;
    api.putSlice("two");
    await untilPasses(() => assert.equal(reported.length, 1));
    assert.equal(await address(), "10.8.0.1");
    await untilPasses(() => assert.equal(api.gets, 2));
    api.putService("10.8.0.2");
    api.isAway = false;
    await untilPasses(() => assert.equal(reported.length, 2));
    assert.equal(await address(), "10.8.0.2");
  });
});

Deno.test("doubtServices() reports Services with other addresses, though their EndpointSlices are the same", async () => {
  await following(async ({ api, watch, address, reported }) => {
    await address();
    watch.doubtServices();
    await untilPasses(() => assert.equal(api.gets, 2));
    api.putService("10.8.0.2");
    assert.equal(await address(), "10.8.0.1");
    assert.deepEqual(reported, []);
    watch.doubtServices();
    await untilPasses(() => assert.deepEqual(reported, ["nat/internet"]));
    assert.equal(await address(), "10.8.0.2");
  });
});
