// A pod that names 50 Egresses of 20 namespaces: more than coild follows.
import assert from "node:assert/strict";
import { eventually } from "../lab/mod.ts";
import { EgressLab, isServed, tunnelTo } from "./coild_egress_lab.ts";

const USER = "system:serviceaccount:kube-system:coild";
const EGRESSES = 50;
const NAMESPACES = 20;
/** Two watches for each of 16 namespaces. */
const MOST_WATCHES = 32;

interface Named {
  readonly name: string;
  readonly namespace: string;
  readonly destination: string;
}

const ALL: readonly Named[] = Array.from({ length: EGRESSES }, (_, n) => ({
  name: `e${n}`,
  namespace: `nat${String(n % NAMESPACES).padStart(2, "0")}`,
  destination: `198.51.100.${n}/32`,
}));

/** As annotations. */
function annotationsOf(egresses: readonly Named[]): Record<string, string> {
  const annotations: Record<string, string> = {};
  for (const { name, namespace } of egresses) {
    const key = `egress.coil.cybozu.com/${namespace}`;
    const before = annotations[key];
    annotations[key] = before === undefined ? name : `${before},${name}`;
  }
  return annotations;
}

Deno.test("coild makes a pod a client of 50 Egresses in 20 namespaces, and follows 16 of these", async (t) => {
  await using egress = await EgressLab.start("manyegresses", {
    audit: "metadata",
  });
  const { lab, plane } = egress;
  const namespaces = new Set(ALL.map(({ namespace }) => namespace));
  for (const namespace of namespaces) await lab.createNamespace(namespace);
  const services = new Map<string, string>();
  await Promise.all(ALL.map(async ({ name, namespace, destination }) => {
    const spec = { destinations: [destination] };
    const gateways = [{ address: "10.9.0.1", pod: "gw1" }];
    const [ipv4 = ""] = await egress.createEgress(name, spec, gateways, {
      namespace,
    });
    services.set(name, ipv4);
  }));
  const since = new Date();
  await using coild = await egress.coild(["--addressblock-gc-interval=1s"]);
  const pod = await lab.createPod("busy", { annotations: annotationsOf(ALL) });

  await t.step("all tunnels are there when ADD answers", async () => {
    await coild.addresses(pod);
    const client = await plane.of(pod);
    for (const { name, destination } of ALL) {
      const tunnel = tunnelTo(services.get(name) ?? "none");
      assert.ok(client?.tunnels.some((each) => tunnel.test(each)), name);
      assert.ok(client?.routes.some((each) => each.includes(destination)));
    }
    assert.equal(client?.tunnels.length, EGRESSES);
  });

  const watched = async () => {
    const requests = await lab.plane.auditRequests({ since, user: USER });
    const paths = requests.filter(({ verb }) => verb === "watch")
      .map(({ uri }) => new URL(uri, "https://server").pathname);
    return new Set(paths.filter((path) => path.includes("/namespaces/")));
  };

  await t.step("at most 16 namespaces are watched", async () => {
    await eventually("all watches", async () => {
      return (await watched()).size >= MOST_WATCHES;
    });
    assert.equal((await watched()).size, MOST_WATCHES);
  });

  await t.step("changes of the others are seen by inspections", async () => {
    const followed = [...await watched()].map((path) =>
      /\/namespaces\/([^/]+)/.exec(path)?.[1]
    );
    const others = ALL.filter(({ namespace }) => !followed.includes(namespace));
    assert.equal(new Set(others.map((o) => o.namespace)).size, 4);
    const [other] = others;
    assert.ok(other);
    const { name, namespace } = other;
    const spec = { destinations: ["203.0.113.7/32"] };
    await egress.applyEgress(name, spec, { namespace });
    await egress.until(
      "its new destination",
      pod,
      (client) =>
        client?.routes.some((route) => route.includes("203.0.113.7")) === true,
    );
    assert.equal((await watched()).size, MOST_WATCHES);
  });

  await t.step("and a client that has not changed is left alone", async () => {
    // The last watch may have shown its gateways just now.
    await egress.until("all gateways", pod, isServed);
    const before = await plane.changes(pod);
    const isInspected = async () => {
      const requests = await lab.plane.auditRequests({
        since: inspectedSince,
        user: USER,
      });
      return requests.filter(({ uri, verb }) =>
        verb === "get" && uri.includes("/egresses/e16")
      ).length >= 2;
    };
    const inspectedSince = new Date();
    await eventually("two inspections", isInspected);
    assert.equal(await plane.changes(pod), before);
  });
});
