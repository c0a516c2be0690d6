// During an update a gateway and coil-controller are of different versions, in
// either way. The earlier version writes no EgressClientSlices, and its gateways
// read pods; it is run from its sources under today's CRDs and rights.
import assert from "node:assert/strict";
import { postAnnouncement } from "./announcing.ts";
import * as path from "node:path";
import { EGRESS_SELECTOR } from "../../lib/api/mod.ts";
import { blocksOf } from "../arch/pages.ts";
import { binDir, eventually, type LabProcess, run } from "../lab/mod.ts";
import { ClientsKernel } from "./clients_kernel.ts";
import { coilCommand, fromSources } from "./coild_lab.ts";
import {
  assertClients,
  CLIENT,
  EGRESS,
  EgressLab,
  NAMESPACE,
  untilReady,
} from "./egress_gateway_lab.ts";
import { hasFormer, writeFormer } from "./former_sources.ts";

const DEPLOYMENT =
  `/apis/apps/v1/namespaces/${NAMESPACE}/deployments/${EGRESS}`;
const SERVICES = `/api/v1/namespaces/${NAMESPACE}/services?labelSelector=${
  encodeURIComponent(EGRESS_SELECTOR)
}`;
const LEASE =
  "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/coil-egress-leader";
const NODE_COILD = "coild-node1";
const BLOCK = "default-1";
/** How a gateway answers who announces itself with a token that it does not know. */
const UNAUTHORIZED = 401;

type Command = readonly [string, ...string[]];

/** A cluster that has both versions. */
class Mixed implements AsyncDisposable {
  readonly lab: EgressLab;
  /** Directory of the earlier version's sources. */
  readonly former: string;
  #processes = 0;

  private constructor(lab: EgressLab, former: string) {
    this.lab = lab;
    this.former = former;
  }

  static async start(name: string): Promise<Mixed> {
    const lab = await EgressLab.start(name);
    await using undo = new AsyncDisposableStack();
    undo.use(lab);
    await lab.createPod(NODE_COILD, {
      namespace: "kube-system",
      serviceAccount: "coild",
    });
    await lab.createBlock(BLOCK, "node1");
    const former = path.join(lab.plane.runDir, "former");
    await writeFormer(former);
    const own = new URL("./", import.meta.url).pathname;
    await Deno.mkdir(`${former}/tests/apiserver`, { recursive: true });
    for (const file of ["mixed_gateway_main.ts", "clients_kernel.ts"]) {
      await Deno.copyFile(own + file, `${former}/tests/apiserver/${file}`);
    }
    undo.move();
    return new Mixed(lab, former);
  }

  /** Starts a coil-controller of egresses, and returns when it leads. */
  async startController(version: "former" | "current"): Promise<LabProcess> {
    const [command, ...args]: Command = version === "current"
      ? coilCommand("coil-controller")
      : fromSources(`${this.former}/main.ts`, "coil-controller");
    const before = await this.#holder();
    const controller = await this.lab.plane.startProcess({
      id: `controller-${++this.#processes}`,
      command,
      args: [
        ...args,
        ...["--metrics-addr=0", "--health-addr=0", "--enable-ipam=false"],
        `--egress-image=example.com/coil:${version}`,
      ],
      serviceAccount: { namespace: "kube-system", name: "coil-controller" },
    });
    await eventually(`coil-controller (${version}) to lead`, async () => {
      const holder = await this.#holder();
      return holder !== "" && holder !== before;
    });
    await eventually(`its Deployment (${version})`, async () => {
      const text = JSON.stringify(
        await this.lab.plane.request("GET", DEPLOYMENT),
      );
      return text.includes(`example.com/coil:${version}`);
    });
    // Of either version: coild takes the way to its clients' gateways from it.
    await eventually("its Service, as coild selects it", async () => {
      const { items } = await this.lab.plane.request("GET", SERVICES) as {
        items: { metadata: { name: string } }[];
      };
      return items.map(({ metadata }) => metadata.name).join() === EGRESS;
    });
    return controller;
  }

  async #holder(): Promise<string> {
    const lease = await this.lab.plane.request("GET", LEASE)
      .catch(() => ({})) as { spec?: { holderIdentity?: string } };
    return lease.spec?.holderIdentity ?? "";
  }

  /** Starts a gateway of the earlier version. */
  async startFormerGateway(): Promise<FormerGateway> {
    const { plane } = this.lab;
    const number = ++this.#processes;
    const file = path.join(plane.runDir, `clients-${number}`);
    const host = `127.31.${plane.subnet.index}.${number}`;
    const program = `${this.former}/tests/apiserver/mixed_gateway_main.ts`;
    const [command, ...args] = fromSources(program, file, host);
    const process = await plane.startProcess({
      id: `gateway-${number}`,
      command,
      args,
      serviceAccount: { namespace: NAMESPACE, name: "coil-egress" },
    });
    return {
      process,
      host,
      clients: () => Deno.readTextFile(file).catch(() => ""),
      async [Symbol.asyncDispose]() {
        await process.stop();
      },
    };
  }

  /** Announces a client of node1 as this version's coild does; returns the answer's status. */
  async announce(host: string, name: string, address: string, uid: string) {
    const token = await this.lab.token({ pod: NODE_COILD });
    const client = { token, name, uid, address, block: BLOCK };
    const url = `http://${host}:9385/v1/clients`;
    const response = await postAnnouncement(url, client);
    await response.body?.cancel();
    return response.status;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.lab[Symbol.asyncDispose]();
  }
}

interface FormerGateway extends AsyncDisposable {
  readonly process: LabProcess;
  readonly host: string;
  /** Addresses of its clients, sorted, with blanks between. */
  readonly clients: () => Promise<string>;
}

/** The commands of decision 0024 for gateways that are kept on an earlier version. */
async function rightsCommands(): Promise<string> {
  const page = "docs/decisions/0024-client-slices.md";
  const text = await Deno.readTextFile(
    new URL(`../../${page}`, import.meta.url),
  );
  const blocks = blocksOf({ path: page, text });
  assert.equal(blocks.length, 1);
  return blocks[0]?.text ?? "";
}

// A clone without history does not have the earlier version.
if (await hasFormer()) {
  Deno.test("a gateway of this version beside the earlier coil-controller: it waits for slices, keeps what it has, and catches up", async (t) => {
    await using mixed = await Mixed.start("egressmixed");
    const { lab } = mixed;
    const numbers = Array.from({ length: 150 }, (_, n) => n);
    const kept = numbers.map((n) => `10.1.7.${n}`);
    await Promise.all(
      numbers.map((n) =>
        lab.runPod(`pod-${n}`, [`10.1.7.${n}`], { annotations: CLIENT })
      ),
    );
    const kernel = new ClientsKernel();
    for (const address of kept) kernel.clients.add(address);
    let controller = await mixed.startController("former");
    await using gateway = await lab.startGateway({ kernel, isAlone: true });
    const { hostname: host } = new URL(gateway.announceUrl);

    await t.step(
      "without slices it is not ready, and the kernel is left as its predecessor had it",
      async () => {
        const waiting = /Waiting for the EgressClientSlices of the Egress/;
        await eventually(
          "the record",
          () => gateway.logs.some((line) => waiting.test(line)),
        );
        assert.equal((await gateway.ready()).status, 500);
        assert.deepEqual(await lab.slices(), []);
        assert.deepEqual(kernel.calls, []);
      },
    );

    await t.step(
      "this version's controller: it begins with all clients",
      async () => {
        await controller.stop();
        controller = await mixed.startController("current");
        await untilReady(gateway);
        assert.deepEqual(kernel.calls, ["set 150"]);
        assert.deepEqual([...kernel.removed], []);
      },
    );

    const late = { name: "late", address: "10.1.8.1" };
    await t.step(
      "back to the earlier one: it keeps its clients, and gets none that slices do not have",
      async () => {
        await controller.stop();
        controller = await mixed.startController("former");
        await lab.deletePod("pod-0");
        const uid = await lab.createPod(late.name, { annotations: CLIENT });
        // The lease is renewed, so a controller is there that knows better.
        const { name, address } = late;
        assert.equal(await mixed.announce(host, name, address, uid), 404);
        await lab.setStatus(name, [address]);
        assert.equal((await gateway.ready()).status, 200);
        await assertClients(kernel, kept);
      },
    );

    await t.step("and forward again: it catches up", async () => {
      await controller.stop();
      controller = await mixed.startController("current");
      await assertClients(kernel, [...kept.slice(1), late.address]);
      assert.deepEqual([...kernel.removed], ["10.1.7.0"]);
      await controller.stop();
    });
  });

  Deno.test("a gateway of the earlier version beside this coil-controller: it goes on as long as it may read pods", async (t) => {
    await using mixed = await Mixed.start("egressformer");
    const { lab } = mixed;
    const kubectl = async (commands: string) =>
      await run("bash", ["-euo", "pipefail", "-c", commands], {
        env: {
          KUBECONFIG: lab.plane.kubeconfig,
          PATH: `${binDir()}:${Deno.env.get("PATH")}`,
        },
      });
    await lab.runPod("a", ["10.1.7.1"], { annotations: CLIENT });
    await lab.runPod("plain", ["10.1.7.9"]);
    const controller = await mixed.startController("current");
    await eventually(
      "the slices",
      async () => (await lab.clientNames()).join() === "a",
    );
    const has = (gateway: FormerGateway, clients: string) =>
      eventually(
        `the clients ${clients}`,
        async () => await gateway.clients() === clients,
      );
    /** Whether its pod counts as ready. */
    const status = async ({ host }: FormerGateway) => {
      const response = await fetch(`http://${host}:9387/readyz`);
      await response.body?.cancel();
      return response.status;
    };

    await t.step(
      "without the right it does not begin, and touches nothing",
      async () => {
        await using gateway = await mixed.startFormerGateway();
        await eventually(
          "the refusal",
          async () => /forbidden/.test(await gateway.process.logs()),
        );
        await eventually(
          "word that it is not ready",
          async () => await status(gateway) === 500,
        );
        assert.equal(await gateway.clients(), "");
      },
    );

    await kubectl(await rightsCommands());
    await using gateway = await mixed.startFormerGateway();
    await t.step(
      "with the right that the decision gives it, it follows its clients",
      async () => {
        await has(gateway, "10.1.7.1");
        await eventually(
          "readiness",
          async () => await status(gateway) === 200,
        );
        const uid = await lab.createPod("b", { annotations: CLIENT });
        // The token is for this Egress alone, and the gateway knows another audience.
        const answer = await mixed.announce(gateway.host, "b", "10.1.7.2", uid);
        assert.equal(answer, UNAUTHORIZED);
        await lab.setStatus("b", ["10.1.7.2"]);
        await has(gateway, "10.1.7.1 10.1.7.2");
        await lab.deletePod("a");
        await has(gateway, "10.1.7.2");
      },
    );

    await t.step(
      "when it loses the right, it goes on for as long as its watch lasts",
      async () => {
        await kubectl("kubectl delete clusterrolebinding coil-egress-pods");
        await lab.runPod("c", ["10.1.7.3"], { annotations: CLIENT });
        await has(gateway, "10.1.7.2 10.1.7.3");
      },
    );
    await controller.stop();
  });
}
