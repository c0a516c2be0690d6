import assert from "node:assert/strict";
import { untilStopped } from "../../lib/async/testing.ts";
import type { SpiderCoordinator } from "../../lib/api/mod.ts";
import type { V1Deployment } from "../../lib/kube/mod.ts";
import { type MemoryServer, serveTransport } from "../../lib/kube/testing.ts";
import { parseControllerFlags, runController } from "./mod.ts";
import { bindingNamed, egressOf, IpamLab } from "./testing.ts";

/** Where EC2 is said to be. */
const NOWHERE = new Map([
  ["AWS_EC2_METADATA_SERVICE_ENDPOINT", "http://127.0.0.1:1"],
]);

/** A controller as its flags make it, and an API server in memory. */
class Site implements AsyncDisposable {
  /** Its own controller is not started. */
  readonly lab = new IpamLab();
  readonly api = this.lab.api;
  readonly #stop = new AbortController();
  #server: MemoryServer | undefined;
  #running: Promise<void> = Promise.resolve();
  #ports: readonly number[] = [];

  async start(...flags: readonly string[]): Promise<this> {
    this.api.put("clusterrolebindings", bindingNamed("coil-egress"));
    this.api.put("egresses", egressOf());
    this.lab.ask("r1");
    this.#server = await serveTransport(this.api);
    this.#ports = [freePort(), freePort()];
    const [metrics, health] = this.#ports;
    const args = [
      `--metrics-addr=127.0.0.1:${metrics}`,
      `--health-addr=127.0.0.1:${health}`,
      "--egress-image=example.com/coil:1",
      ...flags,
    ];
    const info = { program: "coil-controller", version: "0", about: "" };
    const { kubeconfig } = this.#server;
    const options = {
      ...parseControllerFlags(args, info),
      kubeconfig,
      env: NOWHERE,
    };
    const { signal } = this.#stop;
    this.#running = untilStopped(runController(options, signal), signal);
    return this;
  }

  /** Status and body of what it serves. */
  async get(which: "metrics" | "health", path: string): Promise<string> {
    const port = this.#ports[which === "metrics" ? 0 : 1];
    const response = await fetch(`http://127.0.0.1:${port}${path}`);
    return `${response.status} ${await response.text()}`;
  }

  /** What was done of the two halves' work. */
  get done() {
    return {
      leases: this.api.keys.filter((key) => key.startsWith("leases/")),
      block: this.lab.answerOf("r1"),
      gateways: this.deployment !== undefined,
    };
  }

  get deployment(): V1Deployment | undefined {
    return this.api.get("deployments/internet/nat");
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort();
    await this.#running;
    await this.#server?.[Symbol.asyncDispose]();
  }
}

function freePort(): number {
  using listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  return listener.addr.port;
}

const IPAM = { leases: ["leases/kube-system/coil-ipam-leader"] };
const EGRESS = { leases: ["leases/kube-system/coil-egress-leader"] };

for (
  const [flags, done] of [
    [[], {
      leases: [...EGRESS.leases, ...IPAM.leases],
      block: "default-0",
      gateways: true,
    }],
    [
      ["--enable-egress=false"],
      { ...IPAM, block: "default-0", gateways: false },
    ],
    [
      ["--enable-ipam=false"],
      { ...EGRESS, block: undefined, gateways: true },
    ],
  ] as const
) {
  Deno.test(`a controller ${flags.join() || "without flags"} leads and works`, async () => {
    await using site = await new Site().start(...flags);
    await site.lab.until(() => assert.deepEqual(site.done, done));
    await site.lab.quiet();
    assert.deepEqual(site.done, done);
    assert.match(await site.get("health", "/readyz"), /^200 /);
    assert.match(await site.get("health", "/healthz"), /^200 /);
    const metrics = await site.get("metrics", "/metrics");
    assert.match(metrics, /^200 /);
    for (
      const [name, isThere] of [
        ['coil_controller_max_blocks{pool="default"} 4', !!done.block],
        ["coil_controller_egress_ready{", done.gateways],
      ] as const
    ) {
      assert.equal(metrics.includes(name), isThere, name);
    }
  });
}

Deno.test("a controller of SpiderCoordinator alone leads and works", async () => {
  await using site = new Site();
  site.api.put("spidercoordinators", {
    metadata: { name: "default" },
    spec: { podCIDRType: "none" },
  });
  await site.start(
    ...["--enable-ipam=false", "--enable-egress=false"],
    "--enable-coordinator",
  );
  await site.lab.until(() => {
    const resource = site.api.get<SpiderCoordinator>(
      "spidercoordinators//default",
    );
    assert.equal(resource?.status?.phase, "NotReady");
  });
  assert.deepEqual(site.done, {
    leases: ["leases/kube-system/coil-coordinator-leader"],
    block: undefined,
    gateways: false,
  });
});

Deno.test("a controller gives gateways what its flags say", async () => {
  await using site = await new Site().start(
    ...["--egress-image=example.com/x:2", "--egress-port=5556"],
    ...["--lease-namespace=leases", "--drain-timeout=60s"],
  );
  await site.lab.until(() => assert.ok(site.deployment));
  const { spec } = site.deployment?.spec?.template ?? {};
  const [{ image, args = [] } = {}] = spec?.containers ?? [];
  assert.equal(image, "example.com/x:2");
  assert.ok(args.includes("--fou-port=5556"), args.join());
  assert.equal(spec?.terminationGracePeriodSeconds, 90);
  assert.ok(site.api.get("leases/leases/coil-egress-leader"));
});

Deno.test("a controller that only deletes ENIs leads, and lives without EC2", async () => {
  await using site = await new Site().start(
    ...["--enable-ipam=false", "--enable-egress=false"],
    "--vpc-sweep-cluster=prod",
  );
  await site.lab.until(async () => {
    const metrics = await site.get("metrics", "/metrics");
    assert.match(metrics, /coil_controller_vpc_sweep_errors_total [1-9]/);
  });
  assert.deepEqual(site.done, {
    leases: ["leases/kube-system/coil-vpc-sweep-leader"],
    block: undefined,
    gateways: false,
  });
  assert.match(await site.get("health", "/readyz"), /^200 /);
});

Deno.test("a controller whose metrics need authorization refuses who has none", async () => {
  await using site = await new Site().start("--metrics-auth");
  await site.lab.until(() => assert.ok(site.deployment));
  assert.match(await site.get("metrics", "/metrics"), /^401 /);
});

Deno.test("a controller of which everything is disabled does not start", async () => {
  const info = { program: "coil-controller", version: "0", about: "" };
  const args = ["--enable-ipam=false", "--enable-egress=false"];
  const { signal } = new AbortController();
  await assert.rejects(
    runController(parseControllerFlags(args, info), signal),
    /are all false, so there is nothing to do/,
  );
});
